package capability_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

func TestRecordsThatShipAreComplete(t *testing.T) {
	names := map[string]bool{}
	for _, r := range capability.Matrix() {
		if err := r.Validate(); err != nil {
			t.Error(err)
		}
		if r.Library == "" || names[r.Adapter] {
			t.Errorf("record %q names library %q, or is there twice", r.Adapter, r.Library)
		}
		names[r.Adapter] = true
		// Without these a policy means nothing.
		for _, kind := range []failure.Kind{failure.Status, failure.CircuitOpen} {
			if !r.Emits.Has(kind) {
				t.Errorf("record %s does not emit %v", r.Adapter, kind)
			}
		}
	}
}

func TestRecordsThatContradictThemselvesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(*capability.Record)
	}{
		{"no name", "without an adapter name", func(r *capability.Record) { r.Adapter = "" }},
		{"name of a shipped one", "belongs to a shipped adapter", func(r *capability.Record) { r.Adapter = "nethttp" }},
		{"no such capability", `"Teleport" is not a capability`, func(r *capability.Record) {
			r.Support["Teleport"] = capability.Support{Level: capability.Native}
		}},
		{"degraded without a note", "Degraded without a note", func(r *capability.Record) {
			r.Support[capability.Shadow] = capability.Support{Level: capability.Degraded}
		}},
		{"collapse of what is emitted", "Disconnected cannot collapse", func(r *capability.Record) {
			r.Collapse[failure.Disconnected] = failure.TotalTimeout
		}},
		{"collapse into what is not emitted", "cannot collapse into PoolTimeout", func(r *capability.Record) {
			r.Collapse[failure.ConnectTimeout] = failure.PoolTimeout
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := pigeons()
			r.Adapter = "spoilt"
			c.spoil(&r)
			if err := capability.Register(r); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("registered with %v, want %q", err, c.want)
			}
		})
	}
}

// Case A15.
func TestDeadKindsAreThoseThatNoAttemptCanEndWith(t *testing.T) {
	for _, c := range []struct {
		kind string
		dead bool
	}{
		{"Disconnected", false},
		{"ConnectError", false}, // by its collapse into Disconnected
		{"WriteTimeout", true},
		{"TotalTimeout", true}, // the call is over then
		{"Warp", true},         // of a later version
	} {
		doc := parse(t, `"retry":{"maxAttempts":2,"retryableKinds":["`+c.kind+`"]}`)
		report := capability.Assess(doc, []capability.Record{pigeons()})
		if dead := slices.Contains(report.Upstreams[0].DeadKinds, c.kind); dead != c.dead {
			t.Errorf("%s is dead: %t, want %t", c.kind, dead, c.dead)
		}
	}
	if report := capability.Assess(parse(t, `"retry":{"maxAttempts":2}`), []capability.Record{pigeons()}); len(report.Upstreams[0].DeadKinds) != 0 {
		t.Errorf("the library's own defaults are dead: %v", report.Upstreams[0].DeadKinds)
	}
}

func TestEachAdapterOfAClientIsAssessed(t *testing.T) {
	doc := parse(t, `"timeouts":{"connect":"1s"}`)
	report := capability.Assess(doc, []capability.Record{capability.NetHTTP(), pigeons()})
	if len(report.Upstreams) != 2 || len(report.Upstreams[0].Dropped) != 0 || len(report.Upstreams[1].Dropped) != 1 {
		t.Errorf("assessed as %+v", report.Upstreams)
	}
	if err := report.Rejection(); err != nil {
		t.Errorf("onUnsupported is Report, and it was refused: %v", err)
	}
}

func TestDeadKindsAreRefusedToo(t *testing.T) {
	doc := parse(t, `"onUnsupported":"Reject","retry":{"maxAttempts":2,"retryableKinds":["WriteTimeout"]}`)
	report := capability.Assess(doc, []capability.Record{capability.NetHTTP()})
	err := report.Rejection()
	if err == nil || !strings.Contains(err.Error(), "orders") || !strings.Contains(err.Error(), "nethttp") || !strings.Contains(err.Error(), "WriteTimeout") {
		t.Errorf("refused with %v, want upstream, adapter and kind", err)
	}
}

func TestLimitsOfZeroTakeNothing(t *testing.T) {
	doc := parse(t, `"timeouts":{"total":"0s","connect":"0s"},"retry":{"maxAttempts":1}`)
	if needs := capability.Needs(&doc.Upstreams[0]); len(needs) != 0 {
		t.Errorf("needs %v", needs)
	}
}

func TestNeedsOfARouteCount(t *testing.T) {
	doc := parse(t, `"timeouts":{"total":"1s"},"routes":[{"name":"slow","match":{"path":"/slow","pathMatch":"Prefix"},"timeouts":{"bodyIdle":"1s"}}]`)
	if needs := capability.Needs(&doc.Upstreams[0]); !slices.Contains(needs, capability.Need{Field: "timeouts.bodyIdle", Capability: capability.TimeoutBodyIdle}) {
		t.Errorf("needs %v", needs)
	}
}

func parse(t *testing.T, rules string) *document.Document {
	t.Helper()
	doc, err := document.Parse([]byte(`{"schema":1,"upstreams":[{"name":"orders","hosts":["orders"],` + rules + `}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}
