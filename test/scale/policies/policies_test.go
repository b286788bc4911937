package main

import (
	"context"
	"io"
	"slices"
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
			t.Errorf("%s: %s is %s, the bar is %s", row.Phase, row.What, format(row.Value), row.Bar)
		}
	}
	if counted < 15 {
		t.Errorf("%d figures are counted: %+v", counted, got.Rows)
	}
	var text, encoded strings.Builder
	if err := got.text(&text); err != nil || !strings.Contains(text.String(), "document writes for each edit") {
		t.Errorf("%v, the table is\n%s", err, text.String())
	}
	if err := got.json(&encoded); err != nil || !strings.Contains(encoded.String(), `"counted": true`) {
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

func TestBarsAreJudged(t *testing.T) {
	var r result
	r.add("p", "free", 1e9, "s")
	r.atMost("p", "kept", 2, 2, "s")
	r.atMost("p", "missed", 2.01, 2, "s")
	r.count("p", "few", 1, 2)
	r.exactly("p", "one", 1, 1)
	r.exactly("p", "none", 1, 0)
	var missed []string
	for _, row := range r.missed() {
		missed = append(missed, row.What)
	}
	if !slices.Equal(missed, []string{"missed", "none"}) {
		t.Errorf("missed are %v", missed)
	}
}

func TestQuantileIsTheNearestRank(t *testing.T) {
	var durations []time.Duration
	for i := range 100 {
		durations = append(durations, time.Duration(100-i)*time.Millisecond)
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := quantile(durations, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("no durations have a quantile")
	}
}
