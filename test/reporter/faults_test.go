package reporter

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/report"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// line is the way to the API server, with something wrong on it.
type line struct {
	server http.RoundTripper

	mu       sync.Mutex
	fault    func(*http.Request) (*http.Response, error)
	attempts int
	changed  chan struct{} // closed when the fault changes
}

func newLine(t testing.TB) *line {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &line{server: transport, changed: make(chan struct{})}
}

// set changes what is wrong; nil is nothing.
func (l *line) set(fault func(*http.Request) (*http.Response, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault, l.attempts = fault, 0
	close(l.changed)
	l.changed = make(chan struct{})
}

// tried is the number of attempts since the fault was set.
func (l *line) tried() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempts
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	fault := l.fault
	l.attempts++
	l.mu.Unlock()
	if fault == nil {
		return l.server.RoundTrip(r)
	}
	return fault(r)
}

// answers is an API server that says the same to everything.
func answers(status int, header http.Header) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: header, Request: r,
			Body: io.NopCloser(strings.NewReader(`{"kind":"Status","message":"not now"}`))}, nil
	}
}

// away is one that cannot be reached.
func away(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

// hangs is one that takes a request and never answers, until that is mended.
func (l *line) hangs(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	changed := l.changed
	l.mu.Unlock()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-changed:
		return nil, errors.New("connection reset")
	}
}

// fault is what can be wrong.
type fault struct {
	name  string
	fault func(*http.Request) (*http.Response, error)
}

func (l *line) faults() []fault {
	return []fault{
		{"refused", answers(http.StatusForbidden, nil)},
		{"failing", answers(http.StatusInternalServerError, nil)},
		{"away", away},
		{"hanging", l.hangs},
		{"throttled", answers(http.StatusTooManyRequests, http.Header{"Retry-After": {"1"}})},
	}
}

// newCaller is a client as a workload has it, of a service that answers at once.
func newCaller(t testing.TB, r *report.Reporter) func() error {
	t.Helper()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(origin.Close)
	total := document.Duration(time.Minute)
	doc := &document.Document{Schema: document.Schema, Client: "checkout", Namespace: "shop", Upstreams: []document.Upstream{
		{Name: "orders", Hosts: []string{strings.TrimPrefix(origin.URL, "http://")}, Rules: document.Rules{Timeouts: &document.Timeouts{Total: &total}}}}}
	client, err := clientlib.New(context.Background(), "checkout", clientlib.WithSource(source.Static(doc)),
		clientlib.WithReporter(r), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	httpClient := nethttp.NewClient(client)
	t.Cleanup(httpClient.CloseIdleConnections)
	return func() error {
		response, err := httpClient.Get(origin.URL)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
}

// TestCallsGoOnWhateverBecomesOfTheReport: the API server refuses, throttles,
// fails, is away or hangs. No call fails for it, and none waits: they are made
// while an attempt to report hangs. Once it is mended the report is right.
func TestCallsGoOnWhateverBecomesOfTheReport(t *testing.T) {
	w := newWorkload(t, newNamespace(t), "caller")
	l := newLine(t)
	w.options.Transport = l
	r := w.start(t)
	call := newCaller(t, r)
	last := ""
	for _, f := range l.faults() {
		l.set(f.fault)
		last = "sha256:" + f.name
		r.Update("payments", checkout(last))
		eventually(t, func() error { // until the reporter is at it
			if l.tried() == 0 {
				return errors.New("no attempt yet")
			}
			return nil
		})
		for range 50 {
			if err := call(); err != nil {
				t.Errorf("%s: a call failed: %v", f.name, err)
			}
		}
	}
	l.set(nil)
	w.expectReport(t, hasClient("payments", last))
	if err := r.Err(); err != nil {
		t.Errorf("Err is %v", err)
	}
}

// hasClient wants a client with a revision in force.
func hasClient(name, revision string) func(*v1alpha1.ClientReport) error {
	return func(r *v1alpha1.ClientReport) error {
		for i := range r.Clients {
			if r.Clients[i].Name == name && r.Clients[i].Revision == revision {
				return nil
			}
		}
		return fmt.Errorf("no client %s with %s in %+v", name, revision, r.Clients)
	}
}

// benchmarkOptions are of a pod whose report nobody stores.
func benchmarkOptions(b *testing.B) report.Options {
	b.Helper()
	token := filepath.Join(b.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		b.Fatal(err)
	}
	return report.Options{
		Pod: report.Pod{Name: "caller", Namespace: "shop", UID: b.Name()}, Server: "https://10.0.0.1", TokenFile: token,
		FirstDelay: time.Millisecond, MinInterval: time.Millisecond, Spread: time.Millisecond, MaxBackoff: 5 * time.Millisecond,
	}
}

// BenchmarkCallsBesideTheReporter measures calls while the reporter has an
// attempt to make every few milliseconds, a thousand times more often than it
// would, and what becomes of those. Compare the lines: they are of one run.
func BenchmarkCallsBesideTheReporter(b *testing.B) {
	l := newLine(b)
	options := benchmarkOptions(b)
	options.Transport = l
	r, err := report.New(options)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	call := newCaller(b, r)
	for _, mode := range append([]fault{{"written", answers(http.StatusOK, nil)}}, l.faults()...) {
		b.Run(mode.name, func(b *testing.B) {
			l.set(mode.fault)
			for i := 0; l.tried() == 0; i++ {
				r.Update("payments", checkout(fmt.Sprint("sha256:first-", i)))
				runtime.Gosched()
			}
			durations := make([]time.Duration, 0, b.N)
			failed := 0
			for i := 0; b.Loop(); i++ {
				if i%20 == 0 {
					r.Update("payments", checkout(fmt.Sprint("sha256:", i)))
				}
				began := time.Now()
				if call() != nil {
					failed++
				}
				durations = append(durations, time.Since(began))
			}
			slices.Sort(durations)
			b.ReportMetric(float64(durations[len(durations)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(failed), "failed")
			b.ReportMetric(float64(l.tried()), "attempts")
		})
	}
}

// TestAQuotaThatIsReachedIsWaitedOut: a namespace may have a cap on reports. The
// pod beyond it works on and tries again, later each time; the reports that are
// there are not touched, and once there is room its own is written.
//
// Case O28.
func TestAQuotaThatIsReachedIsWaitedOut(t *testing.T) {
	namespace := newNamespace(t)
	const counted corev1.ResourceName = "count/clientreports.timeout-operator.dev"
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reports"}}
	quota.Spec.Hard = corev1.ResourceList{counted: resource.MustParse("1")}
	must(t, admin.Create(t.Context(), quota))
	// Nothing runs here that would count.
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{counted: resource.MustParse("0")}
	must(t, admin.Status().Update(t.Context(), quota))

	first, second := newWorkload(t, namespace, "first"), newWorkload(t, namespace, "second")
	one := first.start(t)
	one.Update("checkout", checkout("sha256:aa"))
	first.expectReport(t, hasRevision("sha256:aa"))
	two := second.start(t)
	two.Update("checkout", checkout("sha256:bb"))
	expectFailure(t, two, "403 Forbidden", "exceeded quota")
	// An update is no new object.
	one.Update("checkout", checkout("sha256:cc"))
	first.expectReport(t, hasRevision("sha256:cc"))

	must(t, admin.Delete(t.Context(), quota))
	second.expectReport(t, hasRevision("sha256:bb"))
}
