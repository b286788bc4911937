package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/timeout-operator/timeout-operator/hack/cluster/build"
)

func runBuild(ctx context.Context, args []string, t terminal) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	bin := binFlag(flags)
	names, err := parse(flags, args, t)
	if err != nil {
		return err
	}
	result, err := ensure(ctx, *bin, t, names...)
	if err != nil {
		return err
	}
	fmt.Fprintln(t.out, result.Folder)
	return nil
}

func binFlag(flags *flag.FlagSet) *string {
	return flags.String("bin", "", "`folder` to build into (default bin/k8s at the top of the repository)")
}

func ensure(ctx context.Context, bin string, t terminal, names ...string) (build.Result, error) {
	return build.Ensure(ctx, build.Options{
		Bin: bin, Assets: os.Getenv("KUBEBUILDER_ASSETS"), Log: t.err, Terminal: t.interactive(),
	}, names...)
}
