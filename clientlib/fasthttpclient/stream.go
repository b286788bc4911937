package fasthttpclient

import (
	"bufio"
	"bytes"
	"io"
	"sync"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/valyala/fasthttp"
)

// stream is the body of a response that the caller reads from the connection. As
// fasthttp's own, it can be closed by fasthttp.ReadCloserWithError, by
// CloseBodyStream, or by releasing the response; and closed while it is read.
type stream struct {
	exchange *exchange
	attempt  *attempt // nil for a call without limits
	// response is the caller's; it is touched by Read alone.
	response *fasthttp.Response
	// source is a response of our own, which has fasthttp's reader of the body.
	source *fasthttp.Response

	mu  sync.Mutex // held while the source is read, released or both
	err error      // what Read returns from now on, nil while the body is open
}

// newStream makes the body of a response, whose headers were read, a stream.
func newStream(x *exchange, resp *fasthttp.Response, a *attempt) *stream {
	s := &stream{exchange: x, attempt: a, response: resp, source: fasthttp.AcquireResponse()}
	resp.Header.CopyTo(&s.source.Header)
	s.source.StreamBody = true
	_ = s.source.ReadBody(x.br, 0) // reads nothing yet
	resp.SetBodyStream(s, resp.Header.ContentLength())
	return s
}

// Read reads the response body under the limits of the call.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.source.BodyStream().Read(p)
	if err == nil {
		return n, nil
	}
	if err == io.EOF && !s.cut() {
		s.copyTrailers()
	}
	s.end(err)
	return n, s.err
}

// cut reports whether a limit passed: what looks like the end of the body then is
// none, a server that sees its client leave may end it in good order.
func (s *stream) cut() bool {
	return s.attempt != nil && (s.exchange.interrupted() || s.attempt.Fired() != engine.LimitNone)
}

// end ends the body for an error, io.EOF included. It is called with the lock.
func (s *stream) end(err error) {
	whole := err == io.EOF && !s.cut()
	switch {
	case s.attempt == nil:
		s.exchange.release(whole)
		s.err = err
	case whole:
		s.attempt.finish(true)
		s.attempt.ok()
		s.err = err
	default:
		s.err = s.attempt.bodyFailed(err)
	}
	s.free()
}

// free gives up the source, once nobody reads.
func (s *stream) free() {
	fasthttp.ReleaseResponse(s.source)
	s.source = nil
}

// copyTrailers gives the caller what came after the body, in the way in which
// fasthttp reads it. The caller may have changed the headers meanwhile.
func (s *stream) copyTrailers() {
	text := s.source.Header.TrailerHeader()
	if len(text) <= len("\r\n") {
		return
	}
	// What was read once can be read again.
	_ = s.response.Header.ReadTrailer(bufio.NewReaderSize(bytes.NewReader(text), len(text)))
}

// CloseWithError ends the body for its caller. A Read under way is interrupted.
// A connection whose body was not read to its end is closed.
func (s *stream) CloseWithError(error) error {
	if !s.mu.TryLock() {
		s.exchange.interrupt()
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.err != nil {
		return nil
	}
	empty := s.source.Header.ContentLength() == 0
	s.err = io.ErrClosedPipe
	if s.attempt == nil {
		s.exchange.release(empty)
	} else {
		s.attempt.finish(empty)
		s.attempt.ok()
	}
	s.free()
	return nil
}

// abandon is called when the attempt was interrupted. A Read under way finds
// out by itself; a body that nobody reads gives its connection up here.
func (s *stream) abandon() {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if s.err == nil {
		s.end(nil)
	}
}
