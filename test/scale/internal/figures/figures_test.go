package figures

import (
	"bytes"
	"encoding/json"
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
