package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// refused stands for the value of a text that is no duration.
const refused = time.Duration(-1)

// durationCorpus is the contract of durations: the API schema, the operator and
// the client give the same verdict, and the same value, for each of them.
var durationCorpus = []struct {
	text string
	want time.Duration
}{
	{"0s", 0}, {"0ms", 0}, {"0h0m0s0ms", 0}, {"00000s", 0},
	{"1ms", time.Millisecond}, {"20ms", 20 * time.Millisecond}, {"400ms", 400 * time.Millisecond},
	{"1s", time.Second}, {"001s", time.Second}, {"60s", time.Minute}, {"90s", 90 * time.Second},
	{"1m", time.Minute}, {"1h", time.Hour}, {"1h30m", 90 * time.Minute}, {"1s500ms", 1500 * time.Millisecond},
	{"1h1m1s1ms", time.Hour + time.Minute + time.Second + time.Millisecond},
	// The order is free and units add up, as in Go.
	{"500ms1s", 1500 * time.Millisecond}, {"1s1s", 2 * time.Second}, {"1m1ms", time.Minute + time.Millisecond},
	{"99999ms", 99999 * time.Millisecond}, {"99999s", 99999 * time.Second}, {"99999m", 99999 * time.Minute},
	{"99999h", 99999 * time.Hour}, {"99998h60m", 99999 * time.Hour}, {"99999h0ms", 99999 * time.Hour},
	{"99999h1ms", refused}, {"99999h99999m", refused}, {"50000h50000h", refused}, {"99999h99999h99999h99999h", refused},
	// What a lenient parser takes for something else.
	{"1d", refused}, {"1w", refused}, {"1y", refused}, {"5 s", refused}, {"5S", refused}, {"5Ms", refused}, {"abc5s", refused},
	{"5,5s", refused}, {"-1d", refused}, {"-1s", refused}, {"+1s", refused}, {"1e3s", refused}, {"1mm", refused}, {"1.5s", refused}, {".5s", refused},
	{"1us", refused}, {"1µs", refused}, {"1ns", refused}, {"2562047h48m", refused}, {"9999999h", refused}, {"100000ms", refused},
	{"", refused}, {"0", refused}, {"5", refused}, {"600", refused}, {"s", refused}, {"ms", refused}, {"1", refused}, {"1s1", refused},
	{" 1s", refused}, {"1s ", refused}, {"1s\n", refused}, {"1 h", refused}, {"1h 30m", refused}, {"PT1S", refused}, {"1s1s1s1s1s", refused},
	{"１s", refused}, {"1s\x00", refused}, {"infinity", refused}, {"null", refused}, {"never", refused}, {"0x1s", refused}, {"1_0s", refused},
}

// Cases A01, A04, A05.
func TestDurationsMeanTheSameToSchemaOperatorAndClient(t *testing.T) {
	for _, test := range durationCorpus {
		t.Run(fmt.Sprintf("%q", test.text), func(t *testing.T) {
			value, err := document.ParseDuration(test.text)
			if (err != nil) != (test.want == refused) || err == nil && value.Std() != test.want {
				t.Errorf("document.ParseDuration says %v, %v", value, err)
			}
			inAPI, errAPI := v1alpha1.Duration(test.text).Parse()
			if inAPI != value || (errAPI != nil) != (err != nil) {
				t.Errorf("v1alpha1.Duration says %v, %v", inAPI, errAPI)
			}
			inDocument, errDocument := documentTotal(t, test.text)
			if inDocument != value || (errDocument != nil) != (err != nil) {
				t.Errorf("document.Parse says %v, %v", inDocument, errDocument)
			}
			errServer := postTotal(t, test.text)
			if (errServer != nil) != (err != nil) {
				t.Errorf("the API server says %v", errServer)
			}
			if errServer != nil {
				if list := faults(t, errServer); !strings.HasPrefix(list[0], "spec.upstreams[0].timeouts.total: ") {
					t.Errorf("want the field named, got %v", list)
				}
			}
		})
	}
}

// documentTotal reads a document with the text as its total.
func documentTotal(t *testing.T, text string) (document.Duration, error) {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := document.Parse(fmt.Appendf(nil, `{"schema":1,"upstreams":[{"name":"a","hosts":["a"],"timeouts":{"total":%s}}]}`, quoted))
	if err != nil {
		return 0, err
	}
	return *doc.Upstreams[0].Timeouts.Total, nil
}

// postTotal sends a policy with the text as its total.
func postTotal(t *testing.T, text string) error {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return postRawTotal(t, string(quoted))
}

// postRawTotal sends a policy in JSON as it stands on the wire: no client
// library has touched it.
func postRawTotal(t *testing.T, raw string) error {
	t.Helper()
	return post(t, fmt.Sprintf(`{"apiVersion":"timeout-operator.dev/v1alpha1","kind":"TimeoutPolicy","metadata":{"name":"raw"},
		"spec":{"upstreams":[{"name":"a","hosts":["a"],"timeouts":{"total":%s}}]}}`, raw))
}

func post(t *testing.T, body string) error {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := rest.RESTClientForConfigAndClient(dynamicConfig(), client)
	if err != nil {
		t.Fatal(err)
	}
	return c.Post().AbsPath("/apis/timeout-operator.dev/v1alpha1/namespaces/default/timeoutpolicies").
		Param("dryRun", "All").Param("fieldValidation", "Strict").
		SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error()
}

// TestDurationsOfAnotherTypeAreRefused sends what YAML makes of an unquoted
// number, and worse: nothing is ever read as nanoseconds.
//
// Case A06.
func TestDurationsOfAnotherTypeAreRefused(t *testing.T) {
	for _, raw := range []string{"600", "0", "-1", "1.5", "1e9", "true", "{}", "[]", `["1s"]`} {
		t.Run(raw, func(t *testing.T) {
			err := postRawTotal(t, raw)
			if list := faults(t, err); len(list) != 1 || !strings.HasPrefix(list[0], "spec.upstreams[0].timeouts.total: ") || !strings.Contains(list[0], "must be of type string") {
				t.Errorf("want the field and the type named, got %v", list)
			}
			if _, err := document.Parse(fmt.Appendf(nil, `{"schema":1,"upstreams":[{"name":"a","hosts":["a"],"timeouts":{"total":%s}}]}`, raw)); err == nil {
				t.Error("the client takes it for a duration")
			} else if field := (*document.FieldError)(nil); !errors.As(err, &field) || !strings.Contains(err.Error(), "upstreams[0].timeouts.total") {
				t.Errorf("want the path named, got %v", err)
			}
		})
	}
}

// TestNullIsAbsent: a null is what kubectl sends to take a field away, and is
// not stored; nothing ever reads it as "0s".
func TestNullIsAbsent(t *testing.T) {
	policy := policyFrom("upstreams: [{name: a, hosts: [a], timeouts: {total: null, attempt: 0s}}]")
	stored, err := cluster.Resource(policies).Namespace("default").Create(t.Context(), policy, metav1.CreateOptions{DryRun: dryRun})
	if err != nil {
		t.Fatal(err)
	}
	timeouts := typed(t, stored).Spec.Upstreams[0].Timeouts
	if timeouts.Total != nil || timeouts.Attempt == nil || *timeouts.Attempt != "0s" {
		t.Errorf("want total absent and attempt 0s, got %v and %v", timeouts.Total, timeouts.Attempt)
	}
	if _, there, _ := unstructured.NestedFieldNoCopy(stored.Object["spec"].(map[string]any)["upstreams"].([]any)[0].(map[string]any), "timeouts", "total"); there {
		t.Error("the API server keeps the null")
	}
}

// TestDurationVerdictsAgreeOnRandomTexts looks for texts that the corpus does
// not think of, with the schema's own rules run in this process.
//
// Case A05.
func TestDurationVerdictsAgreeOnRandomTexts(t *testing.T) {
	judge := newJudge(t, "timeoutpolicies", "spec", "defaults", "timeouts", "total")
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"0", "1", "9", "99999", "100000", "00001", "h", "m", "s", "ms", "d", "-", " ", ".", "S"}
	accepted := 0
	for range 20000 {
		var b strings.Builder
		for range random.IntN(9) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		_, err := v1alpha1.Duration(b.String()).Parse()
		if fault := judge(b.String()); (fault != nil) != (err != nil) {
			t.Fatalf("%q: the schema says %v, the parser says %v", b.String(), fault, err)
		}
		if err == nil {
			accepted++
		}
	}
	if accepted < 100 {
		t.Errorf("only %d of the random texts were durations: they prove nothing", accepted)
	}
}
