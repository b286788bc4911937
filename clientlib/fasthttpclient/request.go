package fasthttpclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/textproto"
	"os"
	"sync/atomic"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/valyala/fasthttp"
)

// outgoing is the request of an attempt: the caller's own where nothing is added to
// it, else a copy.
type outgoing struct {
	own  *fasthttp.Request
	copy *fasthttp.Request // nil for none
	body *requestBody
}

// header returns what may be added to.
func (o *outgoing) header() *fasthttp.RequestHeader { return &o.copied().Header }

// copied makes a copy of everything but a body in memory, which is shared.
func (o *outgoing) copied() *fasthttp.Request {
	if o.copy == nil {
		o.copy = fasthttp.AcquireRequest()
		o.own.Header.CopyTo(&o.copy.Header)
		o.copy.SetURI(o.own.URI())
		o.copy.UseHostHeader = o.own.UseHostHeader
		o.body.copyTo(o.copy)
	}
	return o.copy
}

// release gives the copy back.
func (o *outgoing) release() {
	if o.copy != nil {
		fasthttp.ReleaseRequest(o.copy)
		o.copy = nil
	}
}

// trace begins the trace of the attempt.
func (a *attempt) trace(out *outgoing) {
	if f := a.flight; f.Traced() {
		info := engine.AttemptInfo{Method: method(out.own), URL: urlOf(out.own)}
		f.TraceAttempt(f.ctx, info, carrier{out.header()})
	}
}

// write sends the request, now that there is a connection.
func (a *attempt) write(out *outgoing) error {
	name, text, err := a.stamp()
	if err != nil {
		return err
	}
	if text != "" || name != "" && hasHeader(&out.own.Header, name) {
		dropHeader(out.header(), name)
	}
	if text != "" {
		out.header().Set(name, text)
	}
	req := out.own
	if out.copy != nil || out.body.capture != nil {
		req = out.copied()
	}
	release := out.body.guard(a, out.own)
	defer release()
	return a.exchange.write(req)
}

// lapsedError is an attempt whose connection took what could have been told the
// peer.
type lapsedError struct{ attribution engine.Attribution }

func (e *lapsedError) Error() string { return "the wait for a connection left too little time" }

// stamp returns what the peer is told of the time left, now that there is a
// connection; no text for nothing, no name where it is none of the policy's business.
func (a *attempt) stamp() (name, text string, err error) {
	f := a.flight
	if name = f.DeadlineHeader(); name == "" {
		return "", "", nil
	}
	now := f.Now()
	if attribution, lapsed := f.Lapsed(now); lapsed {
		return "", "", &lapsedError{attribution}
	}
	text, _ = f.StampText(now)
	return name, text, nil
}

// hasHeader reports whether a field is there in any spelling: fasthttp can be told
// to leave names as they are.
func hasHeader(h *fasthttp.RequestHeader, name string) bool {
	for key := range h.All() {
		if bytes.EqualFold(key, []byte(name)) {
			return true
		}
	}
	return false
}

// dropHeader takes a field away in all its spellings.
func dropHeader(h *fasthttp.RequestHeader, name string) {
	var spelled []string
	for key := range h.All() {
		if bytes.EqualFold(key, []byte(name)) {
			spelled = append(spelled, string(key))
		}
	}
	for _, key := range spelled {
		h.Del(key)
	}
}

// headerMap is for the rare question whether a header makes a call repeatable.
func headerMap(req *fasthttp.Request) map[string][]string {
	m := map[string][]string{}
	for key, value := range req.Header.All() {
		name := textproto.CanonicalMIMEHeaderKey(string(key))
		m[name] = append(m[name], string(value))
	}
	return m
}

// carrier lets a trace write into the headers of one attempt.
type carrier struct{ header *fasthttp.RequestHeader }

func (c carrier) Get(key string) string { return string(c.header.Peek(key)) }
func (c carrier) Set(key, value string) { c.header.Set(key, value) }

func (c carrier) Keys() []string {
	var keys []string
	for key := range c.header.All() {
		keys = append(keys, string(key))
	}
	return keys
}

// requestBody gives each attempt the whole body, as far as that can be done: one in
// memory as it is, a stream by a bounded copy of what was read of it.
type requestBody struct {
	req     *fasthttp.Request
	stream  bool
	size    int // of a stream, as fasthttp knows it; negative for not
	capture *capture
	used    bool // an attempt took the stream without closing it
}

func newRequestBody(req *fasthttp.Request, p *engine.Policy) requestBody {
	b := requestBody{req: req, stream: req.IsBodyStream()}
	if b.stream {
		b.size = sizeOf(req)
	}
	if b.stream && p.MaxAttempts > 1 && !p.Shadow {
		limit := p.ReplayBytes
		if int64(b.size) > limit {
			limit = 0
		}
		b.capture = &capture{source: req.BodyStream(), limit: limit}
	}
	return b
}

// sizeOf is what fasthttp knows of the length of a stream, negative for nothing.
func sizeOf(req *fasthttp.Request) int {
	size := req.Header.ContentLength()
	if l, ok := req.BodyStream().(*io.LimitedReader); ok && size < 0 {
		return int(l.N)
	}
	return size
}

// replayable reports whether another attempt can send the whole body.
func (b *requestBody) replayable() bool {
	return !b.stream || b.capture != nil && !b.capture.lost.Load()
}

// copyTo gives the request of an attempt its body.
func (b *requestBody) copyTo(out *fasthttp.Request) {
	switch {
	case b.capture != nil:
		b.capture.offset, b.used = 0, true
		out.SetBodyStream(b.capture, b.size)
	case b.stream:
		b.used = true
		out.SetBodyStream(struct{ io.Reader }{b.req.BodyStream()}, b.size) // closed by settle
	default:
		body := b.req.Body()
		if len(body) == 0 {
			body = b.req.PostArgs().QueryString()
		}
		out.SetBodyRaw(body)
	}
}

// guard makes the end of the attempt end a stream that may be blocked, where it is
// one that can be closed while it is read. It returns what ends the guard. What
// blocks otherwise is waited for: nobody may go on reading the caller's stream
// after the call.
func (b *requestBody) guard(a *attempt, req *fasthttp.Request) (release func()) {
	if !b.stream || a.Done() == nil {
		return func() {}
	}
	var closer io.Closer
	switch s := req.BodyStream().(type) {
	case *io.PipeReader:
		closer = s
	case net.Conn: // what fasthttp makes of a SetBodyStreamWriter, among others
		closer = s
	case *os.File:
		closer = s
	default:
		return func() {}
	}
	stop := context.AfterFunc(&a.Scope, func() {
		if b.capture == nil || b.capture.giveUp() {
			_ = closer.Close()
		}
	})
	return func() { stop() }
}

// settle says that no other attempt follows: a stream that was read is closed, as
// fasthttp does.
func (b *requestBody) settle() {
	if b.used {
		_ = b.req.CloseBodyStream()
	}
}

var errOverflow = errors.New("fasthttpclient: the part of the body already sent was longer than retry.maxReplayBytes")

// capture keeps what is read from a stream, up to a limit, so that it can be read
// again from its beginning. One goroutine reads at a time.
type capture struct {
	source io.Reader
	limit  int64
	kept   []byte
	total  int64 // read from the source so far
	offset int64 // of the attempt under way
	err    error // of the source, io.EOF included

	// reading says that the source is being waited for; lost that what was read
	// cannot be had again.
	reading, lost atomic.Bool
}

// giveUp reports whether the source is being waited for; it is then lost.
func (c *capture) giveUp() bool {
	if !c.reading.Load() {
		return false
	}
	c.lost.Store(true)
	return true
}

// Read serves what is kept first, then the source.
func (c *capture) Read(p []byte) (int, error) {
	switch {
	case c.offset < int64(len(c.kept)):
		n := copy(p, c.kept[c.offset:])
		c.offset += int64(n)
		return n, nil
	case c.offset < c.total:
		return 0, errOverflow
	case c.err != nil:
		return 0, c.err
	}
	c.reading.Store(true)
	n, err := c.source.Read(p)
	c.reading.Store(false)
	c.keep(p[:n])
	c.err = err
	c.offset += int64(n)
	return n, err
}

// keep remembers what was read, or gives up when it is too much.
func (c *capture) keep(p []byte) {
	c.total += int64(len(p))
	if c.total > c.limit {
		c.kept = nil
		c.lost.Store(true)
		return
	}
	c.kept = append(c.kept, p...)
}
