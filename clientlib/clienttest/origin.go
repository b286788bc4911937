// Package clienttest has an HTTP origin that misbehaves on request, for tests
// of programs that use this library and for demonstrations.
package clienttest

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Origin is an http.Handler whose behaviour is in the request's path and query,
// and which counts the requests that reached it. Durations are Go durations.
//
//	/ok                            200 with a short body
//	/hang                          never answers
//	/slow?delay=1s                 answers after the delay
//	/drip?n=8&every=500ms          headers at once, then n bytes, one every so often
//	/status?code=503&times=2       the status, that many times per key, then 200;
//	                               times absent: always. &retry_after= sets the header
//	/reset                         closes the connection without an answer
//	/rst                           the same by a TCP reset, where there is TCP
//	/cut?n=8                       announces more than n bytes, sends n, closes
//	/cuthead                       closes the connection within the headers
//	/abort?n=8                     headers and n bytes, then an aborted body; on
//	                               HTTP/2 by resetting the stream
//	/slowheaders?n=8&every=500ms   the headers one byte every so often, n bytes of
//	                               them, then the rest
//	/garbage                       answers with something that is not HTTP
//	/redirect?n=3&to=/ok           n redirects, then the target; &delay= before each
//	/events?n=8&every=500ms        text/event-stream, n events
//	/upgrade?n=8&every=500ms       101 to the protocol that was asked for, n bytes,
//	                               one every so often, then closes
//	/echo                          200 with the request's body
//
// A query parameter key separates counters of tests that share an origin. The
// zero value is ready to use; it is safe for concurrent use.
type Origin struct {
	mu       sync.Mutex
	requests map[string]int
	headers  []http.Header
}

// Requests returns how many requests reached a path.
func (o *Origin) Requests(path string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.requests[path]
}

// Headers returns the headers of all requests in the order of arrival.
func (o *Origin) Headers() []http.Header {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]http.Header(nil), o.headers...)
}

// Reset forgets all counts.
func (o *Origin) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests, o.headers = nil, nil
}

// count notes a request and returns how many of its key there were, it
// included.
func (o *Origin) count(r *http.Request) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.requests == nil {
		o.requests = map[string]int{}
	}
	o.requests[r.URL.Path]++
	o.headers = append(o.headers, r.Header.Clone())
	key := r.URL.Path + "?" + r.URL.Query().Get("key")
	if key != r.URL.Path+"?" {
		o.requests[key]++
		return o.requests[key]
	}
	return o.requests[r.URL.Path]
}

// ServeHTTP misbehaves as the request asks.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := o.count(r)
	q := query{r}
	if r.URL.Path != "/echo" {
		// A server sees that its client left once the body is read.
		_, _ = io.Copy(io.Discard, r.Body)
	}
	switch r.URL.Path {
	case "/ok":
		fmt.Fprintln(w, "ok")
	case "/hang":
		<-r.Context().Done()
	case "/slow":
		if sleep(r, q.duration("delay", time.Second)) {
			fmt.Fprintln(w, "late")
		}
	case "/drip":
		drip(w, r, "application/octet-stream", "x", q)
	case "/events":
		drip(w, r, "text/event-stream", "data: x\n\n", q)
	case "/status":
		status(w, q, n)
	case "/reset":
		hijack(w, "")
	case "/rst":
		hijackReset(w)
	case "/cuthead":
		hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n")
	case "/abort":
		abort(w, q)
	case "/slowheaders":
		slowHeaders(w, q)
	case "/cut":
		hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"+string(make([]byte, q.number("n", 8))))
	case "/garbage":
		hijack(w, "this is not HTTP\r\n\r\n")
	case "/redirect":
		redirect(w, r, q)
	case "/upgrade":
		upgrade(w, r, q)
	case "/echo":
		_, _ = io.Copy(w, r.Body)
	default:
		http.NotFound(w, r)
	}
}

func drip(w http.ResponseWriter, r *http.Request, mediaType, piece string, q query) {
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(http.StatusOK)
	flush(w)
	for range q.number("n", 8) {
		if !sleep(r, q.duration("every", 500*time.Millisecond)) {
			return
		}
		if _, err := io.WriteString(w, piece); err != nil {
			return
		}
		flush(w)
	}
}

func status(w http.ResponseWriter, q query, n int) {
	if times := q.number("times", 0); times > 0 && n > times {
		fmt.Fprintln(w, "ok")
		return
	}
	if after := q.text("retry_after"); after != "" {
		w.Header().Set("Retry-After", after)
	}
	w.WriteHeader(q.number("code", http.StatusServiceUnavailable))
	fmt.Fprintln(w, "failed")
}

func redirect(w http.ResponseWriter, r *http.Request, q query) {
	if !sleep(r, q.duration("delay", 0)) {
		return
	}
	to, n := q.text("to"), q.number("n", 1)
	if to == "" {
		to = "/ok"
	}
	if n > 1 {
		values := r.URL.Query()
		values.Set("n", strconv.Itoa(n-1))
		to = "/redirect?" + values.Encode()
	}
	http.Redirect(w, r, to, http.StatusTemporaryRedirect)
}

// hijack takes the connection over, writes raw bytes and closes it.
func hijack(w http.ResponseWriter, raw string) {
	if conn := takeOver(w); conn != nil {
		_, _ = io.WriteString(conn, raw)
		_ = conn.Close()
	}
}

// takeOver returns the connection, nil where it cannot be had.
func takeOver(w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "this needs HTTP/1.1: "+err.Error(), http.StatusHTTPVersionNotSupported)
		return nil
	}
	return conn
}

// hijackReset closes the connection so that the peer gets a TCP reset.
func hijackReset(w http.ResponseWriter) {
	conn := takeOver(w)
	if conn == nil {
		return
	}
	raw := conn
	if t, ok := conn.(*tls.Conn); ok {
		raw = t.NetConn()
	}
	if t, ok := raw.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = raw.Close()
}

// abort breaks a body off in the way of the protocol.
func abort(w http.ResponseWriter, q query) {
	_, _ = w.Write(make([]byte, q.number("n", 8)))
	flush(w)
	panic(http.ErrAbortHandler)
}

func slowHeaders(w http.ResponseWriter, q query) {
	conn := takeOver(w)
	if conn == nil {
		return
	}
	defer conn.Close()
	n, every := q.number("n", 8), q.duration("every", 500*time.Millisecond)
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"
	for i := range min(n, len(head)) {
		// The connection is ours: that its client left shows in the write.
		if _, err := io.WriteString(conn, head[i:i+1]); err != nil {
			return
		}
		<-time.After(every)
	}
	_, _ = io.WriteString(conn, head[min(n, len(head)):])
}

// upgrade switches protocols, which only works on HTTP/1.1.
func upgrade(w http.ResponseWriter, r *http.Request, q query) {
	protocol := r.Header.Get("Upgrade")
	if protocol == "" {
		http.Error(w, "ask for a protocol with the headers Connection: Upgrade and Upgrade: NAME", http.StatusUpgradeRequired)
		return
	}
	conn := takeOver(w)
	if conn == nil {
		return
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol); err != nil {
		return
	}
	for range q.number("n", 8) {
		<-time.After(q.duration("every", 500*time.Millisecond))
		if _, err := io.WriteString(conn, "x"); err != nil {
			return
		}
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// sleep waits, unless the client goes away first.
func sleep(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// query reads parameters, with a value for those that are absent or malformed.
type query struct{ r *http.Request }

func (q query) text(name string) string { return q.r.URL.Query().Get(name) }

func (q query) number(name string, absent int) int {
	if n, err := strconv.Atoi(q.text(name)); err == nil && n >= 0 {
		return n
	}
	return absent
}

func (q query) duration(name string, absent time.Duration) time.Duration {
	if d, err := time.ParseDuration(q.text(name)); err == nil {
		return d
	}
	return absent
}
