package deadline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// The law: for any nest of budgets, sources, caps, callers' deadlines, totals and
// attempts, no call outlives the tightest of them, no header says more than was
// left when it arrived, and none says more than an earlier one of its call. In
// fake time the scheduler has no grain, so the law is held exactly.
func TestNoCallOutlivesTheTightestOfAnyNestAndNoHeaderExceedsWhatWasLeft(t *testing.T) {
	scenarios := 250
	if testing.Short() {
		scenarios = 50
	}
	for seed := range scenarios {
		g := &generator{rand.New(rand.NewPCG(uint64(seed), 7))}
		s := g.scenario()
		inFakeTime(t, s.document, s.serve, func(r *rig) { s.run(r, seed) }, s.options...)
		if t.Failed() {
			t.Fatalf("scenario %d: %s", seed, s.document)
		}
	}
}

// scenario is a policy, a server's temper and a tree of calls.
type scenario struct {
	rules
	document string
	options  []clientlib.Option
	client   time.Duration // end of the client's own source, 0 for none
	serve    http.HandlerFunc
	calls    []call
}

type rules struct {
	total, reserve time.Duration
	header, shadow bool
	ignore         bool
	headersOnly    bool // the total ends at the headers
}

// call is one of several that run beside each other.
type call struct {
	layers []layer
	url    string
}

// layer is a step of a nest: after a while something is added.
type layer struct {
	after time.Duration
	kind  layerKind
	d     time.Duration
}

type layerKind int

const (
	layerWith layerKind = iota
	layerUntil
	layerSource
	layerUnlimited
	layerCaller
	layerCap
	layerDetach
	layerKinds
)

type generator struct{ *rand.Rand }

// one returns true once in n times.
func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

// span returns up to d, in steps that are no whole milliseconds.
func (g *generator) span(d time.Duration) time.Duration {
	return time.Duration(g.Int64N(int64(d))).Truncate(100 * time.Microsecond)
}

func (g *generator) scenario() *scenario {
	s := &scenario{serve: temper}
	s.document = g.policy(&s.rules)
	if g.one(4) {
		s.client = 1 + g.span(3*time.Second)
		s.options = append(s.options, clientlib.WithDeadlineSource(deadline.Fixed{End: bubbleStart.Add(s.client)}))
	}
	for range 1 + g.IntN(4) {
		s.calls = append(s.calls, g.call())
	}
	return s
}

func ms(d time.Duration) string { return fmt.Sprintf(`"%dms"`, d.Milliseconds()) }

func (g *generator) policy(r *rules) string {
	r.shadow, r.header, r.ignore, r.headersOnly = g.one(8), !g.one(4), g.one(5), g.one(4)
	var timeouts []string
	if !g.one(4) {
		r.total = g.span(2*time.Second).Truncate(time.Millisecond) + time.Millisecond
		timeouts = append(timeouts, `"total":`+ms(r.total))
	}
	if attempt := g.span(time.Second); g.one(2) && (r.total == 0 || attempt <= r.total) {
		timeouts = append(timeouts, `"attempt":`+ms(attempt))
	}
	if r.headersOnly {
		timeouts = append(timeouts, `"scope":"Headers"`)
	}
	r.reserve = g.span(100 * time.Millisecond).Truncate(time.Millisecond)
	told := `"reserve":` + ms(r.reserve)
	if r.header {
		told += `,"header":"X-Deadline-Ms"`
	}
	if r.ignore {
		told += `,"inbound":"Ignore"`
	}
	mode := ""
	if r.shadow {
		mode = `"mode":"Shadow",`
	}
	retry := fmt.Sprintf(`"retry":{"maxAttempts":%d,"backoff":{"initial":%s}}`, 1+g.IntN(4), ms(g.span(200*time.Millisecond)))
	return fmt.Sprintf(`{"name":"orders","hosts":["orders"],%s"timeouts":{%s},"deadline":{%s},%s}`, mode, strings.Join(timeouts, ","), told, retry)
}

func (g *generator) call() call {
	c := call{url: fmt.Sprintf("http://orders/?headers=%s&body=%s&fail=%d",
		g.span(time.Second), g.span(time.Second), g.IntN(3))}
	if g.one(6) {
		c.url = strings.Replace(c.url, "orders", "unnamed", 1)
	}
	for range g.IntN(6) {
		l := layer{after: g.span(200 * time.Millisecond), kind: layerKind(g.IntN(int(layerKinds))), d: g.span(3 * time.Second)}
		if g.one(10) {
			l.d = -l.d // spent before it began
		}
		c.layers = append(c.layers, l)
	}
	return c
}

// temper answers late, in two halves, and not well at first.
func temper(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	wait := func(name string) {
		d, _ := time.ParseDuration(q.Get(name))
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
	wait("headers")
	if q.Get("fail") == "1" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = http.NewResponseController(w).Flush()
	wait("body")
	_, _ = w.Write([]byte("half"))
}

// nest is a context with the limits that the test knows it to have.
type nest struct {
	context.Context
	budgets, callers []time.Time
	cap              time.Duration
	cancels          []context.CancelFunc
}

func (n *nest) add(l layer) {
	<-time.After(l.after)
	end := time.Now().Add(l.d)
	switch l.kind {
	case layerWith:
		n.Context = deadline.With(n.Context, l.d)
		n.budgets = append(n.budgets, end)
	case layerUntil:
		n.Context = deadline.Until(n.Context, end)
		n.budgets = append(n.budgets, end)
	case layerSource:
		n.Context = deadline.WithSource(n.Context, deadline.Fixed{End: end})
		n.budgets = append(n.budgets, end)
	case layerUnlimited:
		n.Context = deadline.WithSource(n.Context, deadline.Fixed{})
	case layerCaller:
		ctx, cancel := context.WithDeadline(n.Context, end)
		n.Context, n.callers, n.cancels = ctx, append(n.callers, end), append(n.cancels, cancel)
	case layerCap:
		n.Context, n.cap = clientlib.WithCall(n.Context, clientlib.Cap(l.d)), max(0, l.d)
	case layerDetach:
		n.Context, n.budgets, n.callers = deadline.Detach(n.Context), nil, nil
	}
}

// limits are the ends of one call, zero for none.
type limits struct {
	total, budget, cap, caller time.Time
	reserve                    time.Duration
}

func earliest(ends ...time.Time) (first time.Time) {
	for _, end := range ends {
		if !end.IsZero() && (first.IsZero() || end.Before(first)) {
			first = end
		}
	}
	return first
}

// expect works out by itself what limits a call that begins now.
func (s *scenario) expect(n *nest, named bool) limits {
	now := time.Now()
	var l limits
	r := s.rules
	if !named || r.shadow {
		r = rules{}
	}
	if r.total > 0 {
		l.total = now.Add(r.total)
	}
	if !r.ignore {
		l.budget = earliest(n.budgets...)
	}
	if s.client > 0 {
		l.budget = earliest(l.budget, bubbleStart.Add(s.client))
	}
	if n.cap > 0 {
		l.cap = now.Add(n.cap)
	}
	l.caller, l.reserve = earliest(n.callers...), r.reserve
	return l
}

// ends returns when the call has to be over, headers and body.
func (l limits) ends(totalCoversBody bool) (headers, body time.Time) {
	budget := l.budget
	if !budget.IsZero() {
		budget = budget.Add(-l.reserve)
	}
	headers = earliest(l.total, budget, l.cap, l.caller)
	if totalCoversBody {
		return headers, headers
	}
	return headers, earliest(budget, l.cap, l.caller)
}

func (s *scenario) run(r *rig, seed int) {
	var siblings sync.WaitGroup
	shared := deadline.With(r.t.Context(), 4*time.Second)
	for i, c := range s.calls {
		siblings.Go(func() { s.check(r, fmt.Sprintf("%d.%d", seed, i), c, shared) })
	}
	siblings.Wait()
}

func (s *scenario) check(r *rig, id string, c call, shared context.Context) {
	n := &nest{Context: shared, budgets: []time.Time{bubbleStart.Add(4 * time.Second)}}
	for _, l := range c.layers {
		n.add(l)
	}
	defer func() {
		for _, cancel := range n.cancels {
			cancel()
		}
	}()
	named := strings.Contains(c.url, "orders")
	l := s.expect(n, named)
	covers := !named || s.shadow || !s.headersOnly
	headersEnd, bodyEnd := l.ends(covers)
	began := time.Now()
	err := r.get(n, c.url, http.Header{"X-Call": {id}})
	if ended := time.Now(); !bodyEnd.IsZero() && ended.After(bodyEnd) && ended.After(began) {
		r.t.Errorf("call %s (%+v): outlived its tightest limit by %s: %v", id, c, ended.Sub(bodyEnd), err)
	}
	spent := !headersEnd.IsZero() && !began.Before(headersEnd)
	s.checkHeaders(r, id, l, headersEnd, named, spent)
	var e *clientlib.Error
	// A host that no policy names, without a limit of ours, is the library's alone.
	ours := named || !l.budget.IsZero() || !l.cap.IsZero()
	if spent != (errors.As(err, &e) && e.Attempts == 0) && ours && !s.header {
		r.t.Errorf("call %s (%+v): spent %t, and yet %v", id, c, spent, err)
	}
	if err == nil || e == nil || e.Kind != failure.TotalTimeout {
		return
	}
	if e.Source == failure.SourceBudget && l.budget.IsZero() || e.Source == failure.SourcePolicy && l.total.IsZero() ||
		e.Source == failure.SourceCaller && l.caller.IsZero() && l.cap.IsZero() {
		r.t.Errorf("call %s (%+v): blamed the %s, which set no limit", id, c, e.Source)
	}
}

// checkHeaders looks at what the server was told of a call.
func (s *scenario) checkHeaders(r *rig, id string, l limits, end time.Time, named, spent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	whole := earliest(l.total, l.budget, l.cap, l.caller)
	last := int64(1 << 62)
	for _, a := range r.arrivals {
		if a.header.Get("X-Call") != id {
			continue
		}
		if spent {
			r.t.Errorf("call %s: a request was sent with nothing left", id)
		}
		said := a.header.Values("X-Deadline-Ms")
		if wanted := named && s.header && !s.shadow && !whole.IsZero(); !wanted {
			if len(said) != 0 {
				r.t.Errorf("call %s: told %v, want no header", id, said)
			}
			continue
		}
		v, err := strconv.ParseInt(strings.Join(said, ","), 10, 64)
		left := earliest(whole.Add(-l.reserve), end).Sub(a.now)
		if err != nil || v < 1 || time.Duration(v)*time.Millisecond > left || left-time.Duration(v)*time.Millisecond >= time.Millisecond || v > last {
			r.t.Errorf("call %s: told %v with %s left, after %d", id, said, left, last)
		}
		last = v
	}
}
