package figures

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestFiguresAreHeldToTheirBars(t *testing.T) {
	r := Result{Machine: NewMachine()}
	r.Add("start", "ready after", 1.25, "s")
	r.AtMost("start", "memory", 250, 250, "MiB")
	r.AtMost("start", "time", 15.1, 15, "s")
	r.Count("edit", "writes", 3, 2)
	r.Exactly("idle", "writes", 0, 0)
	r.Exactly("idle", "reads", 1, 0)
	var missed []string
	for _, row := range r.Missed() {
		missed = append(missed, row.What)
	}
	if got := strings.Join(missed, " "); got != "time writes reads" {
		t.Errorf("missed are %q", got)
	}
	var table, data bytes.Buffer
	if err := r.Text(&table); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(table.String(), "MISSED"); n != 3 {
		t.Errorf("%d rows are marked in\n%s", n, table.String())
	}
	if err := r.JSON(&data); err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(data.Bytes(), &back); err != nil || len(back.Rows) != 6 || back.Machine != r.Machine {
		t.Errorf("JSON came back as %+v, %v", back, err)
	}
}

func TestTheExitStatusTellsOfMissedBars(t *testing.T) {
	kept, missed := &Result{}, &Result{}
	kept.Exactly("idle", "writes", 0, 0)
	missed.Exactly("idle", "writes", 2, 0)
	for _, test := range []struct {
		result *Result
		err    error
		json   bool
		status int
		says   string
	}{
		{kept, nil, false, 0, ""},
		{kept, nil, true, 0, ""},
		{missed, nil, false, 1, "load: idle: writes misses its bar\n"},
		{nil, errors.New("no control plane"), false, 1, "load: no control plane\n"},
	} {
		var stdout, stderr bytes.Buffer
		if got := Finish("load", test.result, test.err, test.json, &stdout, &stderr); got != test.status || stderr.String() != test.says {
			t.Errorf("status %d, %q, want %d, %q", got, stderr.String(), test.status, test.says)
		}
		if test.json != strings.HasPrefix(stdout.String(), "{") {
			t.Errorf("printed %q", stdout.String())
		}
	}
}

func TestQuantile(t *testing.T) {
	durations := []time.Duration{4, 1, 3, 2}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 3, 0.99: 4, 1: 4} {
		if got := Quantile(durations, q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	if got := Quantile(nil, 0.5); got != 0 {
		t.Errorf("of none it is %d", got)
	}
}
