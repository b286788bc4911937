package document

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func ptr[T any](v T) *T { return &v }

func ms(n int) *Duration { return ptr(Duration(time.Duration(n) * time.Millisecond)) }

// everything is a document that uses every field.
const everything = `{
  "schema": 1,
  "namespace": "shop",
  "client": "checkout",
  "policies": [{"namespace": "shop", "name": "checkout", "uid": "u-1", "generation": 3}],
  "upstreams": [{
    "name": "orders",
    "hosts": ["orders", "orders.shop.svc.cluster.local:8080", "*.example.com", "[::1]:80"],
    "mode": "Shadow",
    "onUnsupported": "Reject",
    "timeouts": {"total": "1s", "attempt": "400ms", "connect": "100ms", "responseHeader": "300ms", "bodyIdle": "0s", "scope": "Headers"},
    "retry": {
      "maxAttempts": 3,
      "backoff": {"initial": "10ms", "max": "1s", "factor": 2, "jitter": "Equal"},
      "retryableKinds": ["AttemptTimeout", "NotYetInvented"],
      "retryableStatusCodes": [503],
      "retryableGRPCCodes": [],
      "methods": ["GET"],
      "idempotencyHeaders": ["Idempotency-Key"],
      "maxReplayBytes": 0,
      "retryAfter": {"mode": "Ignore", "max": "1m"},
      "budget": {"percent": 10, "burst": 0}
    },
    "deadline": {"header": "X-Deadline-Ms", "reserve": "20ms", "inbound": "Ignore"},
    "circuitBreaker": {"failures": 5, "recovery": "30s", "halfOpen": 1, "tripKinds": ["Status"]},
    "provenance": {"timeouts.total": "shop/checkout@3"},
    "routes": [
      {"name": "refunds", "match": {"methods": ["POST"], "path": "/v1/refunds/", "pathMatch": "Prefix"}, "timeouts": {"total": "10s"}, "provenance": {"timeouts.total": "shop/checkout@3"}},
      {"name": "pay", "match": {"grpc": {"service": "shop.v1.Pay", "method": "Do"}}, "retry": {"maxAttempts": 1}}
    ]
  }]
}`

func TestParseReadsEveryField(t *testing.T) {
	got, err := Parse([]byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	want := &Document{
		Schema: 1, Revision: got.Revision, Namespace: "shop", Client: "checkout",
		Policies: []PolicyRef{{Namespace: "shop", Name: "checkout", UID: "u-1", Generation: 3}},
		Upstreams: []Upstream{{
			Name: "orders", Hosts: []string{"orders", "orders.shop.svc.cluster.local:8080", "*.example.com", "[::1]:80"},
			Mode: ModeShadow, OnUnsupported: UnsupportedReject,
			Rules: Rules{
				Timeouts: &Timeouts{Total: ms(1000), Attempt: ms(400), Connect: ms(100), ResponseHeader: ms(300), BodyIdle: ms(0), Scope: ScopeHeaders},
				Retry: &Retry{
					MaxAttempts:          ptr(3),
					Backoff:              &Backoff{Initial: ms(10), Max: ms(1000), Factor: ptr(2), Jitter: JitterEqual},
					RetryableKinds:       []string{"AttemptTimeout", "NotYetInvented"},
					RetryableStatusCodes: []int{503},
					RetryableGRPCCodes:   []string{},
					Methods:              []string{"GET"},
					IdempotencyHeaders:   []string{"Idempotency-Key"},
					MaxReplayBytes:       ptr(int64(0)),
					RetryAfter:           &RetryAfter{Mode: RetryAfterIgnore, Max: ms(60000)},
					Budget:               &Budget{Percent: ptr(10), Burst: ptr(0)},
				},
				Deadline:       &Deadline{Header: "X-Deadline-Ms", Reserve: ms(20), Inbound: InboundIgnore},
				CircuitBreaker: &CircuitBreaker{Failures: ptr(5), Recovery: ms(30000), HalfOpen: ptr(1), TripKinds: []string{"Status"}},
			},
			Provenance: map[string]string{"timeouts.total": "shop/checkout@3"},
			Routes: []Route{
				{Name: "refunds", Match: Match{Methods: []string{"POST"}, Path: "/v1/refunds/", PathMatch: PathPrefix}, Rules: Rules{Timeouts: &Timeouts{Total: ms(10000)}}, Provenance: map[string]string{"timeouts.total": "shop/checkout@3"}},
				{Name: "pay", Match: Match{GRPC: &GRPCMatch{Service: "shop.v1.Pay", Method: "Do"}}, Rules: Rules{Retry: &Retry{MaxAttempts: ptr(1)}}},
			},
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Parse gives\n%+v\nwant\n%+v", got, want)
	}
	if len(got.UnknownFields()) != 0 {
		t.Errorf("unknown fields: %v", got.UnknownFields())
	}
}

// A document of a type that Parse forgets a field of would lose it.
func TestParseKnowsEveryFieldOfTheTypes(t *testing.T) {
	doc, err := Parse([]byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				name := v.Type().Name() + "." + f.Name
				seen[name] = seen[name] || !v.Field(i).IsZero()
				if f.IsExported() {
					walk(v.Field(i))
				}
			}
		}
	}
	walk(reflect.ValueOf(doc))
	for name, set := range seen {
		if !set && name != "Document.Tombstone" && name != "Document.unknown" && name != "Route.Deadline" {
			t.Errorf("%s is not set by the document that uses every field", name)
		}
	}
}

// Case A09.
func TestAbsentNullAndEmptyAreWhatTheySay(t *testing.T) {
	read := func(retry string) *Retry {
		doc, err := Parse([]byte(`{"schema":1,"upstreams":[{"name":"a","hosts":["a"],"timeouts":{"total":null,"attempt":"0s"},"retry":` + retry + `}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if timeouts := doc.Upstreams[0].Timeouts; timeouts.Total != nil || timeouts.Attempt == nil || *timeouts.Attempt != 0 {
			t.Errorf("timeouts are %+v, want an absent total and an attempt of 0s", timeouts)
		}
		return doc.Upstreams[0].Retry
	}
	if r := read(`null`); r != nil {
		t.Errorf("null block is %+v", r)
	}
	if r := read(`{}`); r == nil || r.Methods != nil || r.MaxAttempts != nil {
		t.Errorf("empty block is %+v", r)
	}
	if r := read(`{"methods":null}`); r.Methods != nil {
		t.Errorf("null list is %+v", r.Methods)
	}
	if r := read(`{"methods":[]}`); r.Methods == nil || len(r.Methods) != 0 {
		t.Errorf("empty list is %#v", r.Methods)
	}
}

// Case A26.
func TestUnknownFieldsAreListedNotRefused(t *testing.T) {
	doc, err := Parse([]byte(`{"schema":1,"future":{"deep":[1]},"upstreams":[{"name":"a","hosts":["a"],"timeouts":{"total":"1s","hedge":"2s"},
		"routes":[{"name":"r","match":{"header":"x","grpc":{"service":"s","stream":true}},"retry":{"backoff":{"curve":1},"budget":{"x":1},"retryAfter":{"y":1}},"deadline":{"z":1},"circuitBreaker":{"w":1}}]}],
		"policies":[{"name":"p","labels":{}}],"strange name\n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`["strange name\n"]`, `future`, `policies[0].labels`, `upstreams[0].routes[0].circuitBreaker.w`, `upstreams[0].routes[0].deadline.z`,
		`upstreams[0].routes[0].match.grpc.stream`, `upstreams[0].routes[0].match.header`,
		`upstreams[0].routes[0].retry.backoff.curve`, `upstreams[0].routes[0].retry.budget.x`, `upstreams[0].routes[0].retry.retryAfter.y`,
		`upstreams[0].timeouts.hedge`,
	}
	if got := doc.UnknownFields(); !reflect.DeepEqual(got, want) {
		t.Errorf("unknown fields are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// in puts rules into an upstream of an otherwise valid document.
func in(rules string) string {
	return `{"schema":1,"upstreams":[{"name":"a","hosts":["a"]},{"name":"b","hosts":["b"],` + rules + `}]}`
}

func route(fields string) string { return in(`"routes":[{"name":"r",` + fields + `}]`) }

// Every refusal names the exact field.
//
// Cases A06, A32, T14.
func TestRefusalsNameTheField(t *testing.T) {
	long := strings.Repeat("x", 254)
	for _, tc := range []struct {
		name, text string
		path       string
		reason     string // part of it
		class      error
	}{
		{"empty", "", "", "empty", ErrEmpty},
		{"white space", " \n\t", "", "empty", ErrEmpty},
		{"too large", strings.Repeat(" ", MaxBytes+1), "", "more than 1048576 bytes", ErrTooLarge},
		{"truncated", `{"schema":1,"upstreams":[{"name":"a","hosts":["a`, "upstreams[0].hosts[0]", "ends too early (byte 46)", ErrTruncated},
		{"truncated literal", `{"schema":1,"tombstone":tru`, "tombstone", "ends too early", ErrTruncated},
		{"truncated after a name", `{"schema"`, "schema", "ends too early", ErrTruncated},
		{"truncated inside a letter", "{\"schema\":1,\"namespace\":\"\xc3", "namespace", "ends too early", ErrTruncated},
		{"bad token", `{"schema":1,"tombstone":TRUE}`, "tombstone", "is not JSON (byte 24): invalid character 'T'", ErrSyntax},
		{"trailing comma", `{"schema":1,}`, "", "is not JSON", ErrSyntax},
		{"single quotes", `{'schema':1}`, "", "is not JSON", ErrSyntax},
		{"comment", "{// no\n\"schema\":1}", "", "is not JSON", ErrSyntax},
		{"mismatched brackets", `{"schema":1,"upstreams":[}`, "upstreams", "is not JSON", ErrSyntax},
		{"byte order mark", "\xef\xbb\xbf{\"schema\":1}", "", "is not JSON", ErrSyntax},
		{"text after the end", `{"schema":1} x`, "", "more after the end", ErrSyntax},
		{"second document", `{"schema":1}{}`, "", "more after the end", ErrSyntax},
		{"not UTF-8", "{\"schema\":1,\"namespace\":\"\xff\"}", "", "not UTF-8", ErrSyntax},
		{"number without end", `{"schema":1,"x":1e}`, "x", "is not JSON", ErrSyntax},
		{"twice", `{"schema":1,"namespace":"a","namespace":"b"}`, "namespace", "twice", nil},
		{"twice, deep", in(`"timeouts":{"total":"1s","total":"2s"}`), "upstreams[1].timeouts.total", "twice", nil},
		{"twice, by an escape", `{"schema":1,"namespace":"a","n\u0061mespace":"b"}`, "namespace", "twice", nil},
		{"too deep", `{"schema":1,"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}", "x" + strings.Repeat("[0]", maxDepth), "deeper", nil},
		{"control characters in a name", "{\"schema\":1,\"a\\r\\u0010\":tru}", `["a\r\x10"]`, "is not JSON", ErrSyntax},

		{"list", `[]`, "", "is a list, it must be an object", nil},
		{"null", `null`, "", "is null, it must be an object", nil},
		{"no schema", `{}`, "schema", "is missing, it must be 1", ErrSchema},
		{"other schema", `{"schema":2}`, "schema", "is 2, this version reads 1 only", ErrSchema},
		{"schema 0", `{"schema":0}`, "schema", "is 0", ErrSchema},
		{"large schema", `{"schema":9223372036854775807}`, "schema", "this version reads 1 only", ErrSchema},
		{"schema as text", `{"schema":"1"}`, "schema", `is the string "1", it must be a whole number`, nil},
		{"schema with a fraction", `{"schema":1.0}`, "schema", "is 1.0, it must be a whole number", nil},
		{"huge number", `{"schema":` + strings.Repeat("9", 500) + `}`, "schema", "it must be a whole number", nil},
		{"unknown schema of another shape", `{"schema":2,"upstreams":7}`, "schema", "is 2", ErrSchema},
		{"revision of another type", `{"schema":1,"revision":7}`, "revision", "must be a string", nil},
		{"wrong revision", `{"schema":1,"revision":"sha256:00"}`, "revision", "damaged or was edited", ErrRevision},

		{"tombstone of another type", `{"schema":1,"tombstone":"true"}`, "tombstone", "must be true or false", nil},
		{"tombstone with upstreams", `{"schema":1,"tombstone":true,"upstreams":[{"name":"a","hosts":["a"]}]}`, "tombstone", "upstreams must be empty", nil},
		{"long namespace", `{"schema":1,"namespace":"` + long + `"}`, "namespace", "longer than 253", nil},
		{"long client", `{"schema":1,"client":"` + long + `"}`, "client", "longer than 253", nil},
		{"policy without a name", `{"schema":1,"policies":[{"name":"a"},{}]}`, "policies[1].name", "1 to 253", nil},
		{"policies of another type", `{"schema":1,"policies":{}}`, "policies", "is an object, it must be a list", nil},
		{"policy of another type", `{"schema":1,"policies":[null]}`, "policies[0]", "is null, it must be an object", nil},
		{"generation of another type", `{"schema":1,"policies":[{"name":"a","generation":"3"}]}`, "policies[0].generation", "whole number", nil},

		{"upstreams of another type", `{"schema":1,"upstreams":"x"}`, "upstreams", "must be a list", nil},
		{"upstream of another type", `{"schema":1,"upstreams":[[]]}`, "upstreams[0]", "must be an object", nil},
		{"upstream without a name", `{"schema":1,"upstreams":[{"hosts":["a"]}]}`, "upstreams[0].name", "is not a name", nil},
		{"upstream with a bad name", `{"schema":1,"upstreams":[{"name":"A_b","hosts":["a"]}]}`, "upstreams[0].name", "is not a name", nil},
		{"long upstream name", `{"schema":1,"upstreams":[{"name":"` + long + `","hosts":["a"]}]}`, "upstreams[0].name", "is not a name", nil},
		{"no hosts", `{"schema":1,"upstreams":[{"name":"a"}]}`, "upstreams[0].hosts", "1 to 1024", nil},
		{"empty hosts", `{"schema":1,"upstreams":[{"name":"a","hosts":[]}]}`, "upstreams[0].hosts", "1 to 1024", nil},
		{"too many hosts", `{"schema":1,"upstreams":[{"name":"a","hosts":["a"` + strings.Repeat(`,"a"`, 1024) + `]}]}`, "upstreams[0].hosts", "1 to 1024", nil},
		{"host of another type", `{"schema":1,"upstreams":[{"name":"a","hosts":["a",1]}]}`, "upstreams[0].hosts[1]", "must be a string", nil},
		{"bad host", `{"schema":1,"upstreams":[{"name":"a","hosts":["a","http://a"]}]}`, "upstreams[0].hosts[1]", "host \"http://a\"", nil},
		{"host twice", `{"schema":1,"upstreams":[{"name":"a","hosts":["a","A."]}]}`, "upstreams[0].hosts[1]", "belongs to upstreams[0]", nil},
		{"host in two upstreams", `{"schema":1,"upstreams":[{"name":"a","hosts":["a"]},{"name":"b","hosts":["a"]}]}`, "upstreams[1].hosts[0]", "belongs to upstreams[0]", nil},
		{"mode", in(`"mode":"Disabled"`), "upstreams[1].mode", `is "Disabled", it must be Enforce or Shadow`, nil},
		{"mode in lower case", in(`"mode":"enforce"`), "upstreams[1].mode", "must be Enforce", nil},
		{"onUnsupported", in(`"onUnsupported":"Ignore"`), "upstreams[1].onUnsupported", "must be Report or Reject", nil},
		{"provenance of another type", in(`"provenance":{"timeouts.total":1}`), `upstreams[1].provenance["timeouts.total"]`, "must be a string", nil},

		{"timeouts of another type", in(`"timeouts":"1s"`), "upstreams[1].timeouts", "must be an object", nil},
		{"number for a limit", in(`"timeouts":{"total":600}`), "upstreams[1].timeouts.total", "is the number 600, a duration is a string with a unit", nil},
		{"limit without a unit", in(`"timeouts":{"attempt":"600"}`), "upstreams[1].timeouts.attempt", "is not a duration", nil},
		{"limit in days", in(`"timeouts":{"connect":"1d"}`), "upstreams[1].timeouts.connect", "is not a duration", nil},
		{"empty limit", in(`"timeouts":{"responseHeader":""}`), "upstreams[1].timeouts.responseHeader", "is not a duration", nil},
		{"huge limit", in(`"timeouts":{"bodyIdle":"99999h1ms"}`), "upstreams[1].timeouts.bodyIdle", "longer than the largest", nil},
		{"scope", in(`"timeouts":{"scope":"All"}`), "upstreams[1].timeouts.scope", "must be Body or Headers", nil},

		{"retry of another type", in(`"retry":[]`), "upstreams[1].retry", "must be an object", nil},
		{"no attempts", in(`"retry":{"maxAttempts":0}`), "upstreams[1].retry.maxAttempts", "from 1 to 10", nil},
		{"negative attempts", in(`"retry":{"maxAttempts":-1}`), "upstreams[1].retry.maxAttempts", "from 1 to 10", nil},
		{"many attempts", in(`"retry":{"maxAttempts":11}`), "upstreams[1].retry.maxAttempts", "from 1 to 10", nil},
		{"attempts beyond an int", in(`"retry":{"maxAttempts":4294967297}`), "upstreams[1].retry.maxAttempts", "out of range", nil},
		{"attempts with an exponent", in(`"retry":{"maxAttempts":1e0}`), "upstreams[1].retry.maxAttempts", "whole number", nil},
		{"factor", in(`"retry":{"backoff":{"factor":0}}`), "upstreams[1].retry.backoff.factor", "from 1 to 10", nil},
		{"jitter", in(`"retry":{"backoff":{"jitter":"Half"}}`), "upstreams[1].retry.backoff.jitter", "Full or Equal or None", nil},
		{"backoff.initial", in(`"retry":{"backoff":{"initial":5}}`), "upstreams[1].retry.backoff.initial", "with a unit", nil},
		{"backoff.max", in(`"retry":{"backoff":{"max":"-1s"}}`), "upstreams[1].retry.backoff.max", "is not a duration", nil},
		{"kinds of another type", in(`"retry":{"retryableKinds":"all"}`), "upstreams[1].retry.retryableKinds", "must be a list", nil},
		{"kind of another type", in(`"retry":{"retryableKinds":[null]}`), "upstreams[1].retry.retryableKinds[0]", "must be a string", nil},
		{"status code below", in(`"retry":{"retryableStatusCodes":[503,399]}`), "upstreams[1].retry.retryableStatusCodes[1]", "from 400 to 599", nil},
		{"status code above", in(`"retry":{"retryableStatusCodes":[600]}`), "upstreams[1].retry.retryableStatusCodes[0]", "from 400 to 599", nil},
		{"status code beyond an int", in(`"retry":{"retryableStatusCodes":[4294967799]}`), "upstreams[1].retry.retryableStatusCodes[0]", "from 400 to 599", nil},
		{"status code as text", in(`"retry":{"retryableStatusCodes":["5xx"]}`), "upstreams[1].retry.retryableStatusCodes[0]", "whole number", nil},
		{"method", in(`"retry":{"methods":["GET","P UT"]}`), "upstreams[1].retry.methods[1]", "is not an HTTP token", nil},
		{"header", in(`"retry":{"idempotencyHeaders":["Key:"]}`), "upstreams[1].retry.idempotencyHeaders[0]", "is not an HTTP token", nil},
		{"negative replay", in(`"retry":{"maxReplayBytes":-1}`), "upstreams[1].retry.maxReplayBytes", "from 0 to 16777216", nil},
		{"large replay", in(`"retry":{"maxReplayBytes":16777217}`), "upstreams[1].retry.maxReplayBytes", "from 0 to 16777216", nil},
		{"retryAfter.mode", in(`"retry":{"retryAfter":{"mode":"No"}}`), "upstreams[1].retry.retryAfter.mode", "Honor or Ignore", nil},
		{"retryAfter.max", in(`"retry":{"retryAfter":{"max":"x"}}`), "upstreams[1].retry.retryAfter.max", "is not a duration", nil},
		{"percent", in(`"retry":{"budget":{"percent":101}}`), "upstreams[1].retry.budget.percent", "from 0 to 100", nil},
		{"burst", in(`"retry":{"budget":{"burst":-1}}`), "upstreams[1].retry.budget.burst", "from 0 to 100000", nil},

		{"deadline.header", in(`"deadline":{"header":"X Deadline"}`), "upstreams[1].deadline.header", "is not an HTTP token", nil},
		{"deadline.header that is taken", in(`"deadline":{"header":"hOST"}`), "upstreams[1].deadline.header", "hOST has a meaning already", nil},
		{"long header", in(`"deadline":{"header":"` + strings.Repeat("x", 65) + `"}`), "upstreams[1].deadline.header", "is not an HTTP token", nil},
		{"header with a line break", in(`"deadline":{"header":"X\r\nY"}`), "upstreams[1].deadline.header", `"X\r\nY" is not an HTTP token`, nil},
		{"deadline.inbound", in(`"deadline":{"inbound":"Extend"}`), "upstreams[1].deadline.inbound", "Shorten or Ignore", nil},
		{"deadline.reserve", in(`"deadline":{"reserve":1}`), "upstreams[1].deadline.reserve", "with a unit", nil},

		{"breaker that never opens", in(`"circuitBreaker":{"failures":0}`), "upstreams[1].circuitBreaker.failures", "from 1 to 10000", nil},
		{"breaker without a recovery", in(`"circuitBreaker":{"recovery":"0s"}`), "upstreams[1].circuitBreaker.recovery", "longer than 0s", nil},
		{"breaker without a probe", in(`"circuitBreaker":{"halfOpen":-3}`), "upstreams[1].circuitBreaker.halfOpen", "from 1 to 100", nil},

		{"route without a name", in(`"routes":[{"match":{}}]`), "upstreams[1].routes[0].name", "is not a name", nil},
		{"match twice", in(`"routes":[{"name":"r","match":{"path":"/a"}},{"name":"s","match":{"path":"/a/","pathMatch":"Prefix"}}]`), "upstreams[1].routes[1].match", "same calls as routes[0]", nil},
		{"too many routes", in(`"routes":[{"name":"r"}` + strings.Repeat(`,{"name":"r"}`, 256) + `]`), "upstreams[1].routes", "257 entries", nil},
		{"relative path", route(`"match":{"path":"a"}`), "upstreams[1].routes[0].match.path", `must begin with "/"`, nil},
		{"long path", route(`"match":{"path":"/` + strings.Repeat("a", 1024) + `"}`), "upstreams[1].routes[0].match.path", "longer than 1024", nil},
		{"pathMatch", route(`"match":{"path":"/a","pathMatch":"Regex"}`), "upstreams[1].routes[0].match.pathMatch", "Prefix or Exact", nil},
		{"match method", route(`"match":{"methods":[""]}`), "upstreams[1].routes[0].match.methods[0]", "is not an HTTP token", nil},
		{"gRPC and path", route(`"match":{"path":"/a","grpc":{}}`), "upstreams[1].routes[0].match.grpc", "excludes methods and path", nil},
		{"gRPC service with a slash", route(`"match":{"grpc":{"service":"a/B"}}`), "upstreams[1].routes[0].match.grpc.service", `without "/"`, nil},
		{"long gRPC method", route(`"match":{"grpc":{"method":"` + long + `"}}`), "upstreams[1].routes[0].match.grpc.method", "253", nil},
		{"rules of a route", route(`"match":{},"timeouts":{"total":"1"}`), "upstreams[1].routes[0].timeouts.total", "is not a duration", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			doc, err := Parse([]byte(tc.text))
			var field *FieldError
			if doc != nil || !errors.As(err, &field) {
				t.Fatalf("Parse gives %+v, %v, want a FieldError", doc, err)
			}
			if field.Path != tc.path || !strings.Contains(field.Reason, tc.reason) {
				t.Errorf("refused at %q: %s\nwant %q: …%s…", field.Path, field.Reason, tc.path, tc.reason)
			}
			if field.Err != tc.class || tc.class != nil && !errors.Is(err, tc.class) {
				t.Errorf("class is %v, want %v", field.Err, tc.class)
			}
			checkMessage(t, err)
		})
	}
}

// checkMessage wants one line of bounded length, whatever was in the document.
func checkMessage(t *testing.T, err error) {
	t.Helper()
	text := err.Error()
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		t.Errorf("the message has control characters: %q", text)
	}
	// A path can name each of the levels.
	if len(text) > 4096 {
		t.Errorf("the message has %d bytes", len(text))
	}
}

// What only a program can make is refused too.
func TestValidateRefusesWhatCannotBeWritten(t *testing.T) {
	for name, d := range map[string]Duration{
		"negative":           -1,
		"below 1ms":          1,
		"fraction of a ms":   Duration(1500 * time.Microsecond),
		"beyond the longest": MaxDuration + Duration(time.Millisecond),
	} {
		for field, rules := range map[string]Rules{
			"timeouts.total":          {Timeouts: &Timeouts{Total: &d}},
			"retry.backoff.max":       {Retry: &Retry{Backoff: &Backoff{Max: &d}}},
			"retry.retryAfter.max":    {Retry: &Retry{RetryAfter: &RetryAfter{Max: &d}}},
			"deadline.reserve":        {Deadline: &Deadline{Reserve: &d}},
			"circuitBreaker.recovery": {CircuitBreaker: &CircuitBreaker{Recovery: &d}},
		} {
			doc := &Document{Schema: 1, Upstreams: []Upstream{{Name: "a", Hosts: []string{"a"}, Rules: rules}}}
			var fault *FieldError
			if err := doc.Validate(); !errors.As(err, &fault) || fault.Path != "upstreams[0]."+field {
				t.Errorf("%s in %s: %v", name, field, err)
			}
			if _, err := Render(doc); err == nil {
				t.Errorf("%s in %s was rendered", name, field)
			}
		}
	}
}

// A merge of valid policies can give these: a total clamps what is inside it,
// and routes of two policies can have one name.
func TestValidateAcceptsWhatAMergeCanGive(t *testing.T) {
	doc := &Document{Schema: 1, Upstreams: []Upstream{{Name: "a", Hosts: []string{"a"}, Rules: Rules{
		Timeouts: &Timeouts{Total: ms(100), Attempt: ms(200), Connect: ms(300), ResponseHeader: ms(400)},
		Retry:    &Retry{Backoff: &Backoff{Initial: ms(2000), Max: ms(1000)}},
	}, Routes: []Route{{Name: "r", Match: Match{Path: "/a"}}, {Name: "r", Match: Match{Path: "/b"}}}}}}
	if err := doc.Validate(); err != nil {
		t.Error(err)
	}
}

// Hostile texts of the largest size take memory and time in proportion to it.
func TestHostileDocumentsAreBounded(t *testing.T) {
	fill := func(prefix, repeat, suffix string) []byte {
		n := (MaxBytes - len(prefix) - len(suffix)) / len(repeat)
		return []byte(prefix + strings.Repeat(repeat, n) + suffix)
	}
	names := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < MaxBytes-100; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	deep := strings.Repeat(`{"`+strings.Repeat("k", 64)+`":`, maxDepth-3)
	for name, data := range map[string][]byte{
		"brackets":           fill("", "[", ""),
		"nested lists":       fill(`{"schema":1,"x":[0`, ",[[[]]]", "]}"),
		"empty objects":      fill(`{"schema":1,"x":[0`, ",{}", "]}"),
		"empty upstreams":    fill(`{"schema":1,"upstreams":[{}`, ",{}", "]}"),
		"wrong upstreams":    fill(`{"schema":1,"upstreams":[0`, ",0", "]}"),
		"numbers":            fill(`{"schema":1,"x":[0`, ",1", "]}"),
		"numbers, deep":      fill(`{"schema":1,"x":`+deep+`[0`, ",1", "]"+strings.Repeat("}", maxDepth-3)+"}"),
		"unknown fields":     []byte(`{"schema":1` + names(`,"u%d":1`) + "}"),
		"strange fields":     []byte(`{"schema":1` + names(`,"\u0001%d":1`) + "}"),
		"routes":             []byte(`{"schema":1,"upstreams":[{"name":"a","hosts":["a"],"routes":[{}` + names(`,{"name":"r%d"}`) + "]}]}"),
		"upstreams":          []byte(`{"schema":1,"upstreams":[{"name":"a","hosts":["a"]}` + names(`,{"name":"u","hosts":["h%d"]}`) + "]}"),
		"one long string":    fill(`{"schema":1,"namespace":"`, "x", `"}`),
		"one long name":      fill(`{"schema":1,"`, "x", `":1}`),
		"one long number":    fill(`{"schema":1,"x":`, "9", `}`),
		"escapes":            fill(`{"schema":1,"x":"`, `\u0000`, `"}`),
		"the same name":      fill(`{"schema":1`, `,"schema":1`, `}`),
		"provenance":         []byte(`{"schema":1,"upstreams":[{"name":"a","hosts":["a"],"provenance":{"a":"b"` + names(`,"p%d":"x"`) + "}}]}"),
		"white space":        fill(`{"schema":1`, " ", "}"),
		"status codes":       fill(`{"schema":1,"upstreams":[{"name":"a","hosts":["a"],"retry":{"retryableStatusCodes":[503`, ",503", "]}}]}"),
		"one huge host list": []byte(`{"schema":1,"upstreams":[{"name":"a","hosts":["a"` + names(`,"h%d"`) + "]}]}"),
	} {
		t.Run(name, func(t *testing.T) {
			if len(data) > MaxBytes {
				t.Fatalf("%d bytes, more than Parse looks at", len(data))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			doc, err := Parse(data)
			runtime.ReadMemStats(&after)
			if ratio := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(data)); ratio > 200 {
				t.Errorf("%.0f bytes were allocated for each byte of the text", ratio)
			}
			if err != nil {
				checkMessage(t, err)
			} else if doc.Validate() != nil {
				t.Errorf("Parse accepted what Validate refuses: %v", doc.Validate())
			}
		})
	}
}

func TestParseDoesNotKeepOrChangeTheText(t *testing.T) {
	data := []byte(everything)
	doc, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != everything {
		t.Error("the text was changed")
	}
	revision := Revision(doc)
	copy(data, bytes.Repeat([]byte("x"), len(data)))
	if Revision(doc) != revision {
		t.Error("the document depends on the text that it was read from")
	}
}
