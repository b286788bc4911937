package kubesource

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

type (
	text = map[string]string
	raw  = map[string][]byte
)

// mounted returns what a mount of a ConfigMap says first.
func mounted(t *testing.T, data text, binary raw) source.Update {
	t.Helper()
	// As the kubelet does where a volume has no items.
	files := raw{}
	for key, value := range data {
		files[key] = []byte(value)
	}
	maps.Copy(files, binary)
	dir := t.TempDir()
	version := filepath.Join(dir, "client", "..2026_01_02_03_04_05.1")
	must(t, os.MkdirAll(version, 0o755))
	must(t, os.Symlink(filepath.Base(version), filepath.Join(dir, "client", "..data")))
	for key, value := range files {
		must(t, os.WriteFile(filepath.Join(version, key), value, 0o644))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan source.Update, 1)
	must(t, source.Dir(dir).Run(ctx, func(u source.Update) {
		select {
		case first <- u:
		default:
		}
		cancel()
	}))
	return <-first
}

func faultOf(u source.Update) source.Fault {
	var fault *source.Error
	if errors.As(u.Err, &fault) {
		return fault.Fault
	}
	return ""
}

// However the document got into the ConfigMap, the watch and a mount make the
// same of it, at the start and later.
//
// The API server refuses a key in both maps, and more than 1 MiB of all values.
func TestTheWatchReadsAConfigMapAsAMountDoes(t *testing.T) {
	good, other := docFor(t, "checkout"), docFor(t, "other")
	pad := func(n int) string { return good + strings.Repeat("\n", n-len(good)) }
	const key = source.DocumentKey
	for _, c := range []struct {
		name   string
		data   text
		binary raw
		fault  source.Fault // empty for a document that is in force
		words  string
	}{
		{name: "in binaryData", binary: raw{key: []byte(good)}},
		{name: "in binaryData, beside other keys", data: text{"a": "b"}, binary: raw{key: []byte(good), "c": {0xff}}},
		{name: "in both", data: text{key: other}, binary: raw{key: []byte(good)}},
		{name: "in data, beside a broken one in binaryData", data: text{key: good}, binary: raw{key: {0xff}}, fault: source.FaultSyntax},
		{name: "as large as can be in binaryData", binary: raw{key: []byte(pad(document.MaxBytes))}},
		{name: "one byte more", data: text{key: pad(document.MaxBytes + 1)}, fault: source.FaultTooLarge},
		{name: "one byte more in binaryData", binary: raw{key: []byte(pad(document.MaxBytes + 1))}, fault: source.FaultTooLarge},
		{name: "empty in data", data: text{key: ""}, fault: source.FaultEmpty},
		{name: "empty in binaryData", binary: raw{key: {}}, fault: source.FaultEmpty},
		{name: "null in binaryData", binary: raw{key: nil}, fault: source.FaultEmpty},
		{name: "base64 twice", binary: raw{key: []byte(base64.StdEncoding.EncodeToString([]byte(good)))}, fault: source.FaultSyntax},
		{name: "UTF-16", binary: raw{key: []byte("\xff\xfe{\x00}\x00")}, fault: source.FaultSyntax},
		{name: "a byte order mark", data: text{key: "\ufeff" + good}, fault: source.FaultSyntax},
		{name: "gzip", binary: raw{key: {0x1f, 0x8b, 8, 0}}, fault: source.FaultSyntax},
		{name: "a truncated one", binary: raw{key: []byte(good[:len(good)/2])}, fault: source.FaultTruncated},
		{name: "another key in binaryData", binary: raw{"policy.bin": []byte(good)}, fault: source.FaultMissing, words: "no key policy.json, but policy.bin"},
		{name: "many other keys", data: text{"d": "", "b": ""}, binary: raw{"c": {}, "a": {}}, fault: source.FaultMissing, words: "no key policy.json, but a, b, c"},
		{name: "nothing", fault: source.FaultMissing, words: "no key policy.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mount := mounted(t, c.data, c.binary)
			client := "checkout"
			if c.fault != "" {
				client = ""
			}
			if clientOf(mount) != client || faultOf(mount) != c.fault {
				t.Errorf("a mount says %s", describe(mount))
			}
			prepare := func(f *fakeAPI) { f.putBoth("timeouts-checkout", c.data, c.binary) }
			withFake(t, prepare, func(t *testing.T, f *fakeAPI, h *heard) {
				first := h.last()
				if clientOf(first) != client || faultOf(first) != c.fault || first.Reason != mount.Reason {
					t.Errorf("the list made %s, a mount says %s", describe(first), describe(mount))
				}
				f.put("timeouts-checkout", docFor(t, "before"))
				advance(time.Millisecond)
				f.putBoth("timeouts-checkout", c.data, c.binary)
				advance(time.Millisecond)
				later := h.last()
				want := "checkout"
				if c.fault != "" {
					want = "before"
				}
				if clientOf(later) != want || faultOf(later) != c.fault || !strings.Contains(later.Message(), c.words) {
					t.Errorf("the watch made %s, want %q", describe(later), c.words)
				}
			})
		})
	}
}

// What no API server stores, and what stands in its place may say: the last good
// document stays, and the source goes on.
func TestAConfigMapOfTheWrongTypeTakesNothingAway(t *testing.T) {
	for name, object := range map[string]string{
		"a number as a value":       `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"timeouts-checkout","resourceVersion":"900"},"data":{"policy.json":1}}`,
		"a list as data":            `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"timeouts-checkout","resourceVersion":"900"},"data":["policy.json"]}`,
		"no base64 as binaryData":   `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"timeouts-checkout","resourceVersion":"900"},"binaryData":{"policy.json":"{}"}}`,
		"an object of another kind": `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"timeouts-checkout","resourceVersion":"900"},"data":{"policy.json":"e30="}}`,
	} {
		t.Run(name, func(t *testing.T) {
			withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
				f.set(func() {
					f.answer = func(w http.ResponseWriter, _ *http.Request, watch bool) bool {
						if watch {
							return false
						}
						w.Header().Set("Content-Type", "application/json")
						_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"900"},"items":[` + object + `]}`))
						return true
					}
					for watch := range f.watches {
						if watch.name == "timeouts-checkout" {
							f.send(watch, "MODIFIED", runtime.RawExtension{Raw: []byte(object)})
						}
					}
				})
				advance(3 * defaultGrace)
				if u := h.last(); clientOf(u) != "a" || u.Err == nil {
					t.Errorf("it said %s", describe(u))
				}
				told := len(h.updates())
				advance(10 * time.Minute)
				h.wantUpdates(told)
				f.set(func() { f.answer, f.version = nil, 1000 })
				f.put("timeouts-checkout", docFor(t, "b"))
				advance(DefaultMaxDeniedBackoff)
				h.want("b", source.ReasonNone, source.DeliveryWatch)
			})
		})
	}
}
