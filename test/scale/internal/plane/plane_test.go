package plane

import (
	"os"
	"testing"
)

func TestRequestsAreCountedFromTheAuditLog(t *testing.T) {
	a := &audit{path: t.TempDir() + "/audit.log"}
	if got, err := a.read(); err != nil || len(got) != 0 {
		t.Fatalf("without a log: %v, %v", got, err)
	}
	line := func(user, verb, resource, subresource string) string {
		return `{"kind":"Event","verb":"` + verb + `","user":{"username":"` + user + `"},"objectRef":{"resource":"` + resource + `","subresource":"` + subresource + `"}}` + "\n"
	}
	log := line(operatorUser, "patch", "timeoutpolicies", "status") + line(operatorUser, "patch", "timeoutpolicies", "status") +
		line(operatorUser, "update", "leases", "") + line(operatorUser, "list", "pods", "") + line("someone", "delete", "pods", "")
	cut := len(log) - 10
	for _, content := range []string{log[:cut], log} { // the last line is not complete at first
		if err := os.WriteFile(a.path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := a.read()
		if err != nil || got.Total() != 4 || got["patch timeoutpolicies/status"] != 2 {
			t.Errorf("counted %v, %v", got, err)
		}
		if writes := got.Writes(); writes.Total() != 2 {
			t.Errorf("writes are %v, want the two patches", writes)
		}
		if s := got.Since(Requests{"patch timeoutpolicies/status": 1}).String(); s != "1 list pods, 1 patch timeoutpolicies/status, 1 update leases" {
			t.Errorf("since: %s", s)
		}
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	u, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if u.RSS < 1<<20 || u.PeakRSS < u.RSS {
		t.Errorf("usage is %+v", u)
	}
}
