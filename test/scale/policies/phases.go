package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/timeout-operator/timeout-operator/test/scale/internal/figures"
)

// The bars of the operator at ten thousand policies.
const (
	barColdStart  = 60.0  // seconds
	barEdit       = 100.0 // milliseconds, p99
	barRSS        = 250.0 // MiB
	barIdleCPU    = 1.0   // percent of one core
	barEditStatus = 2.0   // status writes for each edit
	// What an edit has the operator write is planned no more, unless somebody else
	// wrote at the same time.
	barEditPlans = 1.5
)

// start starts the operator and waits until so many policies are Programmed.
func (r *runner) start(ctx context.Context, phase string, want int) (time.Duration, error) {
	if err := r.pprofAddress(); err != nil {
		return 0, err
	}
	server, err := r.plane.ServerCPU()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if r.operator, err = r.plane.StartOperator(ctx, r.arguments()...); err != nil {
		return 0, err
	}
	// Its binary is built the first time.
	if r.operator.Started.After(began) {
		began = r.operator.Started
	}
	profiled := r.profileCPU(ctx, strings.ReplaceAll(phase, " ", "-"), 10)
	serverProfiled := r.profileServer(ctx, strings.ReplaceAll(phase, " ", "-"), 10)
	if err := r.programmed(ctx, want); err != nil {
		return 0, err
	}
	took := time.Since(began)
	usage, err := r.operator.Usage()
	if err != nil {
		return 0, err
	}
	later, err := r.plane.ServerCPU()
	if err != nil {
		return 0, err
	}
	r.result.Add(phase, "CPU time of the operator", usage.CPU.Seconds(), "s")
	r.result.Add(phase, "CPU time of API server and etcd", (later - server).Seconds(), "s")
	r.say("%s: %d Programmed after %s", phase, want, took.Round(time.Millisecond))
	return took, errors.Join(profiled(), serverProfiled(), r.verify(ctx, want))
}

func (r *runner) arguments() []string {
	arguments := []string{"--report-debounce=" + r.debounce.String(), "--log-level=WARN"}
	if r.pprof != "" {
		arguments = append(arguments, "--pprof-bind-address="+r.pprof)
	}
	return arguments
}

// memory notes what the operator takes.
func (r *runner) memory(phase string) error {
	usage, err := r.operator.Usage()
	if err != nil {
		return err
	}
	r.result.AtMost(phase, "RSS", figures.Mebibytes(usage.RSS), barRSS, "MiB")
	r.result.AtMost(phase, "peak RSS", figures.Mebibytes(usage.PeakRSS), barRSS, "MiB")
	return nil
}

// coldStart starts the operator with nothing rendered yet.
func (r *runner) coldStart(ctx context.Context) error {
	const phase = "cold start"
	took, err := r.start(ctx, phase, r.shape.policies)
	if err != nil {
		return err
	}
	// No document is written a second time, as the count of them shows.
	r.result.Add(phase, "to the last document", r.documents.last().Sub(r.operator.Started).Seconds(), "s")
	r.result.AtMost(phase, "to all Programmed", took.Seconds(), barColdStart, "s")
	documents, statuses, others, err := r.writes(ctx)
	if err != nil {
		return err
	}
	r.result.Exactly(phase, "document writes", float64(documents), float64(r.shape.documents()))
	r.result.Count(phase, "status writes", float64(statuses), float64(r.shape.policies))
	r.result.Add(phase, "other writes (events)", float64(others), "")
	return r.memory(phase)
}

// documents is how many documents the policies need.
func (s shape) documents() int {
	documents := map[key]bool{}
	for i := range s.policies {
		documents[s.policy(i).document()] = true
	}
	return len(documents)
}

// lookOn measures what the operator does when nothing happens.
func (r *runner) lookOn(ctx context.Context) error {
	const phase = "idle"
	usage, err := r.operator.Usage()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := wait(ctx, r.idle); err != nil {
		return err
	}
	later, err := r.operator.Usage()
	if err != nil {
		return err
	}
	percent := 100 * float64(later.CPU-usage.CPU) / float64(time.Since(began))
	documents, statuses, others, err := r.writes(ctx)
	if err != nil {
		return err
	}
	r.result.AtMost(phase, "CPU of one core", percent, barIdleCPU, "%")
	r.result.Exactly(phase, "writes", float64(documents+statuses+others), 0)
	return r.memory(phase)
}

// restart stops the operator and starts it with everything rendered: one plan of
// every namespace, which is also what a resync takes.
func (r *runner) restart(ctx context.Context) error {
	const phase = "restart"
	if err := r.profileHeap(ctx); err != nil {
		return err
	}
	r.operator.Stop()
	took, err := r.start(ctx, phase, r.alive())
	if err != nil {
		return err
	}
	documents, statuses, others, err := r.writes(ctx)
	if err != nil {
		return err
	}
	r.result.Add(phase, "to all planned", took.Seconds(), "s")
	r.result.Exactly(phase, "document and status writes", float64(documents+statuses), 0)
	r.result.Count(phase, "other writes (the event of the new leader)", float64(others), 2)
	return r.memory(phase)
}

// alive is how many policies are stored now.
func (r *runner) alive() int {
	n := r.shape.policies - len(r.gone)
	if r.fanOut.clients > 0 {
		n += r.fanOut.clients + 1
	}
	return n + r.crowd.policies + r.crowd.clients
}
