// Command manager is the operator: it renders TimeoutPolicies into the documents
// that clients load, and tells on their status what became of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/timeout-operator/timeout-operator/internal/operator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

// run returns the exit status: 0 after a signal, 1 for an error, 2 for flags
// that make no sense.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	options, log, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "manager:", err)
		return 2
	}
	saveMemory()
	logger := logr.FromSlogHandler(log.Handler())
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	op, err := operator.New(options)
	if err == nil {
		log.Info("starting", "metrics", op.MetricsAddress(), "health", op.HealthAddress())
		err = op.Run(ctx)
	}
	if err != nil {
		log.Error("the operator ends", "err", err)
		return 1
	}
	return 0
}

// parse reads the flags. Unknown arguments are an error.
func parse(args []string, stderr io.Writer) (operator.Options, *slog.Logger, error) {
	options := operator.Options{Config: ctrl.GetConfig, Now: time.Now}
	election := &options.LeaderElection
	var namespaces, format string
	var level slog.Level
	reports := true
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(stderr)
	config.RegisterFlags(flags)
	flags.StringVar(&options.MetricsAddress, "metrics-bind-address", ":8080", "address of /metrics; 0 for none")
	flags.StringVar(&options.HealthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	flags.StringVar(&options.PprofAddress, "pprof-bind-address", "0", "address of net/http/pprof, such as 127.0.0.1:6060; 0 for none")
	flags.BoolVar(&election.Enabled, "leader-elect", false, "let one of several processes work; the others stand by")
	flags.StringVar(&election.Namespace, "leader-election-namespace", "", "namespace of the lease; absent: the namespace of the pod")
	flags.StringVar(&namespaces, "watch-namespaces", "", "namespaces to watch, separated by commas; absent: all")
	flags.StringVar(&options.Plan.ClusterDomain, "cluster-domain", "cluster.local", "domain of in-cluster names")
	flags.DurationVar(&options.ReportDebounce, "report-debounce", 5*time.Second, "how long client reports are gathered before a status follows them")
	flags.BoolVar(&reports, "client-reports", true, "follow the reports of clients; without, their numbers are taken off every status")
	flags.IntVar(&options.Concurrency, "concurrency", 8, "namespaces worked on at the same time")
	flags.StringVar(&format, "log-format", operator.FormatText, "text or json")
	flags.TextVar(&level, "log-level", slog.LevelInfo, "DEBUG, INFO, WARN or ERROR")
	if err := flags.Parse(args); err != nil {
		return options, nil, err
	}
	if flags.NArg() > 0 {
		return options, nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for namespace := range strings.SplitSeq(namespaces, ",") {
		if namespace = strings.TrimSpace(namespace); namespace != "" {
			options.Namespaces = append(options.Namespaces, namespace)
		}
	}
	options.Plan.ReportingDisabled = !reports
	log, err := operator.NewLogger(stderr, format, level, time.Now)
	options.Log = log
	return options, log, err
}
