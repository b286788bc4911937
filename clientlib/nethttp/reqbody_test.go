package nethttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// The copy of a request body. go-retryablehttp#94 #89, golang/go#51907 #30597
// #12796 #61596 #81445, kubernetes#113933: a library may read the body of an
// attempt after it gave it up; nobody seeks, nothing is lost, the source is
// closed once nobody reads any more.

type source struct {
	io.Reader
	closed atomic.Int64
}

func (s *source) Close() error { s.closed.Add(1); return nil }

func TestEachViewReadsTheWholeBody(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		body := make([]byte, random.IntN(500))
		for i := range body {
			body[i] = byte(i)
		}
		src := &source{Reader: iotest.OneByteReader(bytes.NewReader(body))}
		if random.IntN(2) == 0 {
			src.Reader = iotest.DataErrReader(bytes.NewReader(body))
		}
		c := newCapture(src, 500)
		for range 1 + random.IntN(4) {
			v := c.view()
			// The attempt ends somewhere on the way.
			_, _ = io.CopyN(io.Discard, v, int64(random.IntN(len(body)+1)))
			_ = v.Close()
		}
		last := c.view()
		c.settle()
		got, err := io.ReadAll(last)
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("the last attempt read %d of %d bytes, %v", len(got), len(body), err)
		}
		if src.closed.Load() != 0 {
			t.Fatal("the source was closed while it was read")
		}
		_ = last.Close()
		_ = last.Close()
		if n := src.closed.Load(); n != 1 {
			t.Fatalf("the source was closed %d times", n)
		}
	}
}

// A library that goes on reading the body of an attempt that it gave up takes
// nothing away from the next one.
func TestAViewThatStillReadsTakesNothingAway(t *testing.T) {
	feed, pipe := io.Pipe()
	src := &source{Reader: feed}
	c := newCapture(src, 1<<20)
	old := c.view()
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, old) })
	next := c.view()
	var got []byte
	reading.Go(func() { got, _ = io.ReadAll(next) })
	text := strings.Repeat("payload ", 1000)
	for _, part := range strings.SplitAfter(text, " ") {
		if _, err := io.WriteString(pipe, part); err != nil {
			t.Error(err)
		}
	}
	_ = pipe.Close()
	reading.Wait()
	if string(got) != text {
		t.Errorf("the next attempt read %d of %d bytes", len(got), len(text))
	}
	_ = old.Close()
	c.settle()
	if src.closed.Load() != 0 {
		t.Error("closed while a view is open")
	}
	_ = next.Close()
	if src.closed.Load() != 1 {
		t.Error("not closed in the end")
	}
}

func TestABodyBeyondTheLimitIsNeverHalfSent(t *testing.T) {
	src := &source{Reader: strings.NewReader("longer than eight")}
	c := newCapture(src, 8)
	first := c.view()
	if got, err := io.ReadAll(first); string(got) != "longer than eight" || err != nil {
		t.Errorf("the first attempt read %q, %v", got, err)
	}
	if !c.overflow.Load() || c.kept != nil {
		t.Error("it claims that the body can be sent again, or keeps what it cannot use")
	}
	if _, err := c.getBody(); !errors.Is(err, errLost) {
		t.Errorf("net/http's own repetition: %v", err)
	}
	var asBody *bodyError
	if got, err := io.ReadAll(c.view()); len(got) != 0 || !errors.As(err, &asBody) {
		t.Errorf("a later view read %q, %v", got, err)
	}
}

func TestABodyOfExactlyTheLimitIsKept(t *testing.T) {
	c := newCapture(&source{Reader: strings.NewReader("12345678")}, 8)
	for range 3 {
		v := c.view()
		if got, err := io.ReadAll(v); string(got) != "12345678" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		_ = v.Close()
	}
}

func TestAnErrorOfTheSourceIsToldToEachView(t *testing.T) {
	gone := errors.New("the disk is gone")
	c := newCapture(&source{Reader: io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(gone))}, 100)
	for range 2 {
		got, err := io.ReadAll(c.view())
		var asBody *bodyError
		if string(got) != "abc" || !errors.Is(err, gone) || !errors.As(err, &asBody) {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestCloseOfAViewDoesNotWaitForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed, pipe := io.Pipe()
		c := newCapture(feed, 100)
		reader, waiter := c.view(), c.view()
		var woken atomic.Bool
		go func() { _, _ = reader.Read(make([]byte, 1)) }()
		synctest.Wait()
		go func() {
			_, err := waiter.Read(make([]byte, 1))
			woken.Store(errors.Is(err, errViewClosed))
		}()
		synctest.Wait()
		_ = waiter.Close()
		_ = reader.Close()
		synctest.Wait()
		if !woken.Load() {
			t.Error("a view that waited for another one's read was not woken by its Close")
		}
		_ = pipe.Close()
	})
}

// HTTP/2 returns while its writer still waits for the body. Once it has, it is known
// that no other attempt can have that body.
func TestABodyThatBlocksIsGivenUpWithItsAttempt(t *testing.T) {
	e := engine.New(engine.Options{})
	policy := &engine.Policy{Attempt: time.Hour, MaxAttempts: 2, ReplayBytes: 1 << 10}
	for _, ctx := range []context.Context{context.Background(), t.Context()} {
		for range 200 {
			r, w := io.Pipe()
			req, err := http.NewRequest(http.MethodPut, "http://orders/", r)
			if err != nil {
				t.Fatal(err)
			}
			body := requestBody{req: req}
			body.prepare(policy)
			call := new(engine.Call)
			if err := call.Begin(ctx, e, policy, "test", req.Method); err != nil {
				t.Fatal(err)
			}
			scope := new(engine.Scope)
			scope.OpenNext(ctx, call, true)
			view := body.capture.view().(*captureView)
			release := body.guard(scope, view)
			body.capture.mu.Lock()
			body.capture.reader = view // as one that waits for the pipe
			body.capture.mu.Unlock()
			scope.Fire(engine.LimitAttempt)
			if release(); body.replayable() {
				t.Fatal("another attempt would be given the rest of it")
			}
			if _, err := w.Write([]byte("x")); err != io.ErrClosedPipe {
				t.Errorf("the source is left open: %v", err)
			}
			scope.Finish()
		}
	}
}
