// Command demo shows a timeout policy travel: from kubectl through the operator
// into a running process, and what the process can do back onto the policy's
// status. Everything is real but the kubelet, of which only the part that fills
// volumes is here.
//
// It must be run inside of a checkout of this repository; it builds what it
// needs. It exits with 0 only if everything that it tells was observed, and
// leaves no process and no file behind, however it ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// Exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// errInterrupted ends the demo when somebody asks for it.
var errInterrupted = errors.New("interrupted")

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		signal.Stop(signals) // a second Ctrl-C ends this process at once, and the kernel ends its children
		cancel(errInterrupted)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// options are what the flags and the environment say.
type options struct {
	// apiPort, ordersPort and checkoutPort are on loopback; 0 means a free one.
	apiPort, ordersPort, checkoutPort int
	// keep everything up after the story, until Ctrl-C.
	keep bool
	// jsonFile is where the results go too; empty for nowhere.
	jsonFile string
}

const usage = `Usage: demo [flags]

Shows a timeout policy travel from kubectl into a running process. The environment sets the same as the flags:
KEEP=1, DEMO_API_PORT, DEMO_ORDERS_PORT, DEMO_CHECKOUT_PORT. Flags:
`

func parse(args []string, getenv func(string) string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.IntVar(&o.apiPort, "api-port", 0, "`port` of the API server (default a free one)")
	flags.IntVar(&o.ordersPort, "orders-port", 0, "`port` of the sample upstream (default a free one)")
	flags.IntVar(&o.checkoutPort, "checkout-port", 0, "`port` of the sample client (default a free one)")
	flags.BoolVar(&o.keep, "keep", false, "stay up after the story, until Ctrl-C")
	flags.StringVar(&o.jsonFile, "json", "", "write what was checked and measured to this `file` too")
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.SetOutput(stderr)
		flags.PrintDefaults()
	}
	environment := []struct{ variable, flag string }{
		{"DEMO_API_PORT", "api-port"}, {"DEMO_ORDERS_PORT", "orders-port"}, {"DEMO_CHECKOUT_PORT", "checkout-port"}, {"KEEP", "keep"},
	}
	for _, e := range environment {
		if value := getenv(e.variable); value != "" {
			if err := flags.Set(e.flag, value); err != nil {
				return o, fmt.Errorf("%s=%q: %w", e.variable, value, err)
			}
		}
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for name, port := range o.ports() {
		if port < 0 || port > 65535 {
			return o, fmt.Errorf("%s %s: a port is 1 to 65535, or 0 for a free one", name, strconv.Itoa(port))
		}
	}
	return o, nil
}

// ports by the flag that sets them.
func (o options) ports() map[string]int {
	return map[string]int{"api-port": o.apiPort, "orders-port": o.ordersPort, "checkout-port": o.checkoutPort}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	o, err := parse(args, getenv, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return exitUsage
	}
	t := newTeller(stdout)
	err = perform(ctx, o, t)
	if o.jsonFile != "" {
		err = errors.Join(err, t.writeJSON(o.jsonFile, err))
	}
	switch {
	case errors.Is(err, errInterrupted):
		fmt.Fprintln(stderr, "demo: interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(stderr, "demo:", err)
		return exitFailed
	}
	return exitOK
}
