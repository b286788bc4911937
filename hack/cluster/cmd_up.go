package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/timeout-operator/timeout-operator/hack/cluster/build"
	"github.com/timeout-operator/timeout-operator/hack/cluster/controlplane"
)

// errParentGone ends an up --exit-with-parent; it is the order to stop, not a failure.
var errParentGone = errors.New("the parent process is gone")

func runUp(ctx context.Context, args []string, t terminal) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	bin := binFlag(flags)
	var o controlplane.Options
	flags.StringVar(&o.Dir, "dir", "", "state `folder`, kept and used again by the next up (default: a temporary one, deleted at the end)")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "write the administrator's kubeconfig to this `file` too")
	flags.IntVar(&o.Port, "port", 0, "`port` of the API server on 127.0.0.1 (default: a free one)")
	flags.BoolVar(&o.WithoutControllerManager, "without-controller-manager", false, "no garbage collection, namespace deletion, default service accounts")
	flags.StringVar(&o.AuditLog, "audit-log", "", "append an audit event (level Metadata) for each API request to this `file`")
	flags.Func("apiserver-arg", "one more `argument` for kube-apiserver, such as --feature-gates=X=true (repeatable)", appendTo(&o.APIServerArgs))
	flags.Func("controller-manager-arg", "one more `argument` for kube-controller-manager, such as --controllers=* (repeatable)", appendTo(&o.ControllerManagerArgs))
	withParent := flags.Bool("exit-with-parent", false, "end when the parent process does, or when stdin, if it is a pipe, is closed")
	control := flags.Bool("control", false, "read commands from stdin, one a line: kill, stop, start or restart and a component; implies --exit-with-parent")
	others, err := parse(flags, args, t)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return &usageError{fmt.Sprintf("up takes no argument but flags, got %q", others)}
	}
	if o.Port < 0 || o.Port > 65535 {
		return &usageError{fmt.Sprintf("--port %d: a port is 1 to 65535, or 0 for a free one", o.Port)}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var orders chan string
	if *control {
		orders = make(chan string)
	}
	if *withParent || *control {
		go watchParent(ctx, os.Getppid, cancel)
	}
	if *control || *withParent && isPipe(t.in) {
		go readOrders(ctx, t.in, orders, cancel)
	}
	names := []string{build.Etcd, build.APIServer, build.ControllerManager}
	if o.WithoutControllerManager {
		names = names[:2]
	}
	binaries, err := ensure(ctx, *bin, t, names...)
	if err != nil {
		return told(err)
	}
	o.Bin = binaries.Folder
	o.Progress = func(line string) { fmt.Fprintln(t.err, line) }
	return told(serve(ctx, o, orders, t))
}

// serve runs the control plane until ctx ends or a component dies.
func serve(ctx context.Context, o controlplane.Options, orders <-chan string, t terminal) error {
	start := time.Now()
	cp, err := controlplane.Start(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.err, "control plane at %s ready after %s; logs in %s/logs; Ctrl-C stops it\n", cp.URL(), time.Since(start).Round(10*time.Millisecond), cp.Dir())
	fmt.Fprintf(t.out, "%s\nready\n", cp.Kubeconfig())
	for {
		select {
		case <-ctx.Done():
			return cp.Close()
		case death := <-cp.Died():
			return errors.Join(death, cp.Close())
		case order := <-orders:
			fmt.Fprintln(t.out, answer(order, obey(ctx, cp, order)))
		}
	}
}

// obey carries out a line of --control.
func obey(ctx context.Context, cp *controlplane.ControlPlane, order string) error {
	verb, name, _ := strings.Cut(order, " ")
	component := controlplane.Component(name)
	if !slices.Contains(cp.Components(), component) {
		return fmt.Errorf("there is no component %q, there are %q", name, cp.Components())
	}
	switch verb {
	case "kill":
		cp.Kill(component)
		return nil
	case "stop":
		return cp.Stop(ctx, component)
	case "start":
		return cp.Start(ctx, component)
	case "restart":
		return cp.Restart(ctx, component)
	default:
		return fmt.Errorf("there is no order %q, there are kill, stop, start and restart", verb)
	}
}

// answer is one line, whatever the error says.
func answer(order string, err error) string {
	if err == nil {
		return "ok " + order
	}
	return fmt.Sprintf("failed %s: %s", order, strings.ReplaceAll(err.Error(), "\n", " | "))
}

// told turns the end that we were told to come to into success.
func told(err error) error {
	if errors.Is(err, errParentGone) {
		return nil
	}
	return err
}

// watchParent ends us when our parent process is another one than at the start. (The kernel could tell, but it looks
// at the thread that started us, and a parent's threads come and go.)
func watchParent(ctx context.Context, parent func() int, end context.CancelCauseFunc) {
	first := parent()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if parent() != first {
				end(errParentGone)
				return
			}
		}
	}
}

// readOrders passes on the lines of stdin, unless nobody wants any, and ends us when it is closed.
func readOrders(ctx context.Context, in io.Reader, orders chan<- string, end context.CancelCauseFunc) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if orders == nil {
			continue
		}
		select {
		case orders <- lines.Text():
		case <-ctx.Done():
			return
		}
	}
	end(errParentGone)
}

func isPipe(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

func appendTo(list *[]string) func(string) error {
	return func(argument string) error {
		*list = append(*list, argument)
		return nil
	}
}
