package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
)

//go:generate go run ../../hack/docs

// What lies between these lines of a page is generated.
const (
	generatedBegin = "<!-- generated from the records: go generate ./internal/cli -->\n"
	generatedEnd   = "<!-- end of the generated part -->\n"
)

// AdaptersPage returns docs/adapters.md with its generated part made anew: the
// table that `kubectl timeouts matrix` prints, and the notes of every record.
func AdaptersPage(page string) (string, error) {
	before, rest, begins := strings.Cut(page, generatedBegin)
	_, after, ends := strings.Cut(rest, generatedEnd)
	if !begins || !ends {
		return "", fmt.Errorf("the page has no part between %q and %q", strings.TrimSpace(generatedBegin), strings.TrimSpace(generatedEnd))
	}
	var b strings.Builder
	records := matrixRecords()
	b.WriteString("\n```\n")
	compareAdapters(&b, records)
	b.WriteString("```\n")
	for i := range records {
		records[i].section(&b)
	}
	return before + generatedBegin + b.String() + "\n" + generatedEnd + after, nil
}

// section lists the notes of one record.
func (r *matrixRecord) section(w io.Writer) {
	fmt.Fprintf(w, "\n### %s\n\nThe adapter for `%s`.\n\n", r.Adapter, r.Library)
	for _, name := range capability.Names() {
		if s := r.Support[name]; s.Note != "" {
			fmt.Fprintf(w, "- %s is %s: %s.\n", name, s.Level, s.Note)
		}
	}
}
