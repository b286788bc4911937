package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/timeout-operator/timeout-operator/test/scale/internal/figures"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options of a run.
type options struct {
	shape     shape
	edits     int
	burst     int
	deletions int
	fanOut    fanOut
	crowd     crowd
	idle      time.Duration
	// debounce is the operator's --report-debounce.
	debounce time.Duration
	// profiles is a folder for the operator's profiles; empty for none.
	profiles string
	progress io.Writer
}

func parse(args []string, stderr io.Writer) (options, bool, error) {
	o := options{progress: stderr}
	var format string
	flags := flag.NewFlagSet("policies", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.shape.policies, "policies", 10000, "number of policies")
	flags.IntVar(&o.shape.namespaces, "namespaces", 500, "namespaces that they are in")
	flags.IntVar(&o.edits, "edits", 200, "edits, one after the other")
	flags.IntVar(&o.burst, "burst", 1000, "edits at once")
	flags.IntVar(&o.deletions, "deletions", 100, "policies that are deleted, one after the other")
	flags.IntVar(&o.fanOut.clients, "clients", 200, "named clients under one policy for everybody; 0 for none")
	flags.IntVar(&o.crowd.policies, "crowd", 1000, "policies for everybody in one namespace; 0 for none")
	flags.IntVar(&o.crowd.clients, "crowd-clients", 10, "named clients in that namespace")
	flags.DurationVar(&o.idle, "idle", 30*time.Second, "how long to look on when nothing happens")
	flags.DurationVar(&o.debounce, "report-debounce", 5*time.Second, "of the operator")
	flags.StringVar(&o.profiles, "profiles", "", "folder for profiles: 10s of each start of the operator, of the API server meanwhile, 5s of the edits and of the burst, the heap before the restart; absent: none")
	flags.StringVar(&format, "o", "text", "text or json")
	if err := flags.Parse(args); err != nil {
		return o, false, err
	}
	switch {
	case flags.NArg() > 0:
		return o, false, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case format != "text" && format != "json":
		return o, false, fmt.Errorf("-o is %q, it must be text or json", format)
	case o.shape.namespaces < 1 || o.shape.policies < o.shape.namespaces || o.shape.policies < o.deletions:
		return o, false, fmt.Errorf("%d policies do not fill %d namespaces, or are fewer than the deletions", o.shape.policies, o.shape.namespaces)
	}
	return o, format == "json", nil
}

// command returns the exit status: 1 for an error or a missed bar, 2 for flags
// that make no sense.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, asJSON, err := parse(args, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "policies:", err)
		return 2
	}
	result, err := run(ctx, o)
	return figures.Finish("policies", result, err, asJSON, stdout, stderr)
}
