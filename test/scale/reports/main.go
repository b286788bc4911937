// Command reports loads the operator with the reports of ten thousand pods and
// measures what that takes: memory, requests to the API server, and the time
// until every status is right, after a start, after a change of every policy,
// after a third of the pods was replaced, after a restart, and when nothing
// happens. It starts its own control plane (KUBEBUILDER_ASSETS or bin/k8s) and
// the real manager under its own service account, so run it inside of the
// checkout:
//
//	go run ./test/scale/reports            # a table; a few minutes
//	go run ./test/scale/reports -o json
//
// The exit status is 1 when a figure misses its bar.
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
	// pods that report, spread evenly over namespaces.
	pods, namespaces int
	// policies, at most one in a namespace; the reports of the other namespaces
	// count for nothing.
	policies int
	// replaced is how many of a hundred pods are replaced.
	replaced int
	// distinct is how many of a hundred pods have words of their own, so that no
	// other says the same.
	distinct int
	// debounce of the operator.
	debounce time.Duration
	// idle is how long nothing happens.
	idle     time.Duration
	progress io.Writer
}

func parse(args []string, stderr io.Writer) (options, bool, error) {
	o := options{progress: stderr}
	var format string
	flags := flag.NewFlagSet("reports", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.pods, "pods", 10000, "pods, each with a report")
	flags.IntVar(&o.namespaces, "namespaces", 200, "namespaces that they are in")
	flags.IntVar(&o.policies, "policies", 100, "policies, at most one in a namespace")
	flags.IntVar(&o.replaced, "replaced", 30, "percent of the pods that are replaced")
	flags.IntVar(&o.distinct, "distinct", 0, "percent of the pods that say something of their own, the worst case for the operator's memory")
	flags.DurationVar(&o.debounce, "report-debounce", 5*time.Second, "of the operator")
	flags.DurationVar(&o.idle, "idle", time.Minute, "how long to look on when nothing happens")
	flags.StringVar(&format, "o", "text", "text or json")
	if err := flags.Parse(args); err != nil {
		return o, false, err
	}
	switch {
	case flags.NArg() > 0:
		return o, false, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case format != "text" && format != "json":
		return o, false, fmt.Errorf("-o is %q, it must be text or json", format)
	case o.policies < 1 || o.namespaces < o.policies || o.pods < o.namespaces:
		return o, false, fmt.Errorf("%d policies need as many namespaces, of which there are %d, and each of those a pod, of which there are %d", o.policies, o.namespaces, o.pods)
	}
	return o, format == "json", nil
}

// command returns the exit status: 1 for an error or a missed bar, 2 for flags
// that make no sense.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, asJSON, err := parse(args, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "reports:", err)
		return 2
	}
	result, err := measure(ctx, o)
	return figures.Finish("reports", result, err, asJSON, stdout, stderr)
}
