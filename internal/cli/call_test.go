package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/internal/callcmd"
	"github.com/timeout-operator/timeout-operator/internal/cli"
)

const callPolicy = `
apiVersion: timeout-operator.dev/v1alpha1
kind: TimeoutPolicy
metadata: {name: orders, namespace: shop}
spec:
  clients: [checkout]
  upstreams:
  - name: orders
    hosts: [orders.shop]
    timeouts: {total: 30s, attempt: 50ms}
    retry: {maxAttempts: 3, backoff: {initial: 10ms, jitter: None}}
`

// callOrigin runs "call" against a misbehaving server, under callPolicy.
func callOrigin(t *testing.T, stdin string, path string, flags ...string) (code int, out, errs string) {
	t.Helper()
	server := httptest.NewServer(&clienttest.Origin{})
	defer server.Close()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(callPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"call", "-f", file, "--client", "checkout", "--connect-to", server.Listener.Addr().String()}, flags...)
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), append(args, "http://orders.shop"+path), cli.Streams{In: strings.NewReader(stdin), Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

func TestCallShowsEachAttemptAndTheResult(t *testing.T) {
	code, out, errs := callOrigin(t, "", "/hang")
	if code != cli.ExitNo || errs != "" {
		t.Errorf("exit status %d, standard error %q", code, errs)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, want := range []string{"ATTEMPT", "retry after 10ms", "retry after 20ms", "no retry: attempts", "result   failed, AttemptTimeout"} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Fatalf("line %d has no %q in\n%s", i, want, out)
		}
	}
}

func TestCallThatSucceedsExitsWithZero(t *testing.T) {
	code, out, errs := callOrigin(t, "", "/echo", "--data", "hello", "-o", "json")
	var r callcmd.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if code != cli.ExitOK || errs != "" || !r.OK || r.Method != "POST" || r.Body.Bytes != 5 || r.Upstream != "orders" || r.Client != "checkout" {
		t.Errorf("exit status %d, %q, %+v", code, errs, r)
	}
}

func TestCallTakesTheWordOfTheCallSite(t *testing.T) {
	for _, c := range []struct {
		flags []string
		code  int
		skip  string
	}{
		{nil, cli.ExitOK, ""},
		{[]string{"--idempotent=false"}, cli.ExitNo, "method"},
		{[]string{"--method", "POST"}, cli.ExitNo, "method"},
		{[]string{"--method", "POST", "--idempotent"}, cli.ExitOK, ""},
		{[]string{"--method", "POST", "--header", "Idempotency-Key: 7"}, cli.ExitOK, ""},
		{[]string{"--method", "PUT", "--data", "@-"}, cli.ExitOK, ""},
	} {
		t.Run(strings.Join(c.flags, " "), func(t *testing.T) {
			code, out, _ := callOrigin(t, "body", "/status?code=503&times=1", append(c.flags, "-o", "json")...)
			var r callcmd.Result
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if code != c.code || r.Skip != c.skip {
				t.Errorf("exit status %d, skip %q, want %d, %q", code, r.Skip, c.code, c.skip)
			}
		})
	}
}

func TestCallTakesADocument(t *testing.T) {
	server := httptest.NewServer(&clienttest.Origin{})
	defer server.Close()
	const doc = `{"schema":1,"upstreams":[{"name":"local","hosts":["127.0.0.1"],"timeouts":{"total":"10s"}}]}`
	var stdout, stderr bytes.Buffer
	code := cli.Run(t.Context(), []string{"call", "--document", "-", server.URL + "/ok"}, cli.Streams{In: strings.NewReader(doc), Out: &stdout, Err: &stderr})
	if code != cli.ExitOK || !strings.Contains(stdout.String(), "(upstream local)") {
		t.Errorf("exit status %d\n%s%s", code, stdout.String(), stderr.String())
	}
}

func TestCallThatCannotBeTriedIsTrouble(t *testing.T) {
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--header", "nothing"}, "write 'Name: value'"},
		{[]string{"--data", "@/no/such/file"}, "read --data"},
		{[]string{"--cacert", "/no/such/file"}, "read --cacert"},
		{[]string{"--timeout", "-1s"}, "longer than 0"},
		{[]string{"--hold-body", "-1s"}, "longer than 0"},
		{[]string{"--count", "0"}, "from 1 to 10000"},
		{[]string{"--count", "10001"}, "from 1 to 10000"},
		{[]string{"--count", "2", "--method", "PUT", "--data", "@-"}, "can be sent once"},
		{[]string{"--document", "x.json"}, "exclude each other"},
		{[]string{"--client", "nobody"}, "no policy is for the client"},
		{[]string{"--connect-to", "nowhere"}, "write HOST:PORT"},
		{[]string{"one", "two"}, "accepts 1 arg(s)"},
	} {
		code, out, errs := callOrigin(t, "", "/ok", c.flags...)
		if code != cli.ExitTrouble || !strings.Contains(errs, c.want) || strings.Contains(out, "result") {
			t.Errorf("%v: exit status %d, %q, want %d with %q", c.flags, code, errs, cli.ExitTrouble, c.want)
		}
	}
}

func TestSeveralCallsAreToldOneByOneAndSummedUp(t *testing.T) {
	code, out, errs := callOrigin(t, "", "/status?code=500&times=1", "--count", "3")
	if code != cli.ExitNo || errs != "" || strings.Count(out, "result   ") != 3 || !strings.Contains(out, "calls    2 ok, 1 failed") {
		t.Errorf("exit status %d, %q\n%s", code, errs, out)
	}
	code, out, _ = callOrigin(t, "", "/ok", "--count", "2", "--every", "1ms", "-o", "json")
	var all struct {
		OK    int
		Calls []callcmd.Result
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != cli.ExitOK || all.OK != 2 || len(all.Calls) != 2 {
		t.Errorf("exit status %d, %v\n%s", code, err, out)
	}
}

// lockedBuffer may be written and read at once.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A document that is a file is watched: a broken one takes nothing away, a good
// one holds for the calls that begin afterwards.
func TestADocumentIsFollowedWhileCallsAreMade(t *testing.T) {
	const doc = `{"schema":1,"upstreams":[{"name":"%s","hosts":["orders"]}]}`
	file := filepath.Join(t.TempDir(), "policy.json")
	write := func(text string) {
		if err := os.WriteFile(file+"~", []byte(text), 0o600); err != nil {
			t.Error(err)
		}
		if err := os.Rename(file+"~", file); err != nil {
			t.Error(err)
		}
	}
	write(fmt.Sprintf(doc, "before"))
	var stdout, stderr lockedBuffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		calls++
		switch errs := stderr.String(); {
		case calls == 1:
			write("broken")
		case strings.Contains(stdout.String(), "(upstream after)"):
			cancel()
		case strings.Contains(errs, "changed"):
		case errs != "":
			write(fmt.Sprintf(doc, "after"))
		}
	}))
	defer server.Close()
	code := cli.Run(ctx, []string{"call", "--document", file, "--connect-to", server.Listener.Addr().String(), "--count", "10000", "--every", "10ms", "http://orders/"},
		cli.Streams{Out: &stdout, Err: &stderr})
	if code != cli.ExitNo || !strings.Contains(stdout.String(), "(upstream before)") || !strings.Contains(stdout.String(), "(upstream after)") ||
		!strings.Contains(stderr.String(), "changed: revision sha256:") || strings.Count(stderr.String(), "\n") != 2 {
		t.Errorf("exit status %d, standard error %q", code, stderr.String())
	}
}
