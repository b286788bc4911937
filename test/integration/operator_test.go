package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/timeout-operator/timeout-operator/internal/operator"
)

// process is a running operator.
type process struct {
	op       *operator.Operator
	requests *requestLog
	lines    *logLines
	stop     context.CancelFunc
	done     chan struct{}
	err      error
}

// startOperator runs an operator as cmd/manager does, with the token of its
// service account, until the test ends.
func (c *cluster) startOperator(t *testing.T, adjust ...func(*operator.Options)) *process {
	t.Helper()
	p := &process{requests: &requestLog{}, lines: &logLines{}, done: make(chan struct{})}
	log, err := operator.NewLogger(io.MultiWriter(p.lines, t.Output()), operator.FormatText, slog.LevelInfo, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	options := operator.Options{
		Config:        func() (*rest.Config, error) { return c.managerConfig(p.requests) },
		HealthAddress: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0",
		CheckInterval: 200 * time.Millisecond,
		Registry:      prometheus.NewRegistry(),
		Log:           log,
		Now:           time.Now,
	}
	for _, change := range adjust {
		change(&options)
	}
	if p.op, err = operator.New(options); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() {
		defer close(p.done)
		p.err = p.op.Run(ctx)
	}()
	t.Cleanup(func() { p.end(t) })
	return p
}

// startReady is startOperator, ready.
func (c *cluster) startReady(t *testing.T, adjust ...func(*operator.Options)) *process {
	t.Helper()
	p := c.startOperator(t, adjust...)
	p.eventuallyReady(t)
	return p
}

// end stops the operator, which must be no error.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.stop()
	<-p.done
	if p.err != nil && !errors.Is(p.err, operator.ErrManager) {
		t.Errorf("the operator ended with: %v", p.err)
	}
}

// managerConfig logs in as the operator's service account.
func (c *cluster) managerConfig(requests *requestLog) (*rest.Config, error) {
	admin, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return nil, err
	}
	token, err := admin.CoreV1().ServiceAccounts(systemNamespace).CreateToken(context.Background(), "timeout-operator",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(c.admin)
	config.BearerToken = token.Status.Token
	config.QPS = -1
	config.Wrap(requests.wrap)
	return config, nil
}

// readyz returns the status code and the text of /readyz.
func (p *process) readyz(t *testing.T) (int, string) {
	t.Helper()
	return p.get(t, p.op.HealthAddress(), "/readyz")
}

func (p *process) get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	response, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func (p *process) eventuallyReady(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		if code, text := p.readyz(t); code != http.StatusOK {
			return fmt.Errorf("/readyz says %d %s", code, text)
		}
		return nil
	})
}

// eventuallyNotReady waits until /readyz fails with a text.
func (p *process) eventuallyNotReady(t *testing.T, want string) {
	t.Helper()
	eventually(t, func() error {
		if code, text := p.readyz(t); code != http.StatusServiceUnavailable || !strings.Contains(text, want) {
			return fmt.Errorf("/readyz says %d %s, want 503 and %q", code, text, want)
		}
		return nil
	})
}

// metric returns the value of a series of /metrics; 0 when it is not there.
func (p *process) metric(t *testing.T, series string) float64 {
	t.Helper()
	_, text := p.get(t, p.op.MetricsAddress(), "/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

func (p *process) expectMetric(t *testing.T, series string, want float64) {
	t.Helper()
	eventually(t, func() error {
		if got := p.metric(t, series); got != want {
			return fmt.Errorf("%s is %v, want %v", series, got, want)
		}
		return nil
	})
}

// requestLog notes what an operator asks of the API server.
type requestLog struct {
	mu       sync.Mutex
	requests []string
}

func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		l.requests = append(l.requests, r.Method+" "+r.URL.Path)
		l.mu.Unlock()
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reset forgets what was asked so far.
func (l *requestLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = nil
}

// writes are the requests that are no reads, from the last reset on.
func (l *requestLog) writes(contains ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var writes []string
	for _, request := range l.requests {
		if !strings.HasPrefix(request, "GET ") && !slices.ContainsFunc(contains, func(part string) bool { return !strings.Contains(request, part) }) {
			writes = append(writes, request)
		}
	}
	return writes
}

// logLines keeps what an operator logs.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// with returns the lines that contain every part.
func (l *logLines) with(parts ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for line := range strings.Lines(l.buf.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// reconciles is how many the process has done, whatever the operator.
func reconciles(t *testing.T) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0.0
	for _, family := range families {
		if family.GetName() == "controller_runtime_reconcile_total" {
			for _, metric := range family.GetMetric() {
				n += metric.GetCounter().GetValue()
			}
		}
	}
	return n
}

// settle waits until the operator has nothing to do any more: no reconcile for
// half a second.
func (p *process) settle(t *testing.T) {
	t.Helper()
	last, quiet := reconciles(t), 0
	eventually(t, func() error {
		if n := reconciles(t); n != last {
			last, quiet = n, 0
		}
		if quiet++; quiet < 50 {
			return errors.New("still at work")
		}
		return nil
	})
}
