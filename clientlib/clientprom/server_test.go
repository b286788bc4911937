package clientprom_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/timeout-operator/timeout-operator/clientlib/clientprom"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
)

func TestServersCountWhatBecameOfDeadlines(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	serve := func(trust deadline.Option, values ...string) {
		observer, err := clientprom.Server(r)
		if err != nil {
			t.Fatal(err)
		}
		mw := deadline.Middleware(http.NotFoundHandler(), trust, deadline.WithObserver(observer))
		for _, v := range values {
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			req.Header.Set("X-Deadline-Ms", v)
			mw.ServeHTTP(httptest.NewRecorder(), req)
		}
	}
	serve(deadline.TrustEveryone(), "1000", "1000", "0", "-1", "99999999999")
	serve(deadline.Maximum(time.Second), "1000") // nobody is trusted
	observer, _ := clientprom.Server(r)
	observer.IncomingDeadline("smtp", deadline.Accepted)
	observer.IncomingDeadline("http", deadline.Result(250))

	if n := testutil.CollectAndCount(r, "timeouts_server_deadlines_total"); n != 3*deadline.Results {
		t.Errorf("%d series, want one for each protocol and result", n)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var counted []string
	for _, m := range families[0].GetMetric() {
		if v := m.GetCounter().GetValue(); v > 0 {
			counted = append(counted, m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()+" "+strings.Repeat("I", int(v)))
		}
	}
	want := "_OTHER accepted I, http accepted II, http bounded I, http malformed I, http spent I, http untrusted I"
	if got := strings.Join(counted, ", "); got != want {
		t.Errorf("counted %s\nwant    %s", got, want)
	}
}

func TestAServerNeedsARegistererThatTakesItsMetric(t *testing.T) {
	if _, err := clientprom.Server(nil); err == nil {
		t.Error("nil was taken")
	}
	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "timeouts_server_deadlines_total"}))
	if _, err := clientprom.Server(r); err == nil || !strings.Contains(err.Error(), "timeouts_server_deadlines_total") {
		t.Errorf("error %v", err)
	}
}

// A budget that is spent costs no request, and is counted with whose it was.
func TestACallWithoutTimeLeftIsCountedAsRefused(t *testing.T) {
	doc := upstreams(t, orders+`,"timeouts":{"total":"1s"},"deadline":{"header":"X-Deadline-Ms","reserve":"20ms"}`,
		payments+`,"timeouts":{"total":"10ms"},"deadline":{"header":"X-Deadline-Ms","reserve":"20ms"}`)
	inFakeTime(t, doc, func(t *testing.T, r *prometheus.Registry, h *http.Client) {
		for url, left := range map[string]time.Duration{"http://orders/ok": 0, "http://orders/status?code=200": 5 * time.Millisecond, "http://payments/ok": time.Minute, "http://orders/hang": time.Second} {
			req, err := http.NewRequestWithContext(deadline.With(t.Context(), left), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := h.Do(req); err == nil {
				_ = resp.Body.Close()
				t.Errorf("%s with %s left: %s", url, left, resp.Status)
			}
		}
		want := `
# HELP timeouts_client_refused_total Calls that were refused before a request was sent, since no time was left; by whose limit.
# TYPE timeouts_client_refused_total counter
timeouts_client_refused_total{client="checkout",source="budget",upstream="orders"} 2
timeouts_client_refused_total{client="checkout",source="budget",upstream="payments"} 0
timeouts_client_refused_total{client="checkout",source="caller",upstream="orders"} 0
timeouts_client_refused_total{client="checkout",source="caller",upstream="payments"} 0
timeouts_client_refused_total{client="checkout",source="policy",upstream="orders"} 0
timeouts_client_refused_total{client="checkout",source="policy",upstream="payments"} 1
`
		if err := testutil.GatherAndCompare(r, strings.NewReader(want), "timeouts_client_refused_total"); err != nil {
			t.Error(err)
		}
	})
}
