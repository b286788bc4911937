package nethttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// requestBody gives each attempt of a hop a request body of its own, as far as
// that can be done: by GetBody, or by a bounded copy of what the first attempt
// reads. It never seeks in a reader that an earlier attempt may still hold.
type requestBody struct {
	req     *http.Request
	capture *capture
	used    bool
}

// prepare has a copy made of a body that may have to be sent again under a policy
// and cannot be had again.
func (b *requestBody) prepare(p *engine.Policy) {
	if b.empty() || b.req.GetBody != nil || p.MaxAttempts <= 1 || p.Shadow {
		return
	}
	limit := p.ReplayBytes
	if b.req.ContentLength > limit {
		limit = 0
	}
	b.capture = newCapture(b.req.Body, limit)
}

func (b *requestBody) empty() bool { return b.req.Body == nil || b.req.Body == http.NoBody }

// replayable reports whether another attempt can send the whole body.
func (b *requestBody) replayable() bool {
	switch {
	case b.empty(), b.req.GetBody != nil:
		return true
	case b.capture != nil:
		return !b.capture.overflow.Load()
	default:
		return false
	}
}

// bodyError is a request body that could not be had.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "request body: " + e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

// attach gives the request of an attempt its body.
func (b *requestBody) attach(out *http.Request) error {
	first := !b.used
	b.used = true
	switch {
	case b.capture != nil:
		out.Body = b.capture.view()
		out.GetBody = b.capture.getBody
	case b.empty():
	case first:
		out.Body = b.named(out.Body)
	default:
		body, err := b.req.GetBody()
		if err != nil {
			return &bodyError{fmt.Errorf("GetBody: %w", err)}
		}
		out.Body = b.named(body)
	}
	return nil
}

// named makes the errors of a body say that they are its own: net/http hands them
// on as they are, and an io.ErrUnexpectedEOF of an upload that is passed on would
// count against the peer. What http.NewRequest gives a GetBody is in memory, and
// known by its WriteTo; it never fails.
func (b *requestBody) named(body io.ReadCloser) io.ReadCloser {
	if _, memory := body.(io.WriterTo); memory && b.req.GetBody != nil {
		return body
	}
	return &namedBody{body}
}

type namedBody struct{ io.ReadCloser }

func (b *namedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = &bodyError{err}
	}
	return n, err
}

// guard makes the end of ctx unblock the request body of an attempt, and returns
// what ends that again. net/http's HTTP/1 waits for its writer before it returns,
// even with a dead context, and that writer may be waiting for a body that never
// comes. Bodies with a GetBody are in memory or files and do not block.
func (b *requestBody) guard(ctx *engine.Scope, body io.ReadCloser) (release func()) {
	if b.empty() || b.req.GetBody != nil || ctx.Done() == nil {
		return func() {}
	}
	view, ok := body.(*captureView)
	if !ok {
		stop := context.AfterFunc(ctx, func() { _ = body.Close() })
		return func() { stop() }
	}
	stop := context.AfterFunc(ctx, view.abandon)
	return func() {
		// HTTP/2 does not wait for its writer: whether another attempt can have the
		// body is known when it was given up, which may be about to happen.
		if !stop() || ctx.Err() != nil {
			view.abandon()
		}
	}
}

// unused closes the body where no attempt came to read it.
func (b *requestBody) unused() {
	if !b.used && b.capture == nil {
		closeBody(b.req)
	}
}

var (
	errViewClosed = errors.New("read of a closed request body")
	errOverflow   = errors.New("the part already sent was longer than retry.maxReplayBytes")
	// errLost is what net/http's own repetition fails with: the connection broke.
	errLost = errors.New("the connection broke, and the request body cannot be sent again")
)

// capture keeps what is read from a request body, up to a limit, so that it can
// be read again from its beginning. Each attempt reads a view of its own. A
// view of an earlier attempt that is still blocked in a read loses nothing:
// what it gets is kept for the next view. No lock is held while the source is
// read or closed, so a source that blocks holds up nobody but its reader.
type capture struct {
	source io.ReadCloser
	limit  int64

	mu      sync.Mutex
	changed sync.Cond    // the reader is done, or a view was closed
	reader  *captureView // who is reading the source, nil for nobody
	kept    []byte
	total   int64 // read from source so far
	err     error // of source, io.EOF included
	settled bool
	open    int // views not closed yet
	closed  bool

	overflow atomic.Bool
}

func newCapture(source io.ReadCloser, limit int64) *capture {
	c := &capture{source: source, limit: limit}
	c.changed.L = &c.mu
	return c
}

func (c *capture) view() io.ReadCloser {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	return &captureView{capture: c}
}

// getBody is Request.GetBody of an attempt, for repetitions inside net/http.
func (c *capture) getBody() (io.ReadCloser, error) {
	if c.overflow.Load() {
		return nil, errLost
	}
	return c.view(), nil
}

// settle says that no other attempt follows: the source is closed as soon as
// no view is open.
func (c *capture) settle() { c.release(func() { c.settled = true }) }

// release changes the state and closes the source when nobody needs it any
// more; once, and without the lock.
func (c *capture) release(change func()) {
	c.mu.Lock()
	change()
	last := c.settled && c.open == 0 && !c.closed
	c.closed = c.closed || last
	c.changed.Broadcast()
	c.mu.Unlock()
	if last {
		_ = c.source.Close()
	}
}

type captureView struct {
	capture *capture
	// Guarded by the capture's lock:
	offset int64
	closed bool
}

// Read serves what is kept first, then the source.
func (v *captureView) Read(p []byte) (int, error) {
	c := v.capture
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.reader != nil && !v.closed && v.offset >= c.total {
		c.changed.Wait()
	}
	switch {
	case v.closed:
		return 0, errViewClosed
	case v.offset < int64(len(c.kept)):
		n := copy(p, c.kept[v.offset:])
		v.offset += int64(n)
		return n, nil
	case v.offset < c.total:
		return 0, &bodyError{errOverflow}
	case c.err != nil:
		return 0, c.err
	}
	return v.readSource(p)
}

// readSource is called with the lock and returns with it.
func (v *captureView) readSource(p []byte) (int, error) {
	c := v.capture
	c.reader = v
	c.mu.Unlock()
	n, err := c.source.Read(p)
	c.mu.Lock()
	c.reader = nil
	c.keep(p[:n])
	if err != nil && err != io.EOF {
		err = &bodyError{err}
	}
	c.err = err
	v.offset += int64(n)
	c.changed.Broadcast()
	return n, err
}

// keep remembers what was read, or gives up when it is too much.
func (c *capture) keep(p []byte) {
	c.total += int64(len(p))
	if c.total > c.limit {
		c.kept = nil
		c.overflow.Store(true)
		return
	}
	c.kept = append(c.kept, p...)
}

// abandon closes the view of an attempt that is over. Where that attempt is still
// waiting for the source, the source is given up: only closing it can end that.
func (v *captureView) abandon() {
	c := v.capture
	c.release(func() {
		v.shut()
		if c.reader == v {
			c.overflow.Store(true)
			c.settled, c.open = true, 0
		}
	})
}

// Close does not wait for a read that is blocked.
func (v *captureView) Close() error {
	v.capture.release(v.shut)
	return nil
}

// shut is called with the lock.
func (v *captureView) shut() {
	if !v.closed {
		v.closed = true
		v.capture.open--
	}
}
