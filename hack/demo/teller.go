package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// check is something that the story promises, and what was seen of it.
type check struct {
	Name string `json:"name"`
	Want string `json:"want"`
	Seen string `json:"seen"`
	OK   bool   `json:"ok"`
}

// measure is a duration that was measured.
type measure struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// teller prints the story and remembers what was checked and measured. It is
// used by one goroutine.
type teller struct {
	out      io.Writer
	start    time.Time
	steps    int
	checks   []check
	measures []measure
}

func newTeller(out io.Writer) *teller { return &teller{out: out, start: time.Now()} }

const indent = "   "

// step begins a numbered part of the story.
func (t *teller) step(title string, lines ...string) {
	t.steps++
	fmt.Fprintf(t.out, "\n%d. %s\n", t.steps, title)
	t.say(lines...)
}

// say prints lines of text.
func (t *teller) say(lines ...string) {
	for _, line := range lines {
		fmt.Fprintln(t.out, strings.TrimRight(indent+line, " "))
	}
}

// command prints a command as one would type it.
func (t *teller) command(argv ...string) {
	quoted := make([]string, len(argv))
	for i, word := range argv {
		quoted[i] = quote(word)
	}
	t.say("$ " + strings.Join(quoted, " "))
}

// output prints what a command printed.
func (t *teller) output(text string) {
	if text = strings.TrimRight(text, "\n"); text != "" {
		t.say(strings.Split(text, "\n")...)
	}
}

// check records and prints whether what was promised was seen.
func (t *teller) check(ok bool, name, want, seen string, args ...any) {
	t.record(check{Name: name, Want: want, Seen: fmt.Sprintf(seen, args...), OK: ok})
}

// record does the same with checks that are made already.
func (t *teller) record(checks ...check) {
	t.checks = append(t.checks, checks...)
	for _, c := range checks {
		t.say(c.String())
	}
}

// passed says whether all are as promised.
func passed(checks []check) bool {
	return !slices.ContainsFunc(checks, func(c check) bool { return !c.OK })
}

// String says it in one line.
func (c check) String() string {
	if c.OK {
		return fmt.Sprintf("[ok] %s: %s", c.Name, c.Seen)
	}
	return fmt.Sprintf("[FAILED] %s: wanted %s, seen: %s", c.Name, c.Want, c.Seen)
}

// measured records and prints a duration.
func (t *teller) measured(name string, d time.Duration) {
	t.measures = append(t.measures, measure{name, d.Seconds()})
	t.say(fmt.Sprintf("[time] %s: %s", name, seconds(d)))
}

// summary prints what was checked and measured so far once more.
func (t *teller) summary() {
	t.step("Summary")
	for _, c := range t.checks {
		t.say(c.String())
	}
	for _, m := range t.measures {
		t.say(fmt.Sprintf("[time] %s: %s", m.Name, seconds(time.Duration(m.Seconds*float64(time.Second)))))
	}
	t.say(fmt.Sprintf("[time] the whole story: %s", seconds(time.Since(t.start))))
}

// verdict returns an error unless everything was as promised.
func (t *teller) verdict() error {
	var failed []string
	for _, c := range t.checks {
		if !c.OK {
			failed = append(failed, c.Name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d checks failed: %s", len(failed), len(t.checks), strings.Join(failed, "; "))
	}
	fmt.Fprintf(t.out, "\nAll %d checks were as promised.\n", len(t.checks))
	return nil
}

// writeJSON writes the results to a file.
func (t *teller) writeJSON(path string, failure error) error {
	results := struct {
		OK       bool      `json:"ok"`
		Error    string    `json:"error,omitempty"`
		Seconds  float64   `json:"seconds"`
		Checks   []check   `json:"checks"`
		Measured []measure `json:"measured"`
	}{failure == nil, "", time.Since(t.start).Seconds(), t.checks, t.measures}
	if failure != nil {
		results.Error = failure.Error()
	}
	text, err := json.MarshalIndent(results, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// seconds prints a duration with the digits that mean something.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// quote makes a word that a shell reads as it is.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
