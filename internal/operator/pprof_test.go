package operator

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
)

func TestProfilesAreServedOnlyWhereTheyAreAskedFor(t *testing.T) {
	options := func() Options {
		log, _ := newTestLogger(t, time.Now)
		return Options{
			Config:   func() (*rest.Config, error) { return nil, errors.New("there is none") },
			Now:      time.Now,
			Registry: prometheus.NewRegistry(),
			Log:      log,
		}
	}
	without := options()
	without.MetricsAddress = "127.0.0.1:0"
	with := options()
	with.PprofAddress = "127.0.0.1:0"
	ctx, stop := context.WithCancel(t.Context())
	var ended []chan error
	get := func(o Options, address func(*Operator) string) int {
		t.Helper()
		op, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		ended = append(ended, done)
		go func() { done <- op.Run(ctx) }()
		response, err := http.Get("http://" + address(op) + "/debug/pprof/heap")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	if code := get(without, (*Operator).MetricsAddress); code != http.StatusNotFound {
		t.Errorf("the metrics address answers %d", code)
	}
	if code := get(with, (*Operator).PprofAddress); code != http.StatusOK {
		t.Errorf("the pprof address answers %d", code)
	}
	stop()
	for _, done := range ended {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
