package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/timeout-operator/timeout-operator/internal/cli"
)

// run runs one command in the process.
func run(t *testing.T, stdin string, args ...string) (out, errs string, status int) {
	t.Helper()
	var outBuffer, errBuffer bytes.Buffer
	status = cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(stdin), Out: &outBuffer, Err: &errBuffer})
	return outBuffer.String(), errBuffer.String(), status
}

// TestCommands holds what commands print against testdata/golden; with
// UPDATE_GOLDEN=1 the files are written anew.
func TestCommands(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for _, test := range []struct {
		name   string
		args   string
		stdin  string
		status int
	}{
		{"validate good", "validate -f testdata/policies", "", 0},
		{"validate good json", "validate -f testdata/policies -o json", "", 0},
		{"validate invalid", "validate -f testdata/invalid", "", 1},
		{"validate invalid yaml", "validate -f testdata/invalid/list.json -o yaml", "", 1},
		{"validate conflict", "validate -f testdata/conflict.yaml", "", 0},
		{"validate stdin", "validate -f - -n elsewhere -o yaml", "apiVersion: timeout-operator.dev/v1alpha1\nkind: TimeoutPolicy\nmetadata: {name: x}\nspec: {upstreams: [{name: a, hosts: [a], retry: {maxAttempts: 2}}]}\n", 0},
		{"validate missing file", "validate -f testdata/absent.yaml", "", 2},
		{"validate without a policy", "validate -f testdata/document.json", "", 2},
		{"validate without files", "validate", "", 2},
		{"validate folder with a recursive flag", "validate -R -f testdata/policies -o table", "", 0},
		{"validate empty folder", "validate -f testdata/golden", "", 2},

		{"render list", "render -f testdata/policies", "", 0},
		{"render configmaps", "render -f testdata/policies -o yaml", "", 0},
		{"render client", "render -f testdata/policies --client checkout", "", 0},
		{"render client yaml", "render -f testdata/policies --client=somebody -o yaml", "", 0},
		{"render with faults", "render -f testdata/invalid/mixed.yaml --client x", "", 1},
		{"render conflict", "render -f testdata/conflict.yaml", "", 1},
		{"render two namespaces", "render -f testdata/policies -f testdata/conflict.yaml --client x", "", 2},
		{"render one of two namespaces", "render -f testdata/policies,testdata/invalid/mixed.yaml -n shop", "", 1},
		{"render nobody", "render -f testdata/policies/checkout.yaml --client cart", "", 2},

		{"explain route", "explain -f testdata/policies --client checkout --url http://orders.shop:8080/v1/refunds/7 --method POST", "", 0},
		{"explain upstream", "explain -f testdata/policies --client checkout --url http://Orders.Shop.:8080/v1/orders", "", 0},
		{"explain json", "explain -f testdata/policies --client web --url http://orders:8080 -o json", "", 0},
		{"explain grpc", "explain -f testdata/policies --url grpc://ledger.example.com/shop.v1.Ledger/Post", "", 0},
		{"explain exact path", "explain -f testdata/policies --url https://ledger.example.com/v1/x", "", 0},
		{"explain nothing", "explain -f testdata/policies --client web --url https://nowhere.example.com/", "", 1},
		{"explain document", "explain --document - --url http://orders/", "@testdata/document.json", 0},
		{"explain damaged document", "explain --document testdata/conflict.yaml --url http://orders/", "", 2},
		{"explain without url", "explain --client x", "", 2},
		{"explain bad url", "explain --url orders", "", 2},
		{"explain bad scheme", "explain --url ftp://orders/", "", 2},
		{"explain bad port", "explain --url http://orders:99999/", "", 2},
		{"explain two sources", "explain --url http://orders/ --document x -f y", "", 2},
		{"explain without a cluster", "explain --client x --url http://orders/", "", 2},

		{"matrix unknown", "matrix fortran", "", 2},
		{"status without a cluster", "status", "", 2},
		{"unknown command", "explode", "", 2},
		{"unknown flag", "matrix --loud", "", 2},
		{"unknown output", "matrix -o xml", "", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdin := test.stdin
			if file, ok := strings.CutPrefix(stdin, "@"); ok {
				stdin = readFile(t, file)
			}
			out, errs, status := run(t, stdin, strings.Fields(test.args)...)
			if status != test.status {
				t.Errorf("exit status %d, want %d", status, test.status)
			}
			got := "$ kubectl timeouts " + test.args + "\n" + out
			if errs != "" {
				got += "-- standard error --\n" + errs
			}
			golden := filepath.Join("testdata/golden", strings.ReplaceAll(test.name, " ", "-")+".txt")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if want := readFile(t, golden); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The adapters that ship change, so their levels are not golden.
func TestMatrixShowsEveryAdapter(t *testing.T) {
	out, _, status := run(t, "", "matrix")
	if status != 0 || !strings.Contains(out, "NETHTTP") || !strings.Contains(out, "DeadlineCoversBody") {
		t.Errorf("status %d\n%s", status, out)
	}
	out, _, status = run(t, "", "matrix", "nethttp")
	if status != 0 || !strings.Contains(out, "Library:") || !strings.Contains(out, "AttemptTimeout") {
		t.Errorf("status %d\n%s", status, out)
	}
	out, _, status = run(t, "", "matrix", "-o", "json")
	if status != 0 || !strings.Contains(out, `"adapter": "nethttp"`) {
		t.Errorf("status %d\n%s", status, out)
	}
}

// A document that render writes is one that explain reads, and both say the
// same.
func TestExplainSaysTheSameOfFilesAndOfTheirDocument(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	out, _, _ := run(t, "", "render", "-f", "testdata/policies", "--client", "checkout")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	call := []string{"explain", "--client", "checkout", "--url", "http://orders.shop:8080/v1/refunds", "--method", "POST"}
	ofDocument, _, _ := run(t, "", append(call, "--document", file)...)
	ofFiles, _, _ := run(t, "", append(call, "-f", "testdata/policies")...)
	_, tableA, _ := strings.Cut(ofDocument, "FIELD")
	_, tableB, _ := strings.Cut(ofFiles, "FIELD")
	if tableA == "" || tableA != tableB {
		t.Errorf("of the document\n%s\nof the files\n%s", ofDocument, ofFiles)
	}
}

func TestSamplesAreValid(t *testing.T) {
	out, errs, status := run(t, "", "validate", "-R", "-f", "../../config/samples")
	if status != 0 {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
}
