package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/timeout-operator/timeout-operator/hack/cluster/build"
)

// What the kernel is to do to us when our parent ends (PR_SET_PDEATHSIG) belongs to a thread, our first one, and exec keeps
// what belongs to the thread that calls it. So main stays on the first thread, and the mounter ends with its parent too.
func init() { runtime.LockOSThread() }

// runMount becomes the mounter, a binary of its own, which knows all flags but --bin.
func runMount(ctx context.Context, args []string, t terminal) error {
	bin, args, err := cutBin(args)
	if err != nil {
		return err
	}
	result, err := ensure(ctx, bin, t, build.Mounter)
	if err != nil {
		return err
	}
	path := result.Paths[build.Mounter]
	if err := syscall.Exec(path, append([]string{"cluster mount"}, args...), os.Environ()); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}

// cutBin takes --bin out of the arguments.
func cutBin(args []string) (bin string, others []string, err error) {
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		switch {
		case name != "-bin" && name != "--bin":
			others = append(others, args[i])
		case given:
			bin = value
		case i+1 == len(args):
			return "", nil, &usageError{"flag needs an argument: -bin"}
		default:
			i++
			bin = args[i]
		}
	}
	return bin, others, nil
}
