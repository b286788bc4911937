package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

var testPod = Pod{Name: "checkout-7d9", Namespace: "shop", UID: "0b5c0f8e-0000-4000-8000-000000000000"}

// crowded returns n clients, each with policies, adapters and upstreams, the
// last of everything being the bad one.
func crowded(clients, policies, upstreams int) []Client {
	var list []Client
	for i := range clients {
		c := Client{
			Name: fmt.Sprintf("client-%02d", i), Delivery: "Mount", State: StateReady,
			Revision: "sha256:" + strings.Repeat("ab", 32), Message: strings.Repeat("long words ", 50),
			Adapters: []Adapter{NewAdapter(capability.NetHTTP())},
		}
		if i == clients-1 {
			c.State, c.Reason = StateStale, "InvalidUpdate"
		}
		for j := range policies {
			p := Policy{Namespace: "shop", Name: fmt.Sprintf("policy-%02d", j), UID: testPod.UID, Generation: 7, Revision: c.Revision, State: PolicyApplied}
			if j == policies-1 {
				p.State, p.Reason, p.Message = PolicyRejected, "MissingCapability", strings.Repeat("because ", 60)
			}
			c.Policies = append(c.Policies, p)
		}
		for j := range upstreams {
			u := Upstream{Name: fmt.Sprintf("upstream-%02d", j), Adapter: "nethttp", DeadKinds: []string{"WriteTimeout"}}
			if j == upstreams-1 {
				u.Unsupported = []Unsupported{{"timeouts.connect", "TimeoutConnect"}}
			}
			c.Upstreams = append(c.Upstreams, u)
		}
		list = append(list, c)
	}
	return list
}

func decode(t *testing.T, body []byte) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		t.Fatalf("the report is not JSON: %v\n%s", err, body)
	}
	return o
}

func TestReportFitsWhateverThereIsToSay(t *testing.T) {
	for _, n := range []struct{ clients, policies, upstreams int }{
		{1, 1, 1}, {1, 64, 0}, {1, 0, 64}, {1, 64, 64}, {4, 10, 10}, {16, 1, 1}, {16, 64, 64}, {100, 100, 100}, {0, 0, 0},
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			clients := crowded(n.clients, n.policies, n.upstreams)
			body := render(testPod, Library{"clientlib", Version}, clients)
			if len(body) > MaxBytes {
				t.Errorf("%d bytes, more than %d", len(body), MaxBytes)
			}
			o := decode(t, body)
			if n.clients == 0 {
				return
			}
			if len(o.Clients) == 0 || o.Clients[0].State != StateStale {
				t.Fatalf("the client in trouble is not the first one of %d", len(o.Clients))
			}
			if n.policies > 0 && (len(o.Clients[0].Policies) == 0 || o.Clients[0].Policies[0].State != PolicyRejected) {
				t.Errorf("the rejected policy is not the first one: %+v", o.Clients[0].Policies)
			}
			if n.policies == 0 && n.upstreams > 0 && (len(o.Clients[0].Upstreams) == 0 || len(o.Clients[0].Upstreams[0].Unsupported) == 0) {
				t.Errorf("the upstream with most gaps is not the first one: %+v", o.Clients[0].Upstreams)
			}
		})
	}
}

// What must go goes in the order of least loss.
func TestAcknowledgementsOutliveDetails(t *testing.T) {
	body := render(testPod, Library{"clientlib", Version}, crowded(1, 20, 20))
	c := decode(t, body).Clients[0]
	if len(c.Policies) != 20 {
		t.Errorf("%d acknowledgements are left of 20", len(c.Policies))
	}
	if len(c.Adapters) != 1 || c.Adapters[0].Capabilities["RetryOwned"] != "Degraded" {
		t.Errorf("the weak capability is not left: %+v", c.Adapters)
	}
	if len(c.Adapters[0].Emits) != 0 {
		t.Error("the kinds outlived acknowledgements or gaps")
	}
}

func TestReportDoesNotDependOnOrder(t *testing.T) {
	clients := crowded(5, 20, 20)
	want := render(testPod, Library{"clientlib", Version}, clients)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		shuffle(rng, clients)
		for i := range clients {
			shuffle(rng, clients[i].Policies)
			shuffle(rng, clients[i].Upstreams)
		}
		if got := render(testPod, Library{"clientlib", Version}, clients); !bytes.Equal(got, want) {
			t.Fatalf("another order gives another report:\n%s\n%s", got, want)
		}
	}
}

func shuffle[E any](rng *rand.Rand, list []E) {
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

func TestRenderingLeavesItsInputAlone(t *testing.T) {
	clients, same := crowded(16, 64, 64), crowded(16, 64, 64)
	render(testPod, Library{"clientlib", Version}, clients)
	if !reflect.DeepEqual(clients, same) {
		t.Error("the clients were changed")
	}
}

func TestTextsAreOneLineOfValidUTF8(t *testing.T) {
	for _, tc := range []struct {
		in   string
		n    int
		want string
	}{
		{"plain", 256, "plain"},
		{"two\nlines\tand\x00more\x7f", 256, "two lines and more "},
		{"broken \xff\xfe bytes", 256, "broken ? bytes"},
		{"cut here", 3, "cut"},
		{"äöü", 3, "ä"},
		{"anything", 0, ""},
	} {
		if got := clip(tc.in, tc.n); got != tc.want || !utf8.ValidString(got) {
			t.Errorf("clip(%q, %d) is %q, want %q", tc.in, tc.n, got, tc.want)
		}
	}
}

// A document can carry words that the schema of a report has no room for.
func TestWordsOfADocumentDoNotSpoilTheReport(t *testing.T) {
	long := strings.Repeat("x", 1000)
	body := render(testPod, Library{"clientlib", Version}, []Client{{
		Name: "a", Delivery: "Mount", State: StateReady, Reason: long, Revision: long,
		Policies:  []Policy{{Namespace: long, Name: long, UID: long, Revision: long, State: PolicyApplied, Reason: long}},
		Adapters:  []Adapter{{Name: long, Emits: []string{"", "B", "B", long}}},
		Upstreams: []Upstream{{Name: long, Adapter: long, DeadKinds: []string{"", "A", "A", long, long + "y"}, Unsupported: []Unsupported{{long, long}}}},
	}})
	c := decode(t, body).Clients[0]
	word, field := long[:64], long[:128]
	want := Client{
		Name: "a", Delivery: "Mount", State: StateReady, Reason: word, Revision: field,
		Policies:  []Policy{{Namespace: long[:63], Name: long[:253], UID: word, Revision: field, State: PolicyApplied, Reason: word}},
		Adapters:  []Adapter{{Name: long[:63], Emits: []string{"B", word}}},
		Upstreams: []Upstream{{Name: long[:63], Adapter: long[:63], DeadKinds: []string{"A", word}, Unsupported: []Unsupported{{field, word}}}},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("the client is\n%+v\nwant\n%+v", c, want)
	}
}

// Nor do programs with sources, adapters and libraries of their own: what the
// schema does not take is left out or made what it does.
func TestWhatProgramsMakeUpDoesNotSpoilTheReport(t *testing.T) {
	whole := Client{
		Name: "a", Delivery: "Carrier pigeon", State: StateReady,
		Policies:  []Policy{{Name: "", State: PolicyApplied}, {Name: "p", State: PolicyApplied}},
		Adapters:  []Adapter{{Name: ""}, {Name: "x"}},
		Upstreams: []Upstream{{Name: "", Adapter: "x"}, {Name: "u", Adapter: ""}, {Name: "u", Adapter: "x"}},
	}
	library := Library{Name: strings.Repeat("n", 100), Version: strings.Repeat("v", 1000)}
	o := decode(t, render(testPod, library, []Client{{Name: ""}, whole, {Name: "b", State: StateReady}}))
	if len(o.Library.Name) != maxWordLength || len(o.Library.Version) != maxWordLength {
		t.Errorf("the library is %+v", o.Library)
	}
	if len(o.Clients) != 2 || o.Clients[0].Delivery != "Poll" || o.Clients[1].Delivery != "Poll" {
		t.Fatalf("the clients are %+v", o.Clients)
	}
	if c := o.Clients[0]; len(c.Policies) != 1 || len(c.Adapters) != 1 || len(c.Upstreams) != 1 {
		t.Errorf("the client is %+v", c)
	}
	for _, known := range deliveries {
		o := decode(t, render(testPod, library, []Client{{Name: "a", Delivery: known}}))
		if o.Clients[0].Delivery != known {
			t.Errorf("delivery %s became %s", known, o.Clients[0].Delivery)
		}
	}
}

func TestAdapterListsEveryCapability(t *testing.T) {
	a := NewAdapter(capability.Record{Adapter: "x", Support: map[capability.Name]capability.Support{
		capability.TimeoutTotal: {Level: capability.Native},
	}})
	if len(a.Capabilities) != len(capability.Names()) {
		t.Errorf("%d capabilities, want %d", len(a.Capabilities), len(capability.Names()))
	}
	if a.Capabilities["TimeoutTotal"] != "Native" || a.Capabilities["HTTP2"] != "Absent" {
		t.Errorf("capabilities are %v", a.Capabilities)
	}
}

func TestOnlyUpstreamsWithAGapAreReported(t *testing.T) {
	doc, err := document.Parse([]byte(`{"schema":1,"upstreams":[
		{"name":"a","hosts":["a"],"timeouts":{"total":"1s","connect":"100ms"}},
		{"name":"b","hosts":["b"]},
		{"name":"c","hosts":["c"],"retry":{"maxAttempts":2,"retryableKinds":["WriteTimeout"]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	record := capability.NetHTTP()
	delete(record.Support, capability.TimeoutConnect)
	got := NewUpstreams(capability.Assess(doc, []capability.Record{record}))
	want := []Upstream{
		{Name: "a", Adapter: "nethttp", Unsupported: []Unsupported{{"timeouts.connect", "TimeoutConnect"}}},
		{Name: "c", Adapter: "nethttp", DeadKinds: []string{"WriteTimeout"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("upstreams are %+v,\nwant %+v", got, want)
	}
}
