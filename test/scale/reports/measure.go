package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/timeout-operator/timeout-operator/test/scale/internal/figures"
	"github.com/timeout-operator/timeout-operator/test/scale/internal/plane"
)

// The bars.
const (
	maxRSS   = 250 // MiB
	maxRight = 15  // seconds after the last report
)

// grace is how long the audit log may lag behind.
const grace = 500 * time.Millisecond

const statusWrites = "patch timeoutpolicies/status"

// run is a run under way.
type run struct {
	fleet
	result   figures.Result
	operator *plane.Operator
	peak     int64
}

// measure runs the whole programme.
func measure(ctx context.Context, o options) (*figures.Result, error) {
	r := &run{fleet: fleet{options: o}, result: figures.Result{Machine: figures.NewMachine()}}
	p, err := plane.Start(ctx, plane.Options{Progress: o.progress, Controllers: []string{"garbage-collector-controller"}})
	if err != nil {
		return nil, err
	}
	r.plane = p
	err = r.phases(ctx)
	if closeErr := p.Close(); err == nil {
		err = closeErr
	}
	return &r.result, err
}

func (r *run) phases(ctx context.Context) error {
	r.say("make %d pods in %d namespaces and %d policies", r.options.pods, r.options.namespaces, r.options.policies)
	if err := r.settle(ctx); err != nil {
		return err
	}
	// The pods have the documents before the operator that is measured starts.
	if err := r.start(ctx); err != nil {
		return err
	}
	if err := r.propagate(ctx); err != nil {
		return err
	}
	r.operator.Stop()
	for _, phase := range []func(context.Context) error{r.afterStart, r.afterChange, r.afterReplacement, r.idle, r.afterRestart} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	r.result.AtMost("all", "operator, most resident memory", figures.Mebibytes(r.peak), maxRSS, "MiB")
	return nil
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.options.progress, format+"\n", args...) }

func (r *run) start(ctx context.Context) (err error) {
	r.operator, err = r.plane.StartOperator(ctx, "--report-debounce="+r.options.debounce.String())
	return err
}

// afterStart: the reports are there, the statuses know nothing of them.
func (r *run) afterStart(ctx context.Context) error {
	const phase = "start"
	r.say("%s: write %d reports while no operator runs", phase, len(r.pods))
	began := time.Now()
	if err := r.report(ctx, r.pods); err != nil {
		return err
	}
	r.result.Add(phase, "reports written per second", float64(len(r.pods))/time.Since(began).Seconds(), "")
	before, err := r.plane.Requests()
	if err != nil {
		return err
	}
	began = time.Now()
	if err := r.start(ctx); err != nil {
		return err
	}
	r.result.Add(phase, "process ready after", time.Since(began).Seconds(), "s")
	if err := r.await(ctx, r.right()); err != nil {
		return err
	}
	r.result.AtMost(phase, "every status right after", time.Since(began).Seconds(), maxRight, "s")
	return r.account(ctx, phase, before, 0)
}

// afterChange: every policy is edited, and every pod reports the new document.
func (r *run) afterChange(ctx context.Context) error {
	const phase = "change"
	before, err := r.plane.Requests()
	if err != nil {
		return err
	}
	r.say("%s: edit every policy, have every pod report it", phase)
	began := time.Now()
	if err := r.change(ctx, "2s"); err != nil {
		return err
	}
	if err := r.propagate(ctx); err != nil {
		return err
	}
	r.result.Add(phase, "every document written after", time.Since(began).Seconds(), "s")
	return r.followed(ctx, phase, r.pods, before)
}

// afterReplacement: some pods are gone, as many others report.
func (r *run) afterReplacement(ctx context.Context) error {
	const phase = "replacement"
	before, err := r.plane.Requests()
	if err != nil {
		return err
	}
	r.say("%s: replace %d%% of the pods", phase, r.options.replaced)
	began := time.Now()
	young, err := r.replace(ctx, r.options.replaced)
	if err != nil {
		return err
	}
	r.result.Add(phase, "pods replaced", float64(len(young)), "")
	last := time.Now()
	r.result.Add(phase, "replaced within", last.Sub(began).Seconds(), "s")
	if err := r.await(ctx, r.right(young...)); err != nil {
		return err
	}
	r.result.AtMost(phase, "the gone do not count any more after", time.Since(last).Seconds(), maxRight, "s")
	if err := r.followedSince(ctx, phase, young, before, began); err != nil {
		return err
	}
	// The operator may not delete reports: they go with their pods.
	if err := r.collected(ctx); err != nil {
		return err
	}
	r.result.Add(phase, "reports of the gone collected after", time.Since(last).Seconds(), "s")
	return nil
}

func (r *run) followed(ctx context.Context, phase string, pods []plane.Pod, before plane.Requests) error {
	return r.followedSince(ctx, phase, pods, before, time.Now())
}

// followedSince has pods report and waits until the statuses follow. The change
// began at a time.
func (r *run) followedSince(ctx context.Context, phase string, pods []plane.Pod, before plane.Requests, began time.Time) error {
	if err := r.report(ctx, pods); err != nil {
		return err
	}
	last := time.Now()
	r.result.Add(phase, "last report after", last.Sub(began).Seconds(), "s")
	if err := r.await(ctx, r.right()); err != nil {
		return err
	}
	r.result.AtMost(phase, "every status right after the last report", time.Since(last).Seconds(), maxRight, "s")
	return r.account(ctx, phase, before, time.Since(began))
}

// account notes what a phase cost: at most one status write for each policy and
// each time the operator gathers reports, whatever the number of pods.
func (r *run) account(ctx context.Context, phase string, before plane.Requests, took time.Duration) error {
	requests, err := r.requests(ctx)
	if err != nil {
		return err
	}
	writes := requests.Since(before).Writes()
	r.say("%s: the operator wrote %s", phase, writes)
	windows := 2 + math.Ceil(float64(took)/float64(r.options.debounce))
	r.result.Count(phase, "status writes", float64(writes[statusWrites]), float64(r.options.policies)*windows)
	r.result.Add(phase, "status writes for each policy", float64(writes[statusWrites])/float64(r.options.policies), "")
	r.result.Add(phase, "other writes", float64(writes.Total()-writes[statusWrites]), "")
	return r.weigh(phase)
}

// requests waits for the audit log to be complete.
func (r *run) requests(ctx context.Context) (plane.Requests, error) {
	if err := pause(ctx, grace); err != nil {
		return nil, err
	}
	return r.plane.Requests()
}

func (r *run) weigh(phase string) error {
	usage, err := r.operator.Usage()
	if err != nil {
		return err
	}
	r.peak = max(r.peak, usage.PeakRSS)
	r.result.Add(phase, "operator, resident memory", figures.Mebibytes(usage.RSS), "MiB")
	r.result.Add(phase, "operator, processor time since its start", usage.CPU.Seconds(), "s")
	return nil
}

// idle: nothing happens.
func (r *run) idle(ctx context.Context) error {
	const phase = "idle"
	// What the last phase left to do, such as deletions by the garbage
	// collector, is not idle yet.
	if err := r.quiet(ctx); err != nil {
		return err
	}
	before, err := r.plane.Requests()
	if err != nil {
		return err
	}
	r.say("%s: look on for %s", phase, r.options.idle)
	if err := pause(ctx, r.options.idle); err != nil {
		return err
	}
	requests, err := r.requests(ctx)
	if err != nil {
		return err
	}
	writes := requests.Since(before).Writes()
	r.result.Exactly(phase, "writes within "+r.options.idle.String(), float64(writes.Total()), 0)
	return r.weigh(phase)
}

// quiet waits until the operator has written nothing for two debounces.
func (r *run) quiet(ctx context.Context) error {
	for {
		before, err := r.plane.Requests()
		if err != nil {
			return err
		}
		if err := pause(ctx, 2*r.options.debounce+grace); err != nil {
			return err
		}
		after, err := r.plane.Requests()
		if err != nil || after.Since(before).Writes().Total() == 0 {
			return err
		}
	}
}

// afterRestart: another process finds everything as it left it, and has nothing
// to write.
func (r *run) afterRestart(ctx context.Context) error {
	const phase = "restart"
	before, err := r.plane.Requests()
	if err != nil {
		return err
	}
	r.say("%s: another process", phase)
	r.operator.Stop()
	began := time.Now()
	if err := r.start(ctx); err != nil {
		return err
	}
	r.result.Add(phase, "process ready after", time.Since(began).Seconds(), "s")
	if err := r.quiet(ctx); err != nil {
		return err
	}
	if err := r.check(ctx, r.right()); err != nil {
		return err
	}
	requests, err := r.plane.Requests()
	if err != nil {
		return err
	}
	// The new leader tells so by an event.
	writes := requests.Since(before).Writes()
	r.result.Exactly(phase, "writes of documents and statuses", float64(writes.Total()-writes["create events"]), 0)
	return r.weigh(phase)
}

// pause waits; the error is that of a context that ended meanwhile.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
