package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// patience bounds the wait for what follows by itself, such as a server's
// notice that its client left. It is no measure of anything.
const patience = 20 * time.Second

// lab is where one check works. What it finds wrong is collected.
type lab struct {
	t testing.TB
	a *Adapter

	mu       sync.Mutex
	findings []string
	benches  []*bench
	// also are rules for each policy of the check beside its own.
	also string
}

// study runs a check in a lab of its own and returns what it found.
func study(t testing.TB, a *Adapter, work func(l *lab)) []string {
	t.Helper()
	l := &lab{t: t, a: a}
	work(l)
	for _, b := range l.benches {
		b.settle()
	}
	return l.findings
}

func (l *lab) findf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.findings = append(l.findings, fmt.Sprintf(format, args...))
}

// bench is one policy, one peer and what was observed.
type bench struct {
	*lab
	client *clientlib.Client
	peer   Peer
	events *policytest.Events
	// unpoliced says that no policy names the peer.
	unpoliced bool
	timers    *clienttest.Timers

	mu    sync.Mutex
	calls []outcome
}

// parse puts rules (JSON members) into a document of the battery's upstream.
func parse(t testing.TB, rules string) *document.Document {
	t.Helper()
	return policytest.Rules(t, rules, Hosts()...)
}

// open makes a client under the rules, and a peer.
func (l *lab) open(rules string, s Setup) *bench {
	l.t.Helper()
	b := &bench{lab: l, events: &policytest.Events{}, timers: &clienttest.Timers{}}
	client := policytest.NewClient(l.t, parse(l.t, rules+l.also), b.events, b.timers)
	l.t.Cleanup(func() {
		if err := client.Close(); err != nil {
			l.t.Errorf("close the client: %v", err)
		}
	})
	b.client = client
	b.peer = l.a.Open(l.t, client, s)
	l.benches = append(l.benches, b)
	return b
}

// outcome is a call as its caller saw it.
type outcome struct {
	Result
	// ok says that it succeeded; kind then means nothing.
	ok      bool
	kind    failure.Kind
	failure *failure.Error // nil without an error of ours
	elapsed time.Duration
}

func (o *outcome) String() string {
	switch {
	case o.ok:
		return fmt.Sprintf("success after %s", o.elapsed)
	case o.Err == nil:
		return fmt.Sprintf("status %d after %s", o.Status, o.elapsed)
	default:
		return fmt.Sprintf("%v after %s: %v", o.kind, o.elapsed, o.Err)
	}
}

// skip says why the call was not repeated, as far as its error tells.
func (b *bench) skip() failure.SkipReason {
	calls := b.events.Calls()
	if len(calls) == 0 {
		return failure.SkipNone
	}
	return calls[len(calls)-1].Skip
}

func (b *bench) do(call Call) *outcome { return b.doIn(context.Background(), call) }

// doIn makes a call and holds its error to what every error has to be.
func (b *bench) doIn(ctx context.Context, call Call) *outcome {
	if call.Does == "" {
		call.Does = Answers
	}
	began := time.Now()
	o := outcome{Result: b.peer.Do(ctx, call)}
	o.elapsed = time.Since(began)
	switch {
	case o.Err != nil:
		b.examine(&o)
	case o.Status >= 400, o.Status > 0 && o.Status < 100: // of HTTP, of gRPC
		o.kind = failure.Status
	default:
		o.ok = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, o)
	return &o
}

// examine holds an error to the contract of errors.
func (b *bench) examine(o *outcome) {
	for _, breach := range policytest.Breaches(o.Err) {
		b.findf("%s", breach)
	}
	if !errors.As(o.Err, &o.failure) {
		return
	}
	o.kind = o.failure.Kind
	if name := o.failure.Upstream; name != Upstream {
		b.findf("the error %v names upstream %q, not %q", o.Err, name, Upstream)
	}
	if b.a.Family == nil {
		return
	}
	if err := b.a.Family(o.Err); err != nil {
		b.findf("the error %v (%T) is not of the library's family: %v", o.Err, o.Err, err)
	}
}

// requests is how many reached the server.
func (b *bench) requests() int { return len(b.peer.Seen()) }

// eventually polls until a condition holds; false when it never did.
func eventually(within time.Duration, condition func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(within)
	defer late.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-late.C:
			return condition()
		}
	}
	return true
}

// settle holds what the observers were told to what happened. It is called when
// all calls of the bench have returned.
func (b *bench) settle() {
	made := len(b.calls)
	if b.unpoliced {
		made = 0
	}
	r := b.events
	// A redirect that nobody followed is told of late.
	told := func() bool { return len(r.Calls()) >= r.Started() && b.timers.Live() == 0 }
	if !eventually(min(patience, 4*b.a.hold), told) {
		b.findf("%d calls were made and %d told of as done; %d timers are left running", made, len(r.Calls()), b.timers.Live())
	}
	calls := r.Calls()
	if r.Started() != made || len(calls) != made {
		b.findf("%d calls were made, %d told of as started and %d as done", made, r.Started(), len(calls))
	}
	if n := len(r.Bodies()); n > len(calls) {
		b.findf("%d calls are told of, and %d bodies: a call has that of its final response", len(calls), n)
	}
	for _, name := range others(r.Adapters(), b.a.Record.Adapter) {
		b.findf("an event has the adapter %q, the record %q", name, b.a.Record.Adapter)
	}
	for _, name := range others(r.Upstreams(), Upstream) {
		b.findf("an event has the upstream %q, not %q", name, Upstream)
	}
	for _, kind := range (kindsOf(r) &^ b.a.Record.Emits).Kinds() {
		b.findf("an event has the kind %v, which the record does not emit", kind)
	}
	attempts := 0
	for i := range calls {
		attempts += calls[i].Attempts
	}
	if n := len(r.Attempts()); attempts != n {
		b.findf("the calls told of %d attempts, and of %d one by one", attempts, n)
	}
	if made == 1 && len(calls) == 1 {
		b.compare(&b.calls[0], &calls[0])
	}
}

// others returns the names that are not the one they should be, each once.
func others(names []string, name string) []string {
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == name })
}

// kindsOf returns the kinds of all events of failures.
func kindsOf(r *policytest.Events) (kinds failure.Set) {
	note := func(ok bool, kind failure.Kind) {
		if !ok {
			kinds |= failure.NewSet(kind)
		}
	}
	for _, e := range r.Attempts() {
		note(e.OK, e.Kind)
	}
	for _, e := range r.Calls() {
		note(e.OK, e.Kind)
	}
	for _, e := range r.Bodies() {
		note(e.OK, e.Kind)
	}
	return kinds
}

// compare holds the event of a bench's only call to what its caller saw.
func (b *bench) compare(o *outcome, event *engine.CallEvent) {
	if o.failure == nil {
		if event.OK != o.ok || event.Status != o.Status {
			b.findf("the call ended with %s, its event says OK %t and status %d", o, event.OK, event.Status)
		}
		return
	}
	if o.failure.Attempts != event.Attempts {
		b.findf("the error has %d attempts, the event of the call %d", o.failure.Attempts, event.Attempts)
	}
	// A call whose response came is told of as done before its body failed.
	if !event.OK && event.Kind != o.kind {
		b.findf("the error is a %v, the event of the call says %v", o.kind, event.Kind)
	}
}
