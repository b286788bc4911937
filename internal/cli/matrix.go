package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

func (a *app) matrixCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "matrix [ADAPTER]",
		Short: "Show what each adapter of the client library can enforce",
		Long: `Show what each adapter of the client library can enforce: Native (the library does it),
Emulated (the engine adds it), Degraded (a weaker form), Absent. With an adapter's name
its notes and the failure kinds that it can tell apart are shown too.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.matrix(args) },
	}
}

// matrixRecord is one adapter.
type matrixRecord struct {
	Adapter  string                                 `json:"adapter"`
	Library  string                                 `json:"library"`
	Support  map[capability.Name]capability.Support `json:"support"`
	Emits    []failure.Kind                         `json:"emits"`
	Collapse map[failure.Kind]failure.Kind          `json:"collapse,omitempty"`
}

func (a *app) matrix(args []string) error {
	var records []matrixRecord
	var names []string
	for _, r := range capability.Matrix() {
		names = append(names, r.Adapter)
		if len(args) > 0 && r.Adapter != args[0] {
			continue
		}
		full := matrixRecord{r.Adapter, r.Library, map[capability.Name]capability.Support{}, r.Emits.Kinds(), r.Collapse}
		for _, name := range capability.Names() {
			full.Support[name] = r.Support[name]
		}
		records = append(records, full)
	}
	if len(records) == 0 {
		return fmt.Errorf("there is no adapter %q: use %s", args[0], strings.Join(names, ", "))
	}
	return a.print(records, func(w io.Writer) {
		if len(args) > 0 {
			records[0].table(w)
			return
		}
		compareAdapters(w, records)
	})
}

// compareAdapters writes a column for each adapter.
func compareAdapters(w io.Writer, records []matrixRecord) {
	head := []string{"CAPABILITY"}
	for _, r := range records {
		head = append(head, strings.ToUpper(r.Adapter))
	}
	rows := [][]string{head}
	for _, name := range capability.Names() {
		row := []string{string(name)}
		for _, r := range records {
			row = append(row, r.Support[name].Level.String())
		}
		rows = append(rows, row)
	}
	columns(w, rows)
}

// table writes one adapter with its notes.
func (r *matrixRecord) table(w io.Writer) {
	kinds := make([]string, 0, len(r.Emits))
	for _, k := range r.Emits {
		kinds = append(kinds, k.String())
	}
	slices.Sort(kinds)
	columns(w, [][]string{{"Adapter:", r.Adapter}, {"Library:", r.Library}})
	fmt.Fprintf(w, "Emits: %s\n\n", strings.Join(kinds, ", "))
	rows := [][]string{{"CAPABILITY", "LEVEL", "NOTE"}}
	for _, name := range capability.Names() {
		s := r.Support[name]
		rows = append(rows, []string{string(name), s.Level.String(), s.Note})
	}
	columns(w, rows)
}
