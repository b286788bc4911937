package adaptertest_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/retryafter"
)

// The adapter of docs/adapters/writing-an-adapter.md, which shows what lies
// between the lines "guide" and "end".

// line is the library that the guide adapts: one question, one answer, and errors
// without types. It has a connection for each question.
type line struct{ http *http.Client }

func newLine() *line {
	return &line{&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// answer is what came back. Later is when to ask again, as HTTP says it.
type answer struct {
	Code        int
	Text, Later string
}

// Ask returns an answer or an error.
func (l *line) Ask(ctx context.Context, verb, to, question string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, verb, to, strings.NewReader(question))
	if err != nil {
		return answer{}, err
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	return answer{resp.StatusCode, string(text), resp.Header.Get("Retry-After")}, nil
}

// guide: record

// lineRecord says what the adapter can enforce. What it does not mention is
// Absent.
func lineRecord() capability.Record {
	emulated := capability.Support{Level: capability.Emulated}
	native := capability.Support{Level: capability.Native}
	return capability.Record{
		Adapter: "line",
		Library: "example.com/line",
		Support: map[capability.Name]capability.Support{
			capability.TimeoutTotal:           emulated,
			capability.TimeoutAttempt:         emulated,
			capability.DeadlineHard:           native,
			capability.RedirectsShareDeadline: native,
			capability.RetryOwned:             emulated,
			capability.BodyReplay:             native,
			capability.RetryBudget:            emulated,
			capability.CircuitBreaker:         emulated,
			capability.PerCallOptions:         emulated,
			capability.Shadow:                 {Level: capability.Degraded, Note: "repetitions are counted, limits that passed are not"},
		},
		Emits: failure.NewSet(failure.AttemptTimeout, failure.TotalTimeout, failure.Disconnected,
			failure.Status, failure.Cancelled, failure.CircuitOpen),
		// The library's errors have no types: what went wrong before the answer is
		// a broken line.
		Collapse: map[failure.Kind]failure.Kind{
			failure.ConnectError:  failure.Disconnected,
			failure.DNSError:      failure.Disconnected,
			failure.TLSError:      failure.Disconnected,
			failure.ProtocolError: failure.Disconnected,
			failure.ReadTimeout:   failure.AttemptTimeout,
		},
	}
}

// end

// guide: adapter

// policedLine asks under the policies of a client.
type policedLine struct {
	line   *line
	engine *engine.Engine
	record capability.Record
}

func policed(c *clientlib.Client, l *line) *policedLine {
	record := lineRecord()
	c.UseAdapter(record) // reports it, and lets a policy refuse it
	return &policedLine{line: l, engine: c.Engine(), record: record}
}

// Ask is line.Ask under the policy in force.
func (p *policedLine) Ask(ctx context.Context, verb, to, question string) (answer, error) {
	policy, err := lookup(p.engine.Snapshot(), verb, to)
	if err != nil {
		return answer{}, err
	}
	if policy == nil {
		return p.line.Ask(ctx, verb, to, question)
	}
	call := &engine.Call{}
	if err := call.Begin(ctx, p.engine, policy, "line", verb); err != nil {
		return answer{}, err
	}
	for {
		if a, lapsed := call.Lapsed(call.Now()); lapsed {
			return end(call, reply{outcome: engine.Outcome{Kind: failure.TotalTimeout, Status: engine.NoStatus}, whose: a}, engine.Decision{})
		}
		r := p.try(ctx, call, verb, to, question)
		decision := call.Decide(r.outcome)
		if !decision.Retry {
			return end(call, r, decision)
		}
		if outcome, whose, ended := call.Rest(ctx, call.Decided().Add(decision.Wait)); ended {
			return end(call, reply{outcome: outcome, whose: whose, err: context.Cause(ctx)}, engine.Decision{})
		}
	}
}

// reply is what one attempt brought.
type reply struct {
	answer  answer
	err     error
	outcome engine.Outcome
	whose   engine.Attribution
}

// try makes one attempt. The scope is its context, and knows which limit ended it.
func (p *policedLine) try(ctx context.Context, call *engine.Call, verb, to, question string) reply {
	scope := new(engine.Scope)
	_, now := call.BeginAttempt()
	scope.Open(ctx, call, now)
	defer scope.Finish()
	var r reply
	r.answer, r.err = p.line.Ask(scope, verb, to, question)
	r.outcome, r.whose = classify(ctx, call, scope, &r)
	r.outcome.Covers = p.record.Covered(r.outcome.Kind)
	r.outcome.Replayable = true // the question is at hand
	switch call.Options().Vouch {
	case engine.VouchNothing:
		r.outcome.Repeatable = call.Policy.Repeatable(verb, nil)
	default:
		r.outcome.Repeatable = call.Options().Vouch == engine.VouchIdempotent
	}
	return r
}

// classify asks the scope first, then the caller, then the clock, and looks at the
// error last.
func classify(ctx context.Context, call *engine.Call, scope *engine.Scope, r *reply) (engine.Outcome, engine.Attribution) {
	none := engine.Outcome{Status: engine.NoStatus}
	switch limit := scope.Fired(); {
	case r.err == nil:
		code := r.answer.Code
		out := engine.Outcome{OK: code < 400, Kind: failure.Status, Status: code, ServerFault: code >= 500}
		out.RetryStatus = call.Policy.RetriesStatus(code)
		out.RetryAfter = retryafter.Parse(r.answer.Later, call.Now(), call.Policy.RetryAfterMax)
		return out, engine.Attribution{}
	case limit != engine.LimitNone:
		none.Kind = limit.Kind()
		return none, scope.Attribution(limit)
	case ctx.Err() != nil:
		return engine.CallerEnded(ctx)
	}
	if a, over := scope.Over(call.Now()); over {
		none.Kind = failure.TotalTimeout
		return none, a
	}
	none.Kind = failure.Disconnected
	return none, engine.Attribution{}
}

// end settles the call, once, and says what its caller gets.
func end(call *engine.Call, r reply, d engine.Decision) (answer, error) {
	call.Settle(r.outcome, r.whose, d)
	if r.outcome.Status != engine.NoStatus {
		return r.answer, nil
	}
	return answer{}, call.Failure(r.outcome, r.whose, d, engine.CauseOf(r.err))
}

// lookup finds the policy of an address; nil for none.
func lookup(s *engine.Snapshot, verb, to string) (*engine.Policy, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	host, port, err := document.SplitHostPort(u.Host)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = 80
	}
	return s.Lookup(host, port, document.Call{Method: verb, Path: u.EscapedPath()}), nil
}

// end
