package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"
)

// The output formats.
const (
	outputTable = "table"
	outputJSON  = "json"
	outputYAML  = "yaml"
)

var outputs = []string{outputTable, outputJSON, outputYAML}

// print writes a result in the chosen format; table writes it for people.
func (a *app) print(result any, table func(io.Writer)) error {
	switch a.output {
	case outputJSON:
		data, err := json.MarshalIndent(result, "", "  ")
		if err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
		_, err = fmt.Fprintf(a.Out, "%s\n", data)
		return err
	case outputYAML:
		data, err := yaml.Marshal(result)
		if err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
		_, err = a.Out.Write(data)
		return err
	default:
		table(a.Out)
		return nil
	}
}

// columns writes rows of cells, aligned as kubectl does.
func columns(w io.Writer, rows [][]string) {
	tw := tabwriter.NewWriter(w, 6, 4, 3, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tw, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	_ = tw.Flush() // the writer below keeps its own error
}

// orDash makes an empty cell visible.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
