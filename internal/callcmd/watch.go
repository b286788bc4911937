package callcmd

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// watcher gives each call of a caller its watch. It traces calls, since a trace
// sees those that no policy names and the URL of each hop, and observes them for
// mode Shadow.
type watcher struct {
	// beginning is held from the moment a call is made until the engine chose its
	// policy, so that the call and its watch have the same document.
	beginning sync.Mutex
	begun     bool

	mu      sync.Mutex
	doc     *document.Document
	current *watch
}

// swap puts a document in force.
func (w *watcher) swap(doc *document.Document, engine func()) {
	w.beginning.Lock()
	defer w.beginning.Unlock()
	w.mu.Lock()
	w.doc = doc
	w.mu.Unlock()
	engine()
}

// begin returns the watch of the call that is made next.
func (w *watcher) begin(attempted func(Attempt)) *watch {
	w.beginning.Lock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = true
	w.current = &watch{attempted: attempted, doc: w.doc}
	return w.current
}

// started lets documents be swapped again; it may be called more than once.
func (w *watcher) started() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun {
		w.begun = false
		w.beginning.Unlock()
	}
}

// StartCall implements engine.Tracer.
func (w *watcher) StartCall(_ context.Context, info engine.CallInfo) engine.Trace {
	w.started()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current.info = info
	return trace{w.current}
}

// Recorder implements engine.Observer.
func (w *watcher) Recorder(string, string) engine.Recorder { return shadow{w} }

// watch follows one call.
type watch struct {
	attempted func(Attempt)
	doc       *document.Document
	info      engine.CallInfo
	method    string
	url       string
	code      string // of a gRPC call

	mu       sync.Mutex
	next     engine.AttemptInfo
	attempts []Attempt
	call     engine.CallEvent
	wouldCut []string
	body     *Body
	ended    *engine.BodyEvent
	status   int
}

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
		Started: Millis(e.Started),
		Took:    Millis(e.Duration),
		Retried: e.Retried,
		Wait:    Millis(e.Wait),
		Skip:    e.Skip.String(),
	}
	a.Status, a.Code = statusOf(e.Adapter, e.Status)
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

// End keeps when the body ended, which a limit may have done while nobody read.
func (t trace) End(_ time.Time, e engine.BodyEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = &e
}

// shadow hears what mode Shadow left alone; everything else comes by the trace.
type shadow struct{ watcher *watcher }

func (shadow) CallStarted(string)                 {}
func (shadow) AttemptDone(engine.AttemptEvent)    {}
func (shadow) CallDone(engine.CallEvent)          {}
func (shadow) BodyDone(engine.BodyEvent)          {}
func (shadow) CircuitChanged(engine.CircuitState) {}

func (s shadow) WouldCut(limit string) {
	s.watcher.mu.Lock()
	w := s.watcher.current
	s.watcher.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wouldCut = append(w.wouldCut, limit)
}

// calls notes what is called.
func (w *watch) calls(method, url string) { w.method, w.url = method, url }

// answered notes the code of a gRPC call.
func (w *watch) answered(code string) { w.code = code }

// gotBody notes how the body of the final response ended.
func (w *watch) gotBody(status int, b Body, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.OK = err == nil
	b.Kind = kindName(b.OK, w.kindOf(err))
	if err != nil && w.ended != nil {
		b.Took = Millis(w.ended.Duration)
	}
	w.body, w.status = &b, status
}

// result sums the call up; err is that of the call or of its body.
func (w *watch) result(took time.Duration, err error) *Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &Result{
		Method:   w.method,
		URL:      w.url,
		Client:   w.doc.Client,
		Revision: w.doc.Revision,
		Upstream: w.info.Upstream,
		Route:    w.info.Route,
		Attempts: append([]Attempt{}, w.attempts...),
		Body:     w.body,
		WouldCut: w.wouldCut,
		OK:       err == nil && w.call.OK,
		Status:   w.status,
		Code:     w.code,
		Took:     Millis(took),
		Skip:     w.call.Skip.String(),
	}
	if err == nil {
		r.Kind = kindName(r.OK, w.call.Kind)
		return r
	}
	r.Kind, r.Error = w.kindOf(err).String(), err.Error()
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

// kindOf classifies the error of a call or of its body. One that a gRPC server
// answered has its kind in the events only.
func (w *watch) kindOf(err error) failure.Kind {
	var failed *failure.Error
	switch {
	case errors.As(err, &failed):
		return failed.Kind
	case w.ended != nil && !w.ended.OK:
		return w.ended.Kind
	case w.call.Adapter != "" && !w.call.OK:
		return w.call.Kind
	default:
		return failure.Unknown
	}
}

// statusOf splits the status of an event by its adapter.
func statusOf(adapter string, status int) (http int, code string) {
	switch {
	case status < 0:
		return 0, ""
	case adapter == adapterGRPC && status < len(engine.GRPCCodes):
		return 0, engine.GRPCCodes[status]
	default:
		return status, ""
	}
}
