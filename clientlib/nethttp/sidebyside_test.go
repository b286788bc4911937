package nethttp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every behaviour of net/http that a caller can see, once through a bare
// http.Client and once through ours with every rule in force, against the same
// server: the transcripts must be equal. The list of what was compared is the
// table of TestBesideABareClient.

// everything is a policy with all rules, none of which has anything to do here.
const everything = `"timeouts":{"total":"1m","attempt":"50s","connect":"40s","responseHeader":"40s","bodyIdle":"40s"},
	"retry":{"maxAttempts":3,"retryableStatusCodes":[599],"budget":{"percent":10,"burst":10}},
	"circuitBreaker":{"failures":3},"deadline":{}`

// transcript is what a caller sees, line by line.
type transcript struct{ lines []string }

func (tr *transcript) add(format string, args ...any) {
	tr.lines = append(tr.lines, fmt.Sprintf(format, args...))
}

// response notes all of a response, its body and trailers included.
func (tr *transcript) response(resp *http.Response, err error) {
	if err != nil {
		var family *url.Error
		tr.add("error of net/http's family: %t, timeout %t", errors.As(err, &family), family != nil && family.Timeout())
		return
	}
	tr.add("%s %s, length %d, encoding %v, uncompressed %t, close %t, TLS %t", resp.Proto, resp.Status,
		resp.ContentLength, resp.TransferEncoding, resp.Uncompressed, resp.Close, resp.TLS != nil)
	body, err := io.ReadAll(resp.Body)
	tr.add("body %d bytes %x, %v", len(body), sha256.Sum256(body), err)
	if len(body) < 2000 {
		tr.add("%s", body)
	}
	n, err := resp.Body.Read(make([]byte, 1))
	tr.add("read at the end: %d %v", n, err)
	tr.add("close: %v, again: %v", resp.Body.Close(), resp.Body.Close())
	n, err = resp.Body.Read(make([]byte, 1))
	tr.add("read after close: %d, failed %t", n, err != nil)
	tr.header("header", resp.Header)
	tr.header("trailer", resp.Trailer)
	tr.add("request %s %s", resp.Request.Method, resp.Request.URL.Path)
}

func (tr *transcript) header(what string, h http.Header) {
	for _, k := range slices.Sorted(maps.Keys(h)) {
		if k != "Date" {
			tr.add("%s %s: %q", what, k, h[k])
		}
	}
}

// mirror tells a caller what arrived, or answers as the path asks.
func mirror(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/trailers":
		w.Header().Set("Trailer", "Checksum")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("Checksum", "7")
		w.Header().Set(http.TrailerPrefix+"Late", "yes")
	case "/204":
		w.WriteHeader(http.StatusNoContent)
	case "/304":
		w.WriteHeader(http.StatusNotModified)
	case "/gzip":
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, r.Header.Get("Accept-Encoding"))
		_ = z.Close()
	case "/large":
		_, _ = w.Write(bytes.Repeat([]byte("0123456789abcdef"), 1<<16))
	case "/close":
		w.Header().Set("Connection", "close")
	case "/refuse":
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	case "/cookie":
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes", Path: "/"})
		http.Redirect(w, r, "/inspect", http.StatusFound)
	case "/redirect":
		code, _ := strconv.Atoi(r.URL.Query().Get("code"))
		w.Header().Set("Location", "/inspect?hop=1")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "see there")
	case "/noLocation":
		w.WriteHeader(http.StatusFound)
	case "/loop":
		http.Redirect(w, r, "/loop", http.StatusFound)
	case "/early":
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "late")
	case "/status":
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "down")
	default:
		inspect(w, r)
	}
}

func inspect(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var tr transcript
	tr.add("%s %s %s, length %d, encoding %v, body %q %v", r.Method, r.URL.RequestURI(), r.Proto, r.ContentLength, r.TransferEncoding, body, err)
	tr.header("header", r.Header)
	tr.header("trailer", r.Trailer)
	_, _ = io.WriteString(w, strings.Join(tr.lines, "\n"))
}

// watchedBody is a request body that tells what was done to it.
type watchedBody struct {
	io.Reader
	once   sync.Once
	closed chan struct{}
}

func watched(text string) *watchedBody {
	return &watchedBody{Reader: strings.NewReader(text), closed: make(chan struct{})}
}

func (b *watchedBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

func TestBesideABareClient(t *testing.T) {
	type run func(t *testing.T, c *http.Client, base *http.Transport, server string, tr *transcript)
	do := func(method, path string, body func() io.Reader, change ...func(*http.Request)) run {
		return func(t *testing.T, c *http.Client, _ *http.Transport, server string, tr *transcript) {
			var reader io.Reader
			if body != nil {
				reader = body()
			}
			req, err := http.NewRequest(method, server+path, reader)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range change {
				f(req)
			}
			before := frozen(req)
			resp, err := c.Do(req)
			tr.response(resp, err)
			if resp != nil {
				tr.add(isTheCallers, resp.Request == req)
			}
			if w, ok := req.Body.(*watchedBody); ok {
				<-w.closed // or the test ends with its timeout
			}
			if after := frozen(req); after != before {
				t.Errorf("the request was changed from\n%s\nto\n%s", before, after)
			}
		}
	}
	text := func(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }
	stream := func(s string) func() io.Reader { return func() io.Reader { return watched(s) } }
	header := func(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, v) } }
	length := func(n int64) func(*http.Request) { return func(r *http.Request) { r.ContentLength = n } }

	cases := map[string]run{
		"GET":                              do("GET", "/inspect?q=1", nil),
		"method empty":                     do("GET", "/inspect", nil, func(r *http.Request) { r.Method = "" }),
		"HEAD":                             do("HEAD", "/inspect", nil),
		"204":                              do("GET", "/204", nil),
		"304":                              do("GET", "/304", nil),
		"503":                              do("GET", "/status", nil),
		"early hints":                      do("GET", "/early", nil),
		"trailers of the response":         do("GET", "/trailers", nil),
		"gzip":                             do("GET", "/gzip", nil),
		"gzip asked for by the caller":     do("GET", "/gzip", nil, header("Accept-Encoding", "gzip")),
		"1 MiB":                            do("GET", "/large", nil),
		"connection closed":                do("GET", "/close", nil),
		"request asks to close":            do("GET", "/inspect", nil, func(r *http.Request) { r.Close = true }),
		"another Host":                     do("GET", "/inspect", nil, func(r *http.Request) { r.Host = "shop.example" }),
		"basic auth":                       do("GET", "/inspect", nil, func(r *http.Request) { r.SetBasicAuth("a", "b") }),
		"body with GetBody":                do("POST", "/inspect", text("payload")),
		"body of unknown length":           do("POST", "/inspect", stream("payload")),
		"body of unknown length, repeated": do("PUT", "/inspect", stream("payload")),
		"length -1":                        do("PUT", "/inspect", stream("payload"), length(-1)),
		"length given":                     do("PUT", "/inspect", stream("payload"), length(7)),
		"length too long":                  do("PUT", "/inspect", stream("payload"), length(30)),
		"empty body that is not nil":       do("PUT", "/inspect", stream("")),
		"empty body, POST":                 do("POST", "/inspect", stream("")),
		"http.NoBody":                      do("POST", "/inspect", func() io.Reader { return http.NoBody }),
		"large body":                       do("PUT", "/inspect", stream(strings.Repeat("x", 1000))),
		"body nobody reads":                do("POST", "/refuse", stream("payload")),
		"100-continue":                     do("PUT", "/inspect", stream("payload"), header("Expect", "100-continue")),
		"100-continue refused":             do("PUT", "/refuse", stream("payload"), header("Expect", "100-continue")),
		"trailers of the request": do("PUT", "/inspect", stream("payload"), func(r *http.Request) {
			r.Trailer = http.Header{"Sum": {"1"}}
		}),
		"a body that fails": do("PUT", "/inspect", func() io.Reader {
			return &watchedBody{Reader: io.MultiReader(strings.NewReader("pay"), failing{}), closed: make(chan struct{})}
		}),
		"URL without host":           do("GET", "", nil, func(r *http.Request) { r.URL = &url.URL{Scheme: "http"} }),
		"unknown scheme":             do("GET", "", nil, func(r *http.Request) { r.URL.Scheme = "gopher" }),
		"method that is none":        do("GET", "", nil, func(r *http.Request) { r.Method = "A B" }),
		"header that is none":        do("GET", "", nil, func(r *http.Request) { r.Header["A B"] = []string{"c"} }),
		"body with a wrong request":  do("PUT", "", stream("x"), func(r *http.Request) { r.Header["A B"] = []string{"c"} }),
		"a redirect to nowhere":      do("GET", "/noLocation", nil),
		"redirects without an end":   do("GET", "/loop", nil),
		"context dead on arrival":    do("PUT", "/inspect", stream("payload"), dead),
		"nil header":                 do("GET", "/inspect", nil, func(r *http.Request) { r.Header = nil }),
		"cookies":                    cookies,
		"hooks":                      hooks,
		"CheckRedirect":              checkRedirect,
		"CheckRedirect that refuses": refuseRedirect,
		"CloseIdleConnections":       closeIdle,
		"Proxy":                      throughProxy,
		"read slowly":                readSlowly,
		"closed early":               closeEarly,
	}
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT"} {
			path := fmt.Sprintf("/redirect?code=%d", code)
			name := fmt.Sprintf("%d of %s", code, method)
			cases[name] = do(method, path, nil)
			if method[0] == 'P' {
				cases[name+" with GetBody"] = do(method, path, text("payload"))
				cases[name+" without GetBody"] = do(method, path, stream("payload"))
			}
		}
	}
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			server, base := serve(t, protocol, http.HandlerFunc(mirror))
			base.ExpectContinueTimeout = 5 * time.Second
			for _, name := range slices.Sorted(maps.Keys(cases)) {
				t.Run(name, func(t *testing.T) {
					var bare, ours transcript
					other := base.Clone()
					cases[name](t, &http.Client{Transport: other}, other, server, &bare)
					other.CloseIdleConnections()
					mine := base.Clone()
					cases[name](t, overSockets(t, everything, mine).http, mine, server, &ours)
					compare(t, bare.lines, ours.lines)
				})
			}
		})
	}
}

// net/http's HTTP/2 hands out a copy of its own where the request has a body. We
// never do.
const (
	isTheCallers  = "the response's request is the caller's: %t"
	notTheCallers = "the response's request is the caller's: false"
)

func compare(t *testing.T, bare, ours []string) {
	t.Helper()
	for i := range max(len(bare), len(ours)) {
		var b, o string
		if i < len(bare) {
			b = bare[i]
		}
		if i < len(ours) {
			o = ours[i]
		}
		if b != o && b != notTheCallers {
			t.Errorf("line %d\nbare: %s\nours: %s", i+1, b, o)
		}
	}
}

// frozen is all of a request that a transport could change.
func frozen(r *http.Request) string {
	return fmt.Sprintf("%s %v %v %p %t %d %v %t %s %v %v %v %p %p", r.Method, r.URL, r.Header, r.Body, r.GetBody != nil,
		r.ContentLength, r.TransferEncoding, r.Close, r.Host, r.Form, r.Trailer, r.RequestURI, r.TLS, r.Context())
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

func dead(r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	*r = *r.WithContext(ctx)
}

func cookies(t *testing.T, c *http.Client, _ *http.Transport, server string, tr *transcript) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Jar = jar
	tr.response(c.Get(server + "/cookie"))
	tr.response(c.Get(server + "/inspect"))
	u, _ := url.Parse(server)
	tr.add("jar %v", jar.Cookies(u))
}

func hooks(t *testing.T, c *http.Client, _ *http.Transport, server string, tr *transcript) {
	var mu sync.Mutex
	seen, wrote := map[string]int{}, make(chan struct{})
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		seen[what]++
	}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GetConn:              func(string) { note("GetConn") },
		GotConn:              func(httptrace.GotConnInfo) { note("GotConn") },
		GotFirstResponseByte: func() { note("GotFirstResponseByte") },
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			note(strconv.Itoa(code))
			return nil
		},
		WroteHeaders: func() { note("WroteHeaders") },
		WroteRequest: func(httptrace.WroteRequestInfo) { note("WroteRequest"); close(wrote) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/early", nil)
	if err != nil {
		t.Fatal(err)
	}
	tr.response(c.Do(req))
	<-wrote // which may come after the response
	mu.Lock()
	defer mu.Unlock()
	tr.add("%v", seen)
}

func checkRedirect(_ *testing.T, c *http.Client, _ *http.Transport, server string, tr *transcript) {
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		tr.add("%s %s after %d, answered by %d", req.Method, req.URL.Path, len(via), req.Response.StatusCode)
		return nil
	}
	tr.response(c.Get(server + "/redirect?code=302"))
}

func refuseRedirect(_ *testing.T, c *http.Client, _ *http.Transport, server string, tr *transcript) {
	no := errors.New("no further")
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return no }
	resp, err := c.Get(server + "/redirect?code=302")
	tr.add("response %t, refused %t", resp != nil, errors.Is(err, no))
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	tr.response(c.Get(server + "/redirect?code=302"))
}

func closeIdle(t *testing.T, c *http.Client, base *http.Transport, server string, tr *transcript) {
	for _, closing := range []bool{false, false, true} {
		if closing {
			c.CloseIdleConnections()
		}
		var reused bool
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused },
		})
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/inspect", nil)
		if err != nil {
			t.Fatal(err)
		}
		tr.response(c.Do(req))
		if closing && !base.Protocols.HTTP2() && !base.Protocols.UnencryptedHTTP2() {
			// HTTP/2 notes a moment later that a connection
			// is idle.
			tr.add("reused %t", reused)
		}
	}
}

func throughProxy(t *testing.T, c *http.Client, base *http.Transport, server string, tr *transcript) {
	if strings.HasPrefix(server, "https") || base.Protocols.UnencryptedHTTP2() {
		return // a tunnel says nothing about us, and HTTP/2 has no plain proxies
	}
	var seen []string
	proxy, _ := serve(t, "HTTP/1.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+strconv.FormatBool(r.URL.IsAbs()))
		(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}}).ServeHTTP(w, r)
	}))
	u, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	base.Proxy = http.ProxyURL(u)
	defer func() { base.Proxy = nil }()
	c.CloseIdleConnections()
	tr.response(c.Get(server + "/204"))
	tr.add("%v", seen)
}

// readSlowly reads 1 MiB in small pieces long after the call returned (T02, M2).
func readSlowly(t *testing.T, c *http.Client, _ *http.Transport, server string, tr *transcript) {
	resp, err := c.Get(server + "/large")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	sum, piece := sha256.New(), make([]byte, 1000)
	for {
		n, err := resp.Body.Read(piece)
		sum.Write(piece[:n])
		if err != nil {
			tr.add("%x %v", sum.Sum(nil), err)
			return
		}
	}
}

// closeEarly closes a body from another goroutine while it is read.
func closeEarly(t *testing.T, c *http.Client, _ *http.Transport, server string, tr *transcript) {
	resp, err := c.Get(server + "/large")
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, resp.Body) })
	tr.add("close: %v", resp.Body.Close())
	reading.Wait()
	tr.response(c.Get(server + "/inspect"))
}
