package document

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// random makes valid documents with everything in them that can vary.
type random struct{ *rand.Rand }

func (r random) maybe() bool { return r.IntN(2) == 0 }

func optional[T any](r random, make func() T) *T {
	if r.maybe() {
		return nil
	}
	return ptr(make())
}

func list[T any](r random, most int, make func() T) []T {
	switch r.IntN(4) {
	case 0:
		return nil
	case 1:
		return []T{}
	}
	items := []T{}
	for range 1 + r.IntN(most) {
		items = append(items, make())
	}
	return items
}

func pick[T any](r random, values ...T) T { return values[r.IntN(len(values))] }

// text is hostile, but valid UTF-8.
func (r random) text() string {
	return pick(r, "", "shop", "checkout", "<&>", "\u2028\u2029", "\"\\\b\f\n\r\t\x00\x1f\x7f", "äöü", "\U0001F600", "\uFFFD", strings.Repeat("x", 200))
}

func (r random) duration() Duration {
	return Duration(r.Int64N(pick(r, int64(1), 1000, 100000, int64(MaxDuration)/1e6))) * Duration(time.Millisecond)
}

func (r random) document() *Document {
	d := &Document{Schema: pick(r, 0, Schema), Namespace: r.text(), Client: r.text(), Revision: pick(r, "", "sha256:stale")}
	d.Policies = list(r, 4, func() PolicyRef {
		return PolicyRef{Namespace: r.text(), Name: "p" + r.text(), UID: r.text(), Generation: r.Int64() - 1<<62}
	})
	hosts := 0
	d.Upstreams = list(r, 4, func() Upstream {
		u := Upstream{Name: pick(r, "orders", "a", "x-1"), Mode: pick(r, "", ModeEnforce, ModeShadow), OnUnsupported: pick(r, "", UnsupportedReport, UnsupportedReject)}
		for range 1 + r.IntN(4) {
			hosts++
			u.Hosts = append(u.Hosts, fmt.Sprintf(pick(r, "h%d", "H%d.Example.com.", "*.w%d.example.com:80", "h%d:8080", "[::%d]", "[0:0::%d]:1"), hosts))
		}
		u.Rules, u.Provenance = r.rules(), r.provenance()
		u.Routes = list(r, 4, func() Route {
			return Route{Name: pick(r, "r", "s"), Match: r.match(), Rules: r.rules(), Provenance: r.provenance()}
		})
		matches := map[string]bool{}
		u.Routes = slices.DeleteFunc(u.Routes, func(route Route) bool {
			key := route.Match.Key()
			twice := matches[key]
			matches[key] = true
			return twice
		})
		return u
	})
	d.Tombstone = len(d.Upstreams) == 0 && r.maybe()
	return d
}

func (r random) provenance() map[string]string {
	if r.maybe() {
		return nil
	}
	p := map[string]string{}
	for range r.IntN(4) {
		p[pick(r, "timeouts.total", "mode", r.text())] = r.text()
	}
	return p
}

func (r random) match() Match {
	if r.IntN(3) == 0 {
		return Match{GRPC: &GRPCMatch{Service: pick(r, "", "a.B"), Method: pick(r, "", "C")}}
	}
	return Match{
		Methods: list(r, 3, func() string { return pick(r, "GET", "POST", "PUT") }),
		Path:    pick(r, "", "/", "/a", "/a/", "/a/b", "/\u00e4"), PathMatch: pick(r, "", PathPrefix, PathExact),
	}
}

func (r random) rules() Rules {
	var rules Rules
	rules.Timeouts = optional(r, func() Timeouts {
		return Timeouts{
			Total: optional(r, r.duration), Attempt: optional(r, r.duration), Connect: optional(r, r.duration),
			ResponseHeader: optional(r, r.duration), BodyIdle: optional(r, r.duration), Scope: pick(r, "", ScopeBody, ScopeHeaders),
		}
	})
	kinds := func() []string {
		return list(r, 3, func() string { return pick(r, "AttemptTimeout", "ReadTimeout", r.text()) })
	}
	rules.Retry = optional(r, func() Retry {
		return Retry{
			MaxAttempts: optional(r, func() int { return 1 + r.IntN(MaxAttempts) }),
			Backoff: optional(r, func() Backoff {
				return Backoff{Initial: optional(r, r.duration), Max: optional(r, r.duration), Factor: optional(r, func() int { return 1 + r.IntN(10) }), Jitter: pick(r, "", JitterFull, JitterEqual, JitterNone)}
			}),
			RetryableKinds: kinds(), RetryableGRPCCodes: kinds(),
			RetryableStatusCodes: list(r, 4, func() int { return 400 + r.IntN(200) }),
			Methods:              list(r, 3, func() string { return pick(r, "GET", "PUT") }),
			IdempotencyHeaders:   list(r, 3, func() string { return pick(r, "Idempotency-Key", "X-Request-Id") }),
			MaxReplayBytes:       optional(r, func() int64 { return r.Int64N(MaxReplayBytes + 1) }),
			RetryAfter: optional(r, func() RetryAfter {
				return RetryAfter{Mode: pick(r, "", RetryAfterHonor, RetryAfterIgnore), Max: optional(r, r.duration)}
			}),
			Budget: optional(r, func() Budget {
				return Budget{Percent: optional(r, func() int { return r.IntN(101) }), Burst: optional(r, func() int { return r.IntN(1000) })}
			}),
		}
	})
	rules.Deadline = optional(r, func() Deadline {
		return Deadline{Header: pick(r, "", "X-Deadline-Ms"), Reserve: optional(r, r.duration), Inbound: pick(r, "", InboundShorten, InboundIgnore)}
	})
	rules.CircuitBreaker = optional(r, func() CircuitBreaker {
		return CircuitBreaker{
			Failures: optional(r, func() int { return 1 + r.IntN(100) }), HalfOpen: optional(r, func() int { return 1 + r.IntN(9) }),
			Recovery: optional(r, func() Duration { return r.duration() + Duration(time.Millisecond) }), TripKinds: kinds(),
		}
	})
	if rules.CircuitBreaker != nil && rules.CircuitBreaker.Recovery != nil {
		rules.CircuitBreaker.Recovery = ptr(min(*rules.CircuitBreaker.Recovery, MaxDuration))
	}
	return rules
}

// shuffled returns a document that means the same, in another order.
func (r random) shuffled(d *Document) *Document {
	out := *d
	out.Policies = mixed(r, d.Policies)
	out.Upstreams = mixed(r, d.Upstreams)
	for i := range out.Upstreams {
		u := &out.Upstreams[i]
		u.Hosts, u.Routes, u.Rules = mixed(r, u.Hosts), mixed(r, u.Routes), r.shuffledRules(u.Rules)
		for j := range u.Routes {
			u.Routes[j].Rules = r.shuffledRules(u.Routes[j].Rules)
			u.Routes[j].Match.Methods = mixed(r, u.Routes[j].Match.Methods)
		}
	}
	return &out
}

func (r random) shuffledRules(rules Rules) Rules {
	if rules.Retry != nil {
		retry := *rules.Retry
		retry.RetryableKinds, retry.RetryableGRPCCodes = mixed(r, retry.RetryableKinds), mixed(r, retry.RetryableGRPCCodes)
		retry.RetryableStatusCodes = mixed(r, retry.RetryableStatusCodes)
		retry.Methods, retry.IdempotencyHeaders = mixed(r, retry.Methods), mixed(r, retry.IdempotencyHeaders)
		rules.Retry = &retry
	}
	return rules
}

func mixed[E any](r random, items []E) []E {
	if items == nil {
		return nil
	}
	out := append([]E{}, items...)
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func TestParseOfRenderIsTheNormalisedDocument(t *testing.T) {
	for seed := range uint64(3000) {
		r := random{rand.New(rand.NewPCG(seed, 1))}
		d := r.document()
		before := fmt.Sprintf("%#v", d)
		data, err := Render(d)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if after := fmt.Sprintf("%#v", d); after != before {
			t.Fatalf("seed %d: Render changed its argument", seed)
		}
		got, err := Parse(data)
		if err != nil {
			t.Fatalf("seed %d: Render wrote what Parse refuses: %v\n%s", seed, err, data)
		}
		want := d.normalized()
		want.Schema, want.Revision = Schema, Revision(d)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: Parse(Render(x)) is\n%+v\nnot the normalised x\n%+v", seed, got, want)
		}
		if !reflect.DeepEqual(got.normalized().Upstreams, got.Upstreams) {
			t.Fatalf("seed %d: what was rendered is not normalised", seed)
		}
		again, err := Render(got)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("seed %d: rendering it again gives other bytes (%v)", seed, err)
		}
	}
}

func TestRevisionDoesNotDependOnOrder(t *testing.T) {
	for seed := range uint64(300) {
		r := random{rand.New(rand.NewPCG(seed, 2))}
		d := r.document()
		want, err := Render(d)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			got, err := Render(r.shuffled(d))
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("seed %d: another order gives another document (%v)\n%s\n%s", seed, err, got, want)
			}
		}
	}
}

func TestRevisionIsTheDigestOfTheCanonicalForm(t *testing.T) {
	d := &Document{Namespace: "a\u2028<\"\\\b\t\n\f\r\x01\x7fä", Upstreams: []Upstream{{Name: "o", Hosts: []string{"O."}, Rules: Rules{Timeouts: &Timeouts{Total: ms(1500)}}}}}
	canonical := "{\"namespace\":\"a\u2028<\\\"\\\\\\b\\t\\n\\f\\r\\u0001\x7fä\",\"schema\":1,\"upstreams\":[{\"hosts\":[\"o\"],\"name\":\"o\",\"timeouts\":{\"total\":\"1s500ms\"}}]}"
	if !json.Valid([]byte(canonical)) {
		t.Fatal("the test's canonical form is not JSON")
	}
	digest := sha256.Sum256([]byte(canonical))
	want := "sha256:" + hex.EncodeToString(digest[:])
	if got := Revision(d); got != want {
		t.Errorf("Revision is %s, want %s", got, want)
	}
	data, err := Render(d)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Parse(data)
	if err != nil || doc.Revision != want {
		t.Errorf("the rendered document has revision %s, %v, want %s", doc.Revision, err, want)
	}
}

// A digest that was right when this was written: the form must never change.
func TestRevisionNeverChanges(t *testing.T) {
	doc, err := Parse([]byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	const want = "sha256:348392c8ab698229045953b0fe92edc63596c20c2f4d61c464706e1ce6b1b5a8"
	if got := Revision(doc); got != want {
		t.Errorf("Revision is %s, want %s: readers and writers of other versions would not agree", got, want)
	}
}

func TestAnyEditOfTheTextIsNoticed(t *testing.T) {
	data, err := Render(&Document{Client: "checkout", Upstreams: []Upstream{{Name: "orders", Hosts: []string{"orders"}, Rules: Rules{Timeouts: &Timeouts{Total: ms(1000)}}}}})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		edited := bytes.Clone(data)
		edited[i] ^= 1
		// White space, and the name of the field with the revision, can change
		// without a change of what the document says.
		if got, err := Parse(edited); err == nil && Revision(got) != doc.Revision {
			t.Errorf("byte %d (%q) was changed to %q and it was read as %+v", i, data[i], edited[i], got)
		}
		if _, err := Parse(data[:i]); err == nil && i < len(data)-1 {
			t.Errorf("the first %d bytes are accepted", i)
		}
	}
}

func TestUnknownFieldsArePartOfTheRevision(t *testing.T) {
	plain, err := Parse([]byte(`{"schema":1}`))
	if err != nil {
		t.Fatal(err)
	}
	newer, err := Parse([]byte(`{"schema":1,"future":[null,true,1.50,"x"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if plain.Revision == newer.Revision {
		t.Error("a field that this version does not know leaves the revision as it is")
	}
	if _, err := Parse([]byte(`{"schema":1,"future":[null,true,1.50,"x"],"revision":"` + newer.Revision + `"}`)); err != nil {
		t.Errorf("the revision of a newer document is not accepted: %v", err)
	}
}

func TestRenderRefusesWhatParseWouldRefuse(t *testing.T) {
	big := &Document{}
	for i := range 12000 {
		big.Upstreams = append(big.Upstreams, Upstream{Name: "u", Hosts: []string{fmt.Sprintf("host-%d.%s.example.com", i, strings.Repeat("x", 60))}})
	}
	for name, d := range map[string]*Document{
		"no hosts":              {Upstreams: []Upstream{{Name: "a"}}},
		"too large":             big,
		"names that become one": {Upstreams: []Upstream{{Name: "a", Hosts: []string{"a"}, Provenance: map[string]string{"\xff": "x", "\xfe": "y"}}}},
	} {
		if data, err := Render(d); err == nil {
			t.Errorf("%s: rendered %d bytes", name, len(data))
		}
	}
}

func ExampleRender() {
	total := Duration(time.Second)
	data, err := Render(&Document{
		Namespace: "shop", Client: "checkout",
		Upstreams: []Upstream{{Name: "orders", Hosts: []string{"Orders.example.com."}, Rules: Rules{Timeouts: &Timeouts{Total: &total}}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(data))
	// Output:
	// {
	//   "client": "checkout",
	//   "namespace": "shop",
	//   "revision": "sha256:1fb1000928cbe41a11a5106d50ee719d1e737f1dd2efce00520ecfcf9281c4b3",
	//   "schema": 1,
	//   "upstreams": [
	//     {
	//       "hosts": [
	//         "orders.example.com"
	//       ],
	//       "name": "orders",
	//       "timeouts": {
	//         "total": "1s"
	//       }
	//     }
	//   ]
	// }
}
