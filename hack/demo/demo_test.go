package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the demo, built once for all tests.
var binary string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "demo-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "demo")
	build := exec.Command("go", "build", "-trimpath", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the demo: %v\n%s", err, output)
		return 1
	}
	return m.Run()
}

// performance is a run of the demo whose processes and files can be told from
// those of others.
type performance struct {
	cmd    *exec.Cmd
	mark   string // in the environment of every process of it
	temp   string // its TMPDIR
	stdout io.Reader
	stderr bytes.Buffer
	once   sync.Once
	ended  error
}

// start runs the demo in the background.
func start(t *testing.T, args ...string) *performance {
	t.Helper()
	// Not t.TempDir: paths of sockets must be short.
	temp, err := os.MkdirTemp("", "d-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	p := &performance{cmd: exec.Command(binary, args...), mark: "DEMO_TEST=" + filepath.Base(temp), temp: temp}
	p.cmd.Env = append(os.Environ(), p.mark, "TMPDIR="+temp, "KEEP=")
	p.cmd.Stderr = &p.stderr
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.wait()
	})
	return p
}

func (p *performance) wait() error {
	p.once.Do(func() { p.ended = p.cmd.Wait() })
	return p.ended
}

// tell reads the story up to a line that holds a text, or to its end, and
// returns what it has read.
func (p *performance) tell(t *testing.T, until string) string {
	t.Helper()
	var story strings.Builder
	for lines := bufio.NewReader(p.stdout); ; {
		line, err := lines.ReadString('\n')
		story.WriteString(line)
		switch {
		case until != "" && strings.Contains(line, until):
			p.stdout = lines // with what it has buffered
			return story.String()
		case err == io.EOF && until == "":
			return story.String()
		case err != nil:
			_ = p.wait()
			t.Fatalf("the demo ended before %q: %v\n%s\n%s", until, err, story.String(), p.stderr.String())
		}
	}
}

// expectEnd wants an exit status, and nothing left.
func (p *performance) expectEnd(t *testing.T, status int) {
	t.Helper()
	story := p.tell(t, "")
	_ = p.wait()
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("exit status %d, want %d\n%s\n%s", got, status, story, p.stderr.String())
	}
	if left := marked(p.mark); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if left, err := os.ReadDir(p.temp); err != nil || len(left) > 0 {
		t.Errorf("files are left in %s: %v, %v", p.temp, left, err)
	}
}

func TestTheStoryComesTrue(t *testing.T) {
	results := filepath.Join(t.TempDir(), "results.json")
	p := start(t, "--json", results)
	p.expectEnd(t, exitOK)
	text, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		OK       bool      `json:"ok"`
		Checks   []check   `json:"checks"`
		Measured []measure `json:"measured"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if !r.OK || !passed(r.Checks) {
		t.Errorf("the results do not fit the exit status: %s", text)
	}
	for _, name := range []string{
		"a hung server, each attempt", "a hung server, retried", "a hung server, in total", "a dripping body",
		"after the change, in total", "no restart", "an invalid policy", "calls since the change",
		"the deleted ConfigMap is repaired", "the edited ConfigMap is repaired", "acknowledged", "capable", "processes", "files",
	} {
		if !slices.ContainsFunc(r.Checks, func(c check) bool { return c.Name == name }) {
			t.Errorf("nobody checked %q", name)
		}
	}
	if len(r.Measured) == 0 {
		t.Error("nothing was measured")
	}
}

func TestAnInterruptedDemoLeavesNothing(t *testing.T) {
	p := start(t)
	p.tell(t, "checkout runs as process")
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.expectEnd(t, exitInterrupted)
	if got := p.stderr.String(); !strings.HasSuffix(got, "demo: interrupted\n") {
		t.Errorf("it says %q", got)
	}
}

func TestADemoWhosePartEndsSaysSoAndCleansUp(t *testing.T) {
	p := start(t)
	p.tell(t, "checkout runs as process")
	manager := slices.IndexFunc(marked(p.mark), func(p running) bool { return p.name == "manager" })
	if manager < 0 {
		t.Fatalf("there is no manager among %v", marked(p.mark))
	}
	if err := syscall.Kill(marked(p.mark)[manager].pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.expectEnd(t, exitFailed)
	if got := p.stderr.String(); !strings.Contains(got, "demo: manager ended by itself (signal: killed)") {
		t.Errorf("it says %q", got)
	}
}

func TestAKilledDemoTakesItsProcessesAlong(t *testing.T) {
	p := start(t)
	p.tell(t, "checkout runs as process")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.wait()
	within(t, 20*time.Second, func() error {
		if left := marked(p.mark); len(left) > 0 {
			return fmt.Errorf("processes are left: %v", left)
		}
		return nil
	})
	t.Setenv("TMPDIR", p.temp)
	f, err := makeFolder()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.delete(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(p.temp, folderPrefix+"*")); err != nil || len(left) > 0 {
		t.Errorf("the next demo left %v, %v", left, err)
	}
}

func within(t *testing.T, patience time.Duration, condition func() error) {
	t.Helper()
	end := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatal(err)
		}
	}
}

func TestATakenPortIsOneClearLine(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	for _, name := range []string{"api-port", "orders-port", "checkout-port"} {
		p := start(t, fmt.Sprintf("--%s=%d", name, port))
		p.expectEnd(t, exitFailed)
		want := fmt.Sprintf("demo: port %d is not free (", port)
		if got := p.stderr.String(); !strings.HasPrefix(got, want) || !strings.Contains(got, "--"+name) || strings.Count(got, "\n") != 1 {
			t.Errorf("it says %q, want one line that begins with %q and names --%s", got, want, name)
		}
	}
}

func TestAMissingGoIsOneClearLine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	p := start(t)
	p.expectEnd(t, exitFailed)
	if got := p.stderr.String(); !strings.HasPrefix(got, "demo: Go was not found: ") || strings.Count(got, "\n") != 1 {
		t.Errorf("it says %q", got)
	}
}

func TestTooLittleDiskIsSaid(t *testing.T) {
	dir := t.TempDir()
	if err := checkDisk(dir, 1); err != nil {
		t.Error(err)
	}
	err := checkDisk(dir, 1<<62)
	if err == nil || !strings.Contains(err.Error(), "not enough free disk in "+dir) || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("it says %v", err)
	}
}

func TestFlagsAndEnvironment(t *testing.T) {
	environment := map[string]string{"KEEP": "1", "DEMO_API_PORT": "6443"}
	getenv := func(name string) string { return environment[name] }
	o, err := parse([]string{"--api-port", "7443", "--orders-port=8080"}, getenv, io.Discard)
	if err != nil || !o.keep || o.apiPort != 7443 || o.ordersPort != 8080 || o.checkoutPort != 0 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"--api-port", "x"}, {"--api-port", "65536"}, {"--api-port=-1"}, {"more"}, {"--unknown"}} {
		if status := run(t.Context(), args, getenv, io.Discard, io.Discard); status != exitUsage {
			t.Errorf("%q: exit status %d, want %d", args, status, exitUsage)
		}
	}
	environment["KEEP"] = "perhaps"
	if _, err := parse(nil, getenv, io.Discard); err == nil || !strings.Contains(err.Error(), `KEEP="perhaps"`) {
		t.Errorf("it says %v", err)
	}
}

func TestAFailedCheckFailsTheDemo(t *testing.T) {
	var out bytes.Buffer
	teller := newTeller(&out)
	teller.check(true, "one", "1", "%d", 1)
	if err := teller.verdict(); err != nil {
		t.Error(err)
	}
	teller.check(false, "two", "2", "%d", 3)
	if err := teller.verdict(); err == nil || err.Error() != "1 of 2 checks failed: two" {
		t.Errorf("it says %v", err)
	}
	if got := out.String(); !strings.Contains(got, "[FAILED] two: wanted 2, seen: 3") {
		t.Errorf("it prints %q", got)
	}
}

func TestJudgeHang(t *testing.T) {
	served := func(seconds ...float64) (visits []visit) {
		for i := range seconds {
			visits = append(visits, visit{Seconds: &seconds[i]})
		}
		return visits
	}
	cut := result{Outcome: "TotalTimeout", Limit: "policy", Seconds: 1.0}
	for name, c := range map[string]struct {
		result result
		visits []visit
		want   bool
	}{
		"as promised":     {cut, served(0.4, 0.4, 0.18), true},
		"a late machine":  {result{Outcome: "TotalTimeout", Limit: "policy", Seconds: 1.3}, served(0.6, 0.4, 0.01), true},
		"cut too early":   {cut, served(0.3, 0.4, 0.18), false},
		"never cut":       {cut, served(30, 0.4, 0.18), false},
		"no request":      {cut, nil, false},
		"two requests":    {cut, served(0.4, 0.6), false},
		"another outcome": {result{Outcome: "AttemptTimeout", Limit: "policy", Seconds: 1.0}, served(0.4, 0.4, 0.18), false},
		"another limit":   {result{Outcome: "TotalTimeout", Limit: "caller", Seconds: 1.0}, served(0.4, 0.4, 0.18), false},
		"ended too late":  {result{Outcome: "TotalTimeout", Limit: "policy", Seconds: 9.0}, served(0.4, 0.4, 0.18), false},
	} {
		if got := passed(judgeHang("", c.result, c.visits, time.Second, 400*time.Millisecond)); got != c.want {
			t.Errorf("%s: passed %v, want %v", name, got, c.want)
		}
	}
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"--namespace": "--namespace",
		"":            "''",
		"a b":         "'a b'",
		"it's":        `'it'\''s'`,
		"{.data}":     "'{.data}'",
		"a?b&c":       "'a?b&c'",
	} {
		if got := quote(word); got != want {
			t.Errorf("quote(%q) = %s, want %s", word, got, want)
		}
	}
}

func TestTranscriptKeepsWholeLines(t *testing.T) {
	transcript := newTranscript(io.Discard)
	for _, piece := range []string{"on", "e\ntwo\nthr", "ee"} {
		if _, err := io.WriteString(transcript, piece); err != nil {
			t.Fatal(err)
		}
	}
	if lines, _ := transcript.since(0); !slices.Equal(lines, []string{"one", "two"}) {
		t.Errorf("got %q", lines)
	}
	_, changed := transcript.since(2)
	_, _ = io.WriteString(transcript, "\n")
	<-changed
	if lines, _ := transcript.since(2); !slices.Equal(lines, []string{"three"}) {
		t.Errorf("got %q", lines)
	}
	if got := transcript.tail(); !strings.HasSuffix(got, "\n  one\n  two\n  three") {
		t.Errorf("the tail is %q", got)
	}
}

func TestProgressCountsPackagesAndPassesErrorsOn(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out, last: time.Now()}
	for _, piece := range []string{"net/http\nk8s.io/", "api/core/v1\n", "main.go:1:1: no such thing\n"} {
		if n, err := io.WriteString(p, piece); n != len(piece) || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	}
	if p.packages != 2 || out.String() != "main.go:1:1: no such thing\n" {
		t.Errorf("%d packages, printed %q", p.packages, out.String())
	}
	p.last = time.Time{}
	_, _ = io.WriteString(p, "fmt\n")
	if !strings.Contains(out.String(), "3 packages compiled") {
		t.Errorf("printed %q", out.String())
	}
}

func TestSweepLeavesFoldersInUseAlone(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	used, err := makeFolder()
	if err != nil {
		t.Fatal(err)
	}
	sweep()
	if _, err := os.Stat(used.path); err != nil {
		t.Error(err)
	}
	if err := used.delete(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(used.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}
