package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func (a *app) validateCommand() *cobra.Command {
	var in inputFlags
	cmd := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Check policies in files, without a cluster",
		Long: `Check policies in files, without a cluster.

Each policy is judged by the schema and the CEL rules of the CustomResourceDefinition,
with strict field names, by what the operator itself refuses, and by the warnings that
kubectl apply would show. Exit status 1 if a policy is invalid; warnings do not count.`,
		Example: `  kubectl timeouts validate -f policies/
  kustomize build . | kubectl timeouts validate -f -`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.validate(&in) },
	}
	in.bind(cmd.Flags())
	return cmd
}

// validationResult is the result of validate.
type validationResult struct {
	Valid    bool      `json:"valid"`
	Policies []*judged `json:"policies"`
}

func (a *app) validate(in *inputFlags) error {
	all, err := a.judge(in)
	if err != nil {
		return err
	}
	result := validationResult{Valid: true, Policies: all}
	for _, j := range all {
		result.Valid = result.Valid && j.Valid
	}
	if err := a.print(result, func(w io.Writer) { writeValidation(w, all) }); err != nil {
		return err
	}
	if !result.Valid {
		return errNo
	}
	return nil
}

// writeValidation writes a line for each finding, as compilers do, and one for
// each policy without any.
func writeValidation(w io.Writer, all []*judged) {
	for _, j := range all {
		writeFindings(w, j)
		if j.Valid && len(j.Warnings) == 0 {
			fmt.Fprintf(w, "%s:%d: %s: valid\n", j.File, j.Line, j.label())
		}
	}
}

func writeFindings(w io.Writer, j *judged) {
	for _, group := range []struct {
		kind     string
		findings []finding
	}{{"error", j.Errors}, {"warning", j.Warnings}} {
		for _, f := range group.findings {
			field := ""
			if f.Field != "" {
				field = f.Field + ": "
			}
			fmt.Fprintf(w, "%s:%d: %s: %s: %s%s\n", j.File, f.Line, j.label(), group.kind, field, f.Message)
		}
	}
}
