// Package figures is what the load programs print: figures, the bars that they
// have to keep to, and the machine that they were measured on.
package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// Row is one figure.
type Row struct {
	Phase string  `json:"phase"`
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	// Bar is what the figure has to keep to, such as "<= 60"; absent for none.
	Bar string `json:"bar,omitempty"`
	// Missed says that it does not.
	Missed bool `json:"missed,omitempty"`
	// Counted says that the figure is a count, which does not depend on the
	// machine or on what else it does.
	Counted bool `json:"counted,omitempty"`
}

// Result of a run.
type Result struct {
	Machine Machine `json:"machine"`
	Rows    []Row   `json:"rows"`
}

// Add adds a figure without a bar.
func (r *Result) Add(phase, what string, value float64, unit string) {
	r.Rows = append(r.Rows, Row{Phase: phase, What: what, Value: value, Unit: unit})
}

// AtMost adds a figure that may not be larger than its bar.
func (r *Result) AtMost(phase, what string, value, bar float64, unit string) {
	r.Rows = append(r.Rows, Row{Phase: phase, What: what, Value: value, Unit: unit, Bar: "<= " + format(bar), Missed: value > bar})
}

// Count adds a count that may not be larger than its bar.
func (r *Result) Count(phase, what string, value, bar float64) {
	r.AtMost(phase, what, value, bar, "")
	r.Rows[len(r.Rows)-1].Counted = true
}

// Exactly adds a count that has to be its bar.
func (r *Result) Exactly(phase, what string, value, bar float64) {
	r.Rows = append(r.Rows, Row{Phase: phase, What: what, Value: value, Bar: "= " + format(bar), Missed: value != bar, Counted: true})
}

// Missed lists the figures that do not keep to their bars.
func (r *Result) Missed() []Row {
	return slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return !row.Missed })
}

// JSON writes the result for programs.
func (r *Result) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// Text writes the result as a table.
func (r *Result) Text(w io.Writer) error {
	fmt.Fprintln(w, r.Machine)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PHASE\tWHAT\tVALUE\tBAR\t")
	for _, row := range r.Rows {
		verdict := ""
		switch {
		case row.Missed:
			verdict = "MISSED"
		case row.Bar != "":
			verdict = "ok"
		}
		fmt.Fprintf(table, "%s\t%s\t%s %s\t%s\t%s\n", row.Phase, row.What, format(row.Value), row.Unit, row.Bar, verdict)
	}
	return table.Flush()
}

// format writes three significant digits at least, and no fraction of large
// numbers.
func format(v float64) string {
	digits := 2
	switch {
	case v == float64(int64(v)) || v >= 100:
		digits = 0
	case v >= 10:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// Quantile of durations; the nearest rank, 0 of none.
func Quantile(durations []time.Duration, q float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// Milliseconds of a duration.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Mebibytes of a number of bytes.
func Mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// Finish prints a result and returns the exit status of a load program: 1 for an
// error or a missed bar, which are named on stderr.
func Finish(program string, result *Result, err error, asJSON bool, stdout, stderr io.Writer) int {
	if err == nil {
		write := result.Text
		if asJSON {
			write = result.JSON
		}
		err = write(stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return 1
	}
	missed := result.Missed()
	for _, row := range missed {
		fmt.Fprintf(stderr, "%s: %s: %s misses its bar\n", program, row.Phase, row.What)
	}
	return min(len(missed), 1)
}
