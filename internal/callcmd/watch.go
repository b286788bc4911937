package callcmd

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// watch follows one call. It traces it, since a trace sees calls that no policy
// names and the URL of each hop, and observes it for mode Shadow.
type watch struct {
	attempted func(Attempt)

	mu       sync.Mutex
	info     engine.CallInfo
	next     engine.AttemptInfo
	attempts []Attempt
	call     engine.CallEvent
	wouldCut []string
	body     *Body
	status   int
}

// StartCall implements engine.Tracer.
func (w *watch) StartCall(_ context.Context, info engine.CallInfo) engine.Trace {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.info = info
	return trace{w}
}

// Recorder implements engine.Observer.
func (w *watch) Recorder(string, string) engine.Recorder { return shadow{w} }

type trace struct{ *watch }

func (t trace) StartAttempt(ctx context.Context, info engine.AttemptInfo, _ engine.Carrier) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = info
	return ctx
}

func (t trace) AttemptDone(e engine.AttemptEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := Attempt{
		Number:  e.Number,
		Method:  t.next.Method,
		OK:      e.OK,
		Kind:    kindName(e.OK, e.Kind),
		Status:  max(0, e.Status),
		Started: Millis(e.Started),
		Took:    Millis(e.Duration),
		Retried: e.Retried,
		Wait:    Millis(e.Wait),
		Skip:    e.Skip.String(),
	}
	if t.next.URL != nil {
		a.URL = t.next.URL.Redacted()
	}
	if e.Left >= 0 {
		left := Millis(e.Left)
		a.Left = &left
	}
	t.attempts = append(t.attempts, a)
	if t.attempted != nil {
		t.attempted(a)
	}
}

func (t trace) CallDone(e engine.CallEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.call = e
}

func (trace) End(time.Time, engine.BodyEvent) {}

// shadow hears what mode Shadow left alone; everything else comes by the trace.
type shadow struct{ watch *watch }

func (shadow) CallStarted(string)                 {}
func (shadow) AttemptDone(engine.AttemptEvent)    {}
func (shadow) CallDone(engine.CallEvent)          {}
func (shadow) BodyDone(engine.BodyEvent)          {}
func (shadow) CircuitChanged(engine.CircuitState) {}

func (s shadow) WouldCut(limit string) {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	s.watch.wouldCut = append(s.watch.wouldCut, limit)
}

// gotBody notes how the body of the final response ended.
func (w *watch) gotBody(status int, b Body, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.OK = err == nil
	b.Kind = kindName(b.OK, kindOf(err))
	w.body, w.status = &b, status
}

// result sums the call up; err is that of the call or of its body.
func (w *watch) result(req *http.Request, doc *document.Document, took time.Duration, err error) *Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &Result{
		Method:   req.Method,
		URL:      req.URL.Redacted(),
		Client:   doc.Client,
		Revision: doc.Revision,
		Upstream: w.info.Upstream,
		Route:    w.info.Route,
		Attempts: append([]Attempt{}, w.attempts...),
		Body:     w.body,
		WouldCut: w.wouldCut,
		OK:       err == nil && w.call.OK,
		Status:   w.status,
		Took:     Millis(took),
		Skip:     w.call.Skip.String(),
	}
	if err == nil {
		r.Kind = kindName(r.OK, w.call.Kind)
		return r
	}
	r.Kind, r.Error = kindOf(err).String(), err.Error()
	var failed *failure.Error
	if errors.As(err, &failed) {
		r.Field, r.Limit = failed.Field, Millis(failed.Limit)
		r.Skip, r.RetryAfter = failed.Skip.String(), Millis(failed.RetryAfter)
		if failed.Kind == failure.TotalTimeout || failed.Kind == failure.Cancelled {
			r.Source = failed.Source.String()
		}
	}
	return r
}

func kindOf(err error) failure.Kind {
	var failed *failure.Error
	if errors.As(err, &failed) {
		return failed.Kind
	}
	return failure.Unknown
}
