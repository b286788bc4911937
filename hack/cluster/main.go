// Command cluster builds, runs and feeds the local control plane that demos and tests use.
//
// It links the standard library only, so that "go run" starts at once on a fresh machine and what takes minutes is
// announced by the program itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/timeout-operator/timeout-operator/hack/cluster/build"
)

const usage = `Usage: cluster COMMAND [flags]

  build [--bin DIR] [NAME...]   build etcd kube-apiserver kube-controller-manager kubectl, or the named ones, unless up
                                to date; prints the folder that holds them
  up [flags]                    run a control plane on loopback until Ctrl-C; prints its kubeconfig and "ready"
  mount [flags] CONFIGMAP=SUBDIR...
                                do the kubelet's part for a pod that mounts these ConfigMaps

"cluster COMMAND -h" lists the flags of a command. If KUBEBUILDER_ASSETS names a folder, binaries that are there are
used and not built.
`

// Exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends us at once
	os.Exit(run(ctx, os.Args[1:], terminal{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// terminal is where a command reads and writes: results to out, everything for people to err.
type terminal struct {
	in       *os.File
	out, err io.Writer
}

func (t terminal) interactive() bool {
	file, ok := t.err.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// usageError is a mistake in the arguments.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func run(ctx context.Context, args []string, t terminal) int {
	commands := map[string]func(context.Context, []string, terminal) error{"build": runBuild, "up": runUp, "mount": runMount}
	if len(args) == 0 {
		fmt.Fprint(t.err, usage)
		return exitUsage
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		fmt.Fprint(t.err, usage)
		return exitOK
	}
	command := commands[args[0]]
	if command == nil {
		fmt.Fprintf(t.err, "cluster: there is no command %q; there are build, up and mount\n", args[0])
		return exitUsage
	}
	err := command(ctx, args[1:], t)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(t.err, "cluster %s: %v\n", args[0], err)
	}
	return exitStatus(ctx, err)
}

// exitStatus says how a command ended. An up or mount that was told to end has done its job and returns no error.
func exitStatus(ctx context.Context, err error) int {
	_, usage := errors.AsType[*usageError](err)
	_, unknown := errors.AsType[*build.UnknownNameError](err)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case usage, unknown:
		return exitUsage
	case ctx.Err() != nil:
		return exitInterrupted
	default:
		return exitFailed
	}
}

// parse reads flags before, between and after the other arguments, which it returns.
func parse(flags *flag.FlagSet, args []string, t terminal) (others []string, err error) {
	flags.SetOutput(io.Discard) // run prints the error
	flags.Usage = func() {
		flags.SetOutput(t.err)
		fmt.Fprintf(t.err, "Flags of cluster %s:\n", flags.Name())
		flags.PrintDefaults()
		flags.SetOutput(io.Discard)
	}
	for {
		if err := flags.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, &usageError{err.Error()}
		}
		if flags.NArg() == 0 {
			return others, nil
		}
		others = append(others, flags.Arg(0))
		args = flags.Args()[1:]
	}
}
