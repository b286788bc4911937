// Package cli is the command line of the project, a kubectl plugin that runs
// the operator's own code: what it renders, explains and judges is what the
// operator renders and the client library looks up.
//
// Commands that take files need no cluster. Every command takes -o
// table|json|yaml and says its result by its exit status.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// The exit statuses.
const (
	// ExitOK: the answer is yes, or there was none to give.
	ExitOK = 0
	// ExitNo: the answer is no: a policy is invalid, nothing matches, not ready.
	ExitNo = 1
	// ExitTrouble: there is no answer: wrong usage, files that cannot be read, a
	// cluster that cannot be asked.
	ExitTrouble = 2
)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// errNo ends a command whose answer is no and was given already.
var errNo = errors.New("the answer is no")

// app is one run of the command line.
type app struct {
	Streams
	output  string
	cluster clusterFlags
	now     func() time.Time
}

// Run runs one command and returns its exit status. Errors are written to
// s.Err, one line each.
func Run(ctx context.Context, args []string, s Streams) int {
	a := &app{Streams: s, now: time.Now}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errNo):
		return ExitNo
	default:
		fmt.Fprintln(s.Err, "error:", err)
		return ExitTrouble
	}
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-timeouts",
		Short: "Check, render and explain timeout policies, and see what clients made of them",
		Long: `Check, render and explain timeout policies, and see what clients made of them.

The exit status is the result: 0 yes, 1 no (invalid, nothing matches, not ready),
2 no answer (wrong usage, unreadable files, a cluster that cannot be asked).`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl timeouts"},
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if !slices.Contains(outputs, a.output) {
				return fmt.Errorf("--output %q is not known: use %s", a.output, strings.Join(outputs, ", "))
			}
			return nil
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVarP(&a.output, "output", "o", outputTable, "output format: "+strings.Join(outputs, ", "))
	a.cluster.bind(root.PersistentFlags())
	root.AddCommand(
		a.validateCommand(),
		a.renderCommand(),
		a.explainCommand(),
		a.callCommand(),
		a.statusCommand(),
		a.matrixCommand(),
	)
	return root
}
