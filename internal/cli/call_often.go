package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/source"
	"github.com/timeout-operator/timeout-operator/internal/callcmd"
)

// maxCalls bounds what is kept for the result.
const maxCalls = 10_000

// calls is the result of several calls.
type calls struct {
	OK     int               `json:"ok"`
	Failed int               `json:"failed"`
	Calls  []*callcmd.Result `json:"calls"`
}

// table writes the sum; the calls themselves were told as they ended.
func (c *calls) table(w io.Writer) {
	fmt.Fprintf(w, "calls    %d ok, %d failed\n", c.OK, c.Failed)
}

// callOften makes the calls of --count. What the user interrupts is still told.
func (a *app) callOften(ctx context.Context, in *callFlags, caller *callcmd.Caller, revision string) error {
	stop := a.follow(ctx, in, caller, revision)
	defer stop()
	all := &calls{}
	for n := range in.count {
		if n > 0 && !wait(ctx, in.every) {
			break
		}
		r := caller.Call(ctx)
		all.Calls = append(all.Calls, r)
		if r.OK {
			all.OK++
		} else {
			all.Failed++
		}
		if a.output == outputTable {
			r.WriteResult(a.Out)
			fmt.Fprintln(a.Out)
		}
	}
	if err := a.print(all, all.table); err != nil {
		return err
	}
	if all.Failed > 0 || len(all.Calls) < in.count {
		return errNo
	}
	return nil
}

// follow watches a document that is a file, from the revision on that is in force;
// what it finds, good or bad, is told once on standard error. The function that it
// returns stops it.
func (a *app) follow(ctx context.Context, in *callFlags, caller *callcmd.Caller, inForce string) func() {
	if in.document == "" || in.document == "-" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Only a source that was set up wrongly fails, and this path was read.
		_ = source.File(in.document).Run(ctx, func(u source.Update) {
			if u.Reason != source.ReasonNone {
				fmt.Fprintln(a.Err, u.Message())
			}
			if u.Document == nil || u.Document.Revision == inForce {
				return
			}
			inForce = u.Document.Revision
			fmt.Fprintf(a.Err, "%s changed: revision %s\n", in.document, inForce)
			caller.Use(u.Document)
		})
	}()
	return func() { cancel(); <-done }
}

// wait returns false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
