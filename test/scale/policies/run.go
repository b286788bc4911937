package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/test/scale/internal/figures"
	"github.com/timeout-operator/timeout-operator/test/scale/internal/plane"
)

// runner goes through the phases. It is used by one goroutine.
type runner struct {
	options
	plane     *plane.Plane
	operator  *plane.Operator
	documents *documents
	random    *rand.Rand
	// gone are the numbers of the policies that were deleted.
	gone   map[int]bool
	result *figures.Result
	// counted are the operator's requests when it had settled last.
	counted plane.Requests
	// pprof is where the operator serves profiles; empty for nowhere.
	pprof string
}

// phaseTimeout ends a phase that hangs.
const phaseTimeout = 10 * time.Minute

// run goes through all phases on a control plane of its own.
func run(ctx context.Context, o options) (_ *figures.Result, err error) {
	r := &runner{options: o, random: rand.New(rand.NewPCG(1, 2)), gone: map[int]bool{}, result: &figures.Result{Machine: figures.NewMachine()}}
	if r.plane, err = plane.Start(ctx, plane.Options{Progress: o.progress}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.plane.Close()) }()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if r.documents, err = watchDocuments(watching, r.plane.Admin); err != nil {
		return nil, err
	}
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"load", r.load}, {"cold start", r.coldStart}, {"idle", r.lookOn}, {"edits", r.editOneByOne}, {"burst", r.editAtOnce},
		{"deletions", r.deleteOneByOne}, {"fan-out", r.editForAll}, {"crowd", r.editInCrowd}, {"restart", r.restart},
	} {
		r.say("%s", phase.name)
		ctx, cancel := context.WithTimeoutCause(ctx, phaseTimeout, fmt.Errorf("%s takes longer than %s", phase.name, phaseTimeout))
		err := phase.run(ctx)
		cancel()
		if err == nil {
			err = r.documents.fault()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	return r.result, nil
}

func (r *runner) say(format string, args ...any) {
	if r.progress != nil {
		fmt.Fprintf(r.progress, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
	}
}

// programmed waits until the operator says that so many policies are in force.
func (r *runner) programmed(ctx context.Context, want int) error {
	const metric = `timeouts_operator_policies{condition="Programmed",status="True"} `
	for {
		text, err := r.operator.Metrics()
		if err != nil {
			return err
		}
		n := 0
		if _, after, ok := strings.Cut(text, metric); ok {
			value, _, _ := strings.Cut(after, "\n")
			if n, err = strconv.Atoi(value); err != nil {
				return fmt.Errorf("the metric is %s%s: %w", metric, value, err)
			}
		}
		if n >= want {
			return nil
		}
		// To answer takes the operator some milliseconds.
		if err := wait(ctx, 500*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d policies are Programmed: %w", n, want, err)
		}
	}
}

// plans is how many times the operator has looked at a namespace.
func (r *runner) plans() (float64, error) {
	text, err := r.operator.Metrics()
	if err != nil {
		return 0, err
	}
	total := 0.0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, `controller_runtime_reconcile_total{controller="timeoutpolicy"`) {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, '}')+1:]), 64)
		if err != nil {
			return 0, fmt.Errorf("the metric is %s: %w", line, err)
		}
		total += n
	}
	return total, nil
}

// verify asks the API server itself whether every policy is Programmed at its
// generation.
func (r *runner) verify(ctx context.Context, want int) error {
	n, token := 0, ""
	for {
		var page v1alpha1.TimeoutPolicyList
		if err := r.plane.Client.List(ctx, &page, client.Limit(500), client.Continue(token)); err != nil {
			return err
		}
		for i := range page.Items {
			if isProgrammed(&page.Items[i]) {
				n++
			}
		}
		if token = page.Continue; token == "" {
			break
		}
	}
	if n != want {
		return fmt.Errorf("the API server has %d policies that are Programmed at their generation, not %d", n, want)
	}
	return nil
}

// settled waits until the operator has not written for a while, its debounce
// included, and returns its requests.
func (r *runner) settled(ctx context.Context) (plane.Requests, error) {
	const step = 50 * time.Millisecond
	quiet := r.debounce + 500*time.Millisecond
	last, since := -1, time.Now()
	for {
		requests, err := r.plane.Requests()
		if err != nil {
			return nil, err
		}
		if n := requests.Writes().Total(); n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) >= quiet {
			r.counted = requests
			return requests, nil
		}
		if err := wait(ctx, step); err != nil {
			return nil, err
		}
	}
}

// writes are what the operator wrote since it had settled last, once it has
// settled again.
func (r *runner) writes(ctx context.Context) (documents, statuses, others int, err error) {
	before := r.counted
	after, err := r.settled(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	all := after.Since(before).Writes()
	documents, statuses = all["patch configmaps"]+all["delete configmaps"], all["patch timeoutpolicies/status"]
	return documents, statuses, all.Total() - documents - statuses, nil
}

// wait sleeps, or returns why the context ended.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
