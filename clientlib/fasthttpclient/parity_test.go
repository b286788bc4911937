package fasthttpclient_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient"
	"github.com/valyala/fasthttp"
)

// What a response is, whoever reads it.
type reading struct {
	Header, Body, Trailers string
	Status                 int
	Err                    bool
	Remote                 bool
	Conns                  int // open after the response was read and closed
}

type doer interface {
	Do(req *fasthttp.Request, resp *fasthttp.Response) error
	ConnsCount() int
}

func read(c doer, req *fasthttp.Request, resp *fasthttp.Response) reading {
	err := c.Do(req, resp)
	r := reading{Status: resp.StatusCode(), Remote: resp.RemoteAddr() != nil}
	if err == nil && resp.IsBodyStream() {
		var body []byte
		body, err = io.ReadAll(resp.BodyStream())
		r.Body = string(body)
		r.Header, r.Trailers = resp.Header.String(), string(resp.Header.TrailerHeader())
		_ = resp.CloseBodyStream()
	} else {
		r.Header, r.Trailers = resp.Header.String(), string(resp.Header.TrailerHeader())
		r.Body = string(resp.Body())
	}
	r.Header = withoutLine(r.Header, "Date: ") // fasthttp makes one up, by the second
	r.Err = err != nil
	r.Conns = c.ConnsCount()
	return r
}

// threeClients are a client of fasthttp's, the same client under a policy that
// looks at everything and limits nothing, and beside a policy for another host.
func threeClients(t testing.TB, base *fasthttp.Client) []doer {
	base.MaxIdemponentCallAttempts = 1
	t.Cleanup(base.CloseIdleConnections)
	clients := []doer{base}
	for _, host := range []string{"127.0.0.1", "elsewhere"} {
		doc := rules(t, `"timeouts":{"total":"1m","attempt":"50s","responseHeader":"40s","bodyIdle":"30s"}`, host)
		clients = append(clients, newBench(t, doc, base).client.Fasthttp())
	}
	return clients
}

// Responses mean under a policy what they mean to fasthttp.
func TestResponsesAreReadAsFasthttpReadsThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, response string
		skip             bool
	}{
		"content length":         {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nX-A: 2\r\nSet-Cookie: a=b\r\n\r\nhello", false},
		"nothing":                {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false},
		"chunked":                {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", false},
		"announced trailers":     {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, X-Two\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Two: 2\r\n\r\n", false},
		"unannounced trailers":   {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", false},
		"until the end":          {"GET", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello", false},
		"no keep-alive":          {"GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", false},
		"HTTP/1.0":               {"GET", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", false},
		"no content":             {"GET", "HTTP/1.1 204 No Content\r\n\r\n", false},
		"not modified":           {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: x\r\n\r\n", false},
		"HEAD":                   {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false},
		"skipped body":           {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n", true},
		"interim responses":      {"GET", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false},
		"interim without end":    {"GET", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 200), false},
		"no HTTP":                {"GET", "this is not HTTP\r\n\r\n", false},
		"truncated headers":      {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", false},
		"truncated body":         {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", false},
		"truncated chunk":        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nhello", false},
		"chunks without end":     {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", false},
		"truncated trailers":     {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-S", false},
		"malformed chunk":        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n", false},
		"malformed length":       {"GET", "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", false},
		"headers beyond measure": {"GET", "HTTP/1.1 200 OK\r\nX-Big: " + strings.Repeat("x", 10000) + "\r\nContent-Length: 0\r\n\r\n", false},
		"redirect":               {"GET", "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", false},
		"error status":           {"GET", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy", false},
	} {
		for mode, streamed := range map[string]bool{"buffered": false, "streamed": true} {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				addr := serve(t, func(conn net.Conn) {
					if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil && req != nil {
						_, _ = io.WriteString(conn, c.response)
					}
				})
				var readings []reading
				for _, client := range threeClients(t, &fasthttp.Client{StreamResponseBody: streamed}) {
					x := request(c.method, "http://"+addr+"/")
					x.SkipBody = c.skip
					readings = append(readings, read(client, x.Request, x.Response))
				}
				if readings[0] != readings[1] || readings[0] != readings[2] {
					t.Errorf("fasthttp reads\n%+v\nunder a policy it is\n%+v\nbeside one it is\n%+v", readings[0], readings[1], readings[2])
				}
			})
		}
	}
}

// Requests go out as fasthttp writes them, whether a copy is sent or not.
func TestRequestsAreWrittenAsFasthttpWritesThem(t *testing.T) {
	t.Parallel()
	type maker func(req *fasthttp.Request)
	makers := map[string]maker{
		"GET":           func(req *fasthttp.Request) {},
		"query":         func(req *fasthttp.Request) { req.URI().QueryArgs().Set("q", "a b") },
		"POST":          func(req *fasthttp.Request) { req.Header.SetMethod("POST"); req.SetBodyString("hello") },
		"empty POST":    func(req *fasthttp.Request) { req.Header.SetMethod("POST") },
		"raw body":      func(req *fasthttp.Request) { req.Header.SetMethod("PUT"); req.SetBodyRaw([]byte("hello")) },
		"GET with body": func(req *fasthttp.Request) { req.SetBodyString("hello") },
		"form": func(req *fasthttp.Request) {
			req.Header.SetMethod("POST")
			req.Header.SetContentType("application/x-www-form-urlencoded")
			req.PostArgs().Set("a", "b c")
		},
		"multipart": func(req *fasthttp.Request) {
			var buf bytes.Buffer
			w := multipart.NewWriter(&buf)
			_ = w.SetBoundary("frontier")
			_ = w.WriteField("a", "b")
			_ = w.Close()
			req.Header.SetMethod("POST")
			req.Header.SetContentType(w.FormDataContentType())
			req.SetBody(buf.Bytes())
			_, _ = req.MultipartForm()
		},
		"stream of a known size": func(req *fasthttp.Request) {
			req.Header.SetMethod("PUT")
			req.SetBodyStream(strings.NewReader("hello"), 5)
		},
		"stream of an unknown size": func(req *fasthttp.Request) {
			req.Header.SetMethod("PUT")
			req.SetBodyStream(struct{ io.Reader }{strings.NewReader("hello")}, -1)
		},
		"limited stream": func(req *fasthttp.Request) {
			req.Header.SetMethod("PUT")
			req.SetBodyStream(&io.LimitedReader{R: strings.NewReader("hello world"), N: 5}, -1)
		},
		"stream writer": func(req *fasthttp.Request) {
			req.Header.SetMethod("PUT")
			req.SetBodyStreamWriter(func(w *bufio.Writer) { _, _ = w.WriteString("hello") })
		},
		"trailers": func(req *fasthttp.Request) {
			req.Header.SetMethod("PUT")
			_ = req.Header.SetTrailer("X-Sum")
			req.Header.Set("X-Sum", "1")
			req.SetBodyString("hello")
		},
		"user information": func(req *fasthttp.Request) { req.URI().SetUsername("u"); req.URI().SetPassword("p") },
		"host header":      func(req *fasthttp.Request) { req.Header.SetHost("other.example"); req.UseHostHeader = true },
		"agent and cookies": func(req *fasthttp.Request) {
			req.Header.SetUserAgent("test")
			req.Header.SetCookie("a", "b")
			req.Header.Add("X-A", "1")
			req.Header.Add("X-A", "2")
		},
		"names as they are": func(req *fasthttp.Request) {
			req.Header.DisableNormalizing()
			req.Header.Set("x-lower", "1")
		},
		"closing": func(req *fasthttp.Request) { req.SetConnectionClose() },
	}
	const stamp = "X-Deadline-Ms: "
	for policy, rulesOf := range map[string]string{
		"as it is": `"timeouts":{"total":"1m"}`,
		"replayed": `"timeouts":{"total":"1m"},` + threeAttempts,
		"stamped":  `"timeouts":{"total":"1m"},"deadline":{"header":"X-Deadline-Ms"}`,
		"both":     `"timeouts":{"total":"1m"},"deadline":{"header":"X-Deadline-Ms"},` + threeAttempts,
	} {
		for name, mk := range makers {
			t.Run(name+" "+policy, func(t *testing.T) {
				t.Parallel()
				got := make(chan string, 2)
				addr := serve(t, func(conn net.Conn) {
					var raw bytes.Buffer
					req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(conn, &raw)))
					if err == nil {
						_, err = io.Copy(io.Discard, req.Body)
					}
					if err != nil {
						raw.WriteString(err.Error())
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
					got <- raw.String()
				})
				b := newBench(t, rules(t, rulesOf, "127.0.0.1"), nil)
				native := &fasthttp.Client{MaxIdemponentCallAttempts: 1}
				var wire, after []string
				for _, client := range []doer{native, b.client.Fasthttp()} {
					x := request("GET", "http://"+addr+"/p?q=1")
					mk(x.Request)
					if err := client.Do(x.Request, x.Response); err != nil {
						t.Fatal(err)
					}
					wire = append(wire, withoutLine(<-got, stamp))
					after = append(after, string(x.Request.Header.Method())+" "+x.Request.URI().String()+" "+
						string(x.Request.Header.Peek("X-Deadline-Ms"))+string(x.Request.Body()))
				}
				if wire[0] != wire[1] {
					t.Errorf("fasthttp sends\n%s\nunder the policy it is\n%s", wire[0], wire[1])
				}
				if after[0] != after[1] {
					t.Errorf("fasthttp leaves the request as %q, under the policy it is left as %q", after[0], after[1])
				}
			})
		}
	}
}

func withoutLine(text, begin string) string {
	return regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(begin)+`[^\n]*\n`).ReplaceAllString(text, "")
}

// Every setting of a fasthttp.Client reaches the client under the policy.
func TestNoSettingOfTheBaseIsLost(t *testing.T) {
	base := &fasthttp.Client{}
	v := reflect.ValueOf(base).Elem()
	set := map[string]bool{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Name == "Transport" || f.Name == "ConfigureClient" {
			continue // refused, and called
		}
		switch field := v.Field(i); field.Kind() {
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Int, reflect.Int64:
			field.SetInt(7)
		case reflect.String:
			field.SetString("set")
		case reflect.Func:
			field.Set(reflect.MakeFunc(field.Type(), nil))
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		default:
			t.Fatalf("field %s is a %s, which this test does not know", f.Name, field.Kind())
		}
		set[f.Name] = true
	}
	called := false
	base.ConfigureClient = func(*fasthttp.HostClient) error {
		called = true
		return errors.New("seen")
	}
	inner := newBench(t, rules(t, ""), base).client.Fasthttp()
	own := reflect.ValueOf(inner).Elem()
	for name := range set {
		if own.FieldByName(name).IsZero() {
			t.Errorf("%s is lost", name)
		}
	}
	x := request("GET", "http://127.0.0.1:1/")
	if err := inner.Do(x.Request, x.Response); !called || err == nil || err.Error() != "seen" {
		t.Errorf("ConfigureClient was called: %t; its error is %v", called, err)
	}
}

func TestAClientThatGoesAroundThePolicyIsRefused(t *testing.T) {
	b := newBench(t, rules(t, ""), nil)
	if _, err := fasthttpclient.New(b.policy, &fasthttp.Client{Transport: fasthttp.DefaultTransport}); err == nil || !strings.Contains(err.Error(), "leave Transport unset") {
		t.Errorf("a base with a Transport: %v", err)
	}
	late, err := fasthttpclient.New(b.policy, &fasthttp.Client{ConfigureClient: func(hc *fasthttp.HostClient) error {
		hc.Transport = fasthttp.DefaultTransport
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	x := request("GET", "http://127.0.0.1:1/")
	if err := late.Do(t.Context(), x.Request, x.Response); err == nil || !strings.Contains(err.Error(), "leave Transport unset") {
		t.Errorf("a host with a Transport: %v", err)
	}
}

// Where no policy names the host, fasthttp is itself: its retries and its errors.
func TestAHostWithoutAPolicyIsFasthttpsOwn(t *testing.T) {
	t.Parallel()
	requests := make(chan struct{}, 16)
	resets := serve(t, func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			requests <- struct{}{}
		}
	})
	b := newBench(t, rules(t, `"timeouts":{"total":"1s"}`, "elsewhere"), &fasthttp.Client{MaxIdemponentCallAttempts: 3})
	x := request("GET", "http://"+resets)
	if err := b.client.Fasthttp().Do(x.Request, x.Response); err != fasthttp.ErrConnectionClosed || len(requests) != 3 {
		t.Errorf("%v after %d requests, want ErrConnectionClosed after 3", err, len(requests))
	}
	x = request("GET", "http://"+silentServer(t))
	if err := b.client.Fasthttp().DoTimeout(x.Request, x.Response, 50*time.Millisecond); err != error(fasthttp.ErrTimeout) {
		t.Errorf("a timeout is %v (%T), want fasthttp's own", err, err)
	}
	if b.events.Started() != 0 {
		t.Errorf("%d calls were told of", b.events.Started())
	}
}

// fasthttp's own retries stay on in mode Shadow, which changes nothing, and where no
// policy names the host though the caller's context can end the call.
func TestFasthttpsRetriesStayOnWhereNothingMayChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ rules, host, answer string }{
		"Shadow":              {`"mode":"Shadow","timeouts":{"total":"1s"},` + threeAttempts, "127.0.0.1", ""},
		"Shadow, in the body": {`"mode":"Shadow"`, "127.0.0.1", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf"},
		"no policy":           {`"timeouts":{"total":"1s"}`, "elsewhere", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			addr := serve(t, func(conn net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					requests.Add(1)
					_, _ = io.WriteString(conn, c.answer)
				}
			})
			b := newBench(t, rules(t, c.rules, c.host), &fasthttp.Client{MaxIdemponentCallAttempts: 3})
			x := b.do(t.Context(), request("GET", "http://"+addr))
			if x.err == nil || requests.Load() != 3 {
				t.Errorf("%v after %d requests, want 3", x.err, requests.Load())
			}
		})
	}
}
