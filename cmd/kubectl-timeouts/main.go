// Command kubectl-timeouts is the command line of the project. As a plugin it is
// called "kubectl timeouts".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/timeout-operator/timeout-operator/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
