package main

import (
	"bytes"
	"context"
	"testing"
	"time"
)

// TestASmallFleet runs the whole programme on two hundred pods, all of which are
// replaced. The garbage collector takes the reports of the gone away, since the
// operator has no right to. What depends on the machine's speed is not judged.
//
// Cases O20, O26.
func TestASmallFleet(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	o := options{pods: 200, namespaces: 10, policies: 5, replaced: 100, debounce: 200 * time.Millisecond, idle: time.Second, progress: t.Output()}
	result, err := measure(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range result.Missed() {
		if row.Counted {
			t.Errorf("%s: %s is %v, want %s", row.Phase, row.What, row.Value, row.Bar)
		}
	}
	var table bytes.Buffer
	if err := result.Text(&table); err != nil {
		t.Fatal(err)
	}
	t.Log(table.String())
}

func TestArguments(t *testing.T) {
	for _, test := range []struct {
		args   []string
		status int
	}{
		{[]string{"-pods", "1"}, 2},
		{[]string{"-policies", "300"}, 2},
		{[]string{"-o", "yaml"}, 2},
		{[]string{"extra"}, 2},
		{[]string{"-unknown"}, 2},
	} {
		var stdout, stderr bytes.Buffer
		if got := command(t.Context(), test.args, &stdout, &stderr); got != test.status || stderr.Len() == 0 {
			t.Errorf("%v: status %d, %q", test.args, got, stderr.String())
		}
	}
}
