package docs

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/timeout-operator/timeout-operator/internal/cli"
)

func TestTheAdaptersPageIsFresh(t *testing.T) {
	page := read(t, "docs/adapters.md")
	fresh, err := cli.AdaptersPage(page)
	if err != nil {
		t.Fatal(err)
	}
	if page != fresh {
		t.Error("docs/adapters.md is not fresh: run make generate")
	}
}

func TestTheCommandPrintsTheTableOfTheAdaptersPage(t *testing.T) {
	var out, errs bytes.Buffer
	if status := cli.Run(t.Context(), []string{"matrix"}, cli.Streams{Out: &out, Err: &errs}); status != cli.ExitOK {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	if page := read(t, "docs/adapters.md"); !strings.Contains(page, "```\n"+out.String()+"```\n") {
		t.Errorf("docs/adapters.md does not show what the command prints:\n%s", out.String())
	}
}

func TestTheGuideShowsTheAdapterThatPassesTheBattery(t *testing.T) {
	guide := read(t, "docs/adapters/writing-an-adapter.md")
	source := read(t, "clientlib/adaptertest/line_test.go") + read(t, "clientlib/adaptertest/line_battery_test.go")
	shown := regexp.MustCompile(`(?s)// guide: (\w+)\n\n(.*?)\n// end\n`).FindAllStringSubmatch(source, -1)
	if len(shown) != 3 {
		t.Fatalf("the source has %d parts for the guide, want 3", len(shown))
	}
	for _, part := range shown {
		if !strings.Contains(guide, "```go\n"+part[2]+"```\n") {
			t.Errorf("the guide does not show the part %q as it is:\n%s", part[1], part[2])
		}
	}
}
