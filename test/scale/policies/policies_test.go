package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// A small run goes through every phase. What it counts holds on any machine and
// is held to; what it times is not looked at.
func TestSmallRunKeepsToWhatItCounts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	got, err := run(ctx, options{
		shape: shape{policies: 24, namespaces: 4}, edits: 6, burst: 12, deletions: 2,
		fanOut: fanOut{clients: 8}, crowd: crowd{policies: 20, clients: 2},
		idle: 100 * time.Millisecond, debounce: 100 * time.Millisecond, progress: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, row := range got.Rows {
		if row.Counted {
			counted++
		}
		if row.Counted && row.Missed {
			t.Errorf("%s: %s is %v, the bar is %s", row.Phase, row.What, row.Value, row.Bar)
		}
	}
	if counted < 15 {
		t.Errorf("%d figures are counted: %+v", counted, got.Rows)
	}
	var text, encoded strings.Builder
	if err := got.Text(&text); err != nil || !strings.Contains(text.String(), "document writes for each edit") {
		t.Errorf("%v, the table is\n%s", err, text.String())
	}
	if err := got.JSON(&encoded); err != nil || !strings.Contains(encoded.String(), `"counted": true`) {
		t.Errorf("%v, the JSON is\n%s", err, encoded.String())
	}
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"not defined":         {"-no-such-flag"},
		"unexpected argument": {"x"},
		"text or json":        {"-o", "yaml"},
		"do not fill":         {"-policies", "3", "-namespaces", "4"},
	} {
		var stderr strings.Builder
		if status := command(t.Context(), args, io.Discard, &stderr); status != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: status %d, %s", args, status, stderr.String())
		}
	}
}
