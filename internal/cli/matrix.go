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
Emulated (the engine adds it), Degraded (a weaker form), Absent; and which failure kinds
it can tell apart. With an adapter's name its notes are shown too.`,
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
	all := matrixRecords()
	records := slices.DeleteFunc(slices.Clone(all), func(r matrixRecord) bool { return len(args) > 0 && r.Adapter != args[0] })
	if len(records) == 0 {
		var names []string
		for _, r := range all {
			names = append(names, r.Adapter)
		}
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

func matrixRecords() []matrixRecord {
	var records []matrixRecord
	for _, r := range capability.Matrix() {
		full := matrixRecord{r.Adapter, r.Library, map[capability.Name]capability.Support{}, r.Emits.Kinds(), r.Collapse}
		for _, name := range capability.Names() {
			full.Support[name] = r.Support[name]
		}
		records = append(records, full)
	}
	return records
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
	fmt.Fprintln(w)
	head[0] = "FAILURE KIND"
	rows = [][]string{head}
	for _, kind := range failure.All() {
		row := []string{kind.String()}
		for _, r := range records {
			row = append(row, r.kind(kind))
		}
		rows = append(rows, row)
	}
	columns(w, rows)
}

// kind says what becomes of a kind.
func (r *matrixRecord) kind(k failure.Kind) string {
	if slices.Contains(r.Emits, k) {
		return "emitted"
	}
	if coarser, ok := r.Collapse[k]; ok {
		return "as " + coarser.String()
	}
	return "never"
}

// table writes one adapter with its notes.
func (r *matrixRecord) table(w io.Writer) {
	kinds := make([]string, 0, len(r.Emits))
	for _, k := range r.Emits {
		kinds = append(kinds, k.String())
	}
	slices.Sort(kinds)
	columns(w, [][]string{{"Adapter:", r.Adapter}, {"Library:", r.Library}})
	fmt.Fprintf(w, "Emits: %s\n", strings.Join(kinds, ", "))
	for _, k := range failure.All() {
		if coarser, ok := r.Collapse[k]; ok {
			fmt.Fprintf(w, "Instead of %s: %s\n", k, coarser)
		}
	}
	fmt.Fprintln(w)
	rows := [][]string{{"CAPABILITY", "LEVEL", "NOTE"}}
	for _, name := range capability.Names() {
		s := r.Support[name]
		rows = append(rows, []string{string(name), s.Level.String(), s.Note})
	}
	columns(w, rows)
}
