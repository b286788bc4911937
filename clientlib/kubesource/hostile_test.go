package kubesource

import (
	"bytes"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// The token is for the API server, wherever that sends its clients.
func TestARedirectToAnotherHostGetsNoToken(t *testing.T) {
	var elsewhere, moved atomic.Int64
	to := func(target string) func(http.ResponseWriter, *http.Request, bool) bool {
		return func(w http.ResponseWriter, r *http.Request, _ bool) bool {
			switch {
			case r.Host != "api.example.com":
				elsewhere.Add(1)
			case r.Header.Get("Authorization") == "Bearer secret":
				moved.Add(1)
			}
			if strings.HasPrefix(r.URL.Path, "/moved/") {
				return false
			}
			http.Redirect(w, r, target+"/moved"+r.URL.RequestURI(), http.StatusTemporaryRedirect)
			return true
		}
	}
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, _ *heard) {
		config := f.config()
		config.BearerToken = "secret"
		for _, target := range []string{"http://elsewhere.example.com", "https://api.example.com", "http://api.example.com:81"} {
			f.set(func() { f.answer = to(target) })
			h := listen(t, New("checkout", WithConfig(config), WithNamespace("shop")))
			advance(firstLook)
			h.want("", source.ReasonUnreachable, source.DeliveryWatch)
			if m := h.last().Message(); !strings.Contains(m, "redirects to "+target) {
				t.Errorf("redirected to %s: the message is %q", target, m)
			}
			h.stop()
		}
		if elsewhere.Load() != 0 || moved.Load() == 0 {
			t.Errorf("%d requests with the token elsewhere, %d at the API server", elsewhere.Load(), moved.Load())
		}
		f.set(func() { f.answer = to("") })
		h := listen(t, New("checkout", WithConfig(config), WithNamespace("shop")))
		advance(time.Millisecond)
		h.want("a", source.ReasonNone, source.DeliveryWatch)
		h.stop()
	})
}

// What comes in the place of a watch's events is not read for ever either.
func TestAWatchWithoutEndIsNotRead(t *testing.T) {
	for _, c := range []struct {
		name, begin string
		code        int
	}{
		{"an error", "", http.StatusInternalServerError},
		{"an event", `{"type":"`, http.StatusOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			var most atomic.Int64
			endless := func(w http.ResponseWriter, _ *http.Request, watch bool) bool {
				if !watch {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.begin))
				sent := int64(0)
				for text := bytes.Repeat([]byte("a"), 1<<20); sent < 4*maxAnswer; sent += int64(len(text)) {
					if _, err := w.Write(text); err != nil {
						break
					}
				}
				most.Store(max(most.Load(), sent))
				return true
			}
			prepare := func(f *fakeAPI) { with(t, "a")(f); f.answer = endless }
			withFake(t, prepare, func(t *testing.T, f *fakeAPI, h *heard) {
				advance(100 * time.Millisecond)
				h.want("a", source.ReasonNone, source.DeliveryWatch)
				if most.Load() > 2*maxAnswer {
					t.Errorf("%d MiB of one watch were read", most.Load()>>20)
				}
				f.set(func() { f.answer = nil })
				f.put("timeouts-checkout", docFor(t, "b"))
				advance(DefaultMaxBackoff)
				h.want("b", source.ReasonNone, source.DeliveryWatch)
			})
		})
	}
}

// What a server says of a failure is told, and not all of it.
func TestWordsWithoutEndAreCut(t *testing.T) {
	for name, failure := range map[string]*metav1.Status{
		"forbidden":    forbidden(),
		"unauthorized": status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "no"),
		"unavailable":  status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "no"),
	} {
		t.Run(name, func(t *testing.T) {
			failure.Message = "because " + strings.Repeat("ä", 1<<20)
			withFake(t, func(f *fakeAPI) { f.refuse = func(bool) *metav1.Status { return failure } }, func(t *testing.T, f *fakeAPI, h *heard) {
				m := h.last().Message()
				if len(m) > 2*maxWords || !strings.Contains(m, "because ää") || !utf8.ValidString(m) {
					t.Errorf("the message has %d bytes: %.100s", len(m), m)
				}
			})
		})
	}
}

// The bound is for one event: a watch may deliver many.
func TestAWatchMayDeliverMuch(t *testing.T) {
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		for range 2 * maxAnswer / document.MaxBytes {
			f.put("timeouts-checkout", strings.Repeat(" ", document.MaxBytes+100))
			advance(time.Millisecond)
		}
		f.put("timeouts-checkout", docFor(t, "b"))
		advance(time.Millisecond)
		h.want("b", source.ReasonNone, source.DeliveryWatch)
		if n := f.accepted.Load(); n != 2 {
			t.Errorf("%d watches, want the first two", n)
		}
	})
}

// A watch without a version begins with what a server remembers, which may be
// older than what was delivered.
func TestNoWatchGoesOnWithoutAVersion(t *testing.T) {
	for _, version := range []string{"", "0"} {
		var without atomic.Int64
		var bad atomic.Bool
		prepare := func(f *fakeAPI) {
			with(t, "a")(f)
			f.answer = func(w http.ResponseWriter, r *http.Request, watch bool) bool {
				if v := r.URL.Query().Get("resourceVersion"); watch && (v == "" || v == "0") {
					without.Add(1)
				}
				if watch || !bad.Load() {
					return false
				}
				list := &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}}
				list.ResourceVersion = version
				respond(w, http.StatusOK, list)
				return true
			}
		}
		withFake(t, prepare, func(t *testing.T, f *fakeAPI, h *heard) {
			m := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
			m.ResourceVersion = version
			f.set(func() {
				for w := range f.watches {
					f.send(w, "BOOKMARK", m)
				}
			})
			bad.Store(true)
			advance(3 * defaultGrace)
			h.want("a", source.ReasonUnreachable, source.DeliveryWatch)
			bad.Store(false)
			f.put("timeouts-checkout", docFor(t, "b"))
			advance(DefaultMaxBackoff)
			h.want("b", source.ReasonNone, source.DeliveryWatch)
			if n := without.Load(); n != 0 {
				t.Errorf("%d watches from version %q", n, version)
			}
		})
	}
}
