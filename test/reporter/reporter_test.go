package reporter

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/report"
)

func checkout(revision string) report.Client {
	return report.Client{
		Delivery: "Mount", State: report.StateReady, Revision: revision,
		Policies:  []report.Policy{{Namespace: "shop", Name: "checkout", UID: "u", Generation: 3, Revision: revision, State: report.PolicyApplied}},
		Adapters:  []report.Adapter{report.NewAdapter(capability.NetHTTP())},
		Upstreams: []report.Upstream{{Name: "orders", Adapter: "nethttp", DeadKinds: []string{"WriteTimeout"}, Unsupported: []report.Unsupported{{Field: "timeouts.connect", Capability: "TimeoutConnect"}}}},
	}
}

func hasRevision(want string) func(*v1alpha1.ClientReport) error {
	return func(r *v1alpha1.ClientReport) error {
		if len(r.Clients) != 1 || r.Clients[0].Revision != want {
			return fmt.Errorf("clients are %+v, want revision %s", r.Clients, want)
		}
		return nil
	}
}

func TestPodWritesItsOwnReport(t *testing.T) {
	// The pod is known from its token alone.
	w := newWorkload(t, newNamespace(t), "checkout-7d9")
	r := w.start(t)
	r.Update("checkout", checkout("sha256:aa"))
	got := w.expectReport(t, hasRevision("sha256:aa"))

	if len(got.OwnerReferences) != 1 || got.OwnerReferences[0].UID != w.pod.UID || got.OwnerReferences[0].Kind != "Pod" {
		t.Errorf("owners are %+v, want the pod", got.OwnerReferences)
	}
	if len(got.ManagedFields) != 1 || got.ManagedFields[0].Manager != report.FieldManager+"/app" || got.ManagedFields[0].Operation != metav1.ManagedFieldsOperationApply {
		t.Errorf("managed fields are %+v, want one apply of the container", got.ManagedFields)
	}
	c := got.Clients[0]
	if len(c.Policies) != 1 || c.Policies[0].Generation != 3 || len(c.Adapters) != 1 || len(c.Adapters[0].Capabilities) != len(capability.Names()) || len(c.Upstreams) != 1 {
		t.Errorf("the client came out as %+v", c)
	}

	// What is not said any more is gone.
	changed := checkout("sha256:bb")
	changed.Upstreams, changed.Policies = nil, nil
	r.Update("checkout", changed)
	got = w.expectReport(t, hasRevision("sha256:bb"))
	if len(got.Clients[0].Upstreams) != 0 || len(got.Clients[0].Policies) != 0 {
		t.Errorf("old entries are still there: %+v", got.Clients[0])
	}
	if err := r.Err(); err != nil {
		t.Errorf("Err is %v", err)
	}
}

// Whatever a client has to say, the schema has room for what is sent.
func TestEveryReportFitsTheSchema(t *testing.T) {
	w := newWorkload(t, newNamespace(t), "crowded")
	r := w.start(t)
	long := strings.Repeat("x", 1000)
	for i := range 20 {
		c := checkout("sha256:" + strings.Repeat("ab", 32))
		c.Message, c.Reason = long, long
		if i == 0 {
			c.State = report.StateFallback
		}
		for j := range 100 {
			c.Policies = append(c.Policies, report.Policy{Name: fmt.Sprint("p", j), State: report.PolicyRejected, Message: "\x00\xff\n" + long})
			c.Upstreams = append(c.Upstreams, report.Upstream{Name: fmt.Sprint("u", j), Adapter: "nethttp", DeadKinds: []string{"", "A", "A", long}, Unsupported: []report.Unsupported{{Field: long, Capability: long}}})
		}
		r.Update(fmt.Sprintf("client-%02d", i), c)
	}
	w.expectReport(t, func(got *v1alpha1.ClientReport) error {
		if len(got.Clients) == 0 || got.Clients[0].Name != "client-00" || got.Clients[0].State != "Fallback" {
			return fmt.Errorf("the client in trouble is not the first one of %d", len(got.Clients))
		}
		return r.Err()
	})
}

// A StatefulSet makes a pod of the same name anew, and the old report may still
// be there.
//
// Case O23.
func TestNewPodOfTheSameNameTakesTheReportOver(t *testing.T) {
	namespace := newNamespace(t)
	before := newWorkload(t, namespace, "db-0")
	old := before.start(t)
	old.Update("checkout", checkout("sha256:aa"))
	before.expectReport(t, hasRevision("sha256:aa"))
	old.Close()
	must(t, admin.Delete(t.Context(), before.pod, client.GracePeriodSeconds(0)))

	after := newWorkload(t, namespace, "db-0")
	after.start(t).Update("checkout", checkout("sha256:bb"))
	got := after.expectReport(t, hasRevision("sha256:bb"))
	if len(got.OwnerReferences) != 1 || got.OwnerReferences[0].UID != after.pod.UID {
		t.Errorf("owners are %+v, want the new pod %s alone", got.OwnerReferences, after.pod.UID)
	}
}

// Case O24.
func TestReportOfAnotherPodIsRefused(t *testing.T) {
	namespace := newNamespace(t)
	w, other := newWorkload(t, namespace, "mallory"), newWorkload(t, namespace, "alice")
	w.options.Pod = report.Pod{Name: other.pod.Name, Namespace: namespace, UID: string(other.pod.UID)}
	r := w.start(t)
	r.Update("checkout", checkout("sha256:aa"))
	expectFailure(t, r, "403 Forbidden", "a pod writes the ClientReport of its own name only")
}

// expectFailure waits for a failure that says all of the words.
func expectFailure(t *testing.T, r *report.Reporter, words ...string) {
	t.Helper()
	eventually(t, func() error {
		err := r.Err()
		for _, word := range words {
			if err == nil || !strings.Contains(err.Error(), word) {
				return fmt.Errorf("the failure is %v, want %v", err, words)
			}
		}
		return nil
	})
}

// Rights that are taken away, and a token that is not accepted any more, are
// waited out; the report is written once they are back.
//
// Case O21.
func TestReportHeals(t *testing.T) {
	w := newWorkload(t, newNamespace(t), "healing")
	r := w.start(t)
	r.Update("checkout", checkout("sha256:aa"))
	w.expectReport(t, hasRevision("sha256:aa"))

	binding := &rbacv1.ClusterRoleBinding{}
	must(t, admin.Get(t.Context(), client.ObjectKey{Name: "timeout-operator-reporter"}, binding))
	must(t, admin.Delete(t.Context(), binding))
	revision := 0
	eventually(t, func() error { // the authorizer takes a moment to notice
		if err := r.Err(); err != nil {
			return nil
		}
		revision++
		r.Update("checkout", checkout(fmt.Sprint("sha256:", revision)))
		return fmt.Errorf("still written without rights")
	})
	expectFailure(t, r, "403 Forbidden", "cannot patch resource")
	binding.ResourceVersion, binding.UID = "", ""
	must(t, admin.Create(t.Context(), binding))
	w.expectReport(t, hasRevision(fmt.Sprint("sha256:", revision)))

	token, err := os.ReadFile(w.options.TokenFile)
	must(t, err)
	must(t, os.WriteFile(w.options.TokenFile, []byte("expired"), 0o600))
	r.Update("checkout", checkout("sha256:cc"))
	expectFailure(t, r, "401 Unauthorized")
	must(t, os.WriteFile(w.options.TokenFile, token, 0o600))
	w.expectReport(t, hasRevision("sha256:cc"))
}

// The containers of a pod have one report, since there is one object per pod,
// and each of them speaks for its own clients.
func TestContainersOfAPodShareItsReport(t *testing.T) {
	w := newWorkload(t, newNamespace(t), "two")
	app, sidecar := *w, *w
	app.options.Container, sidecar.options.Container = "app", "sidecar"
	names := func(want ...string) func(*v1alpha1.ClientReport) error {
		return func(r *v1alpha1.ClientReport) error {
			var got []string
			for _, c := range r.Clients {
				got = append(got, c.Name+" "+c.Revision)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				return fmt.Errorf("clients are %q, want %q", got, want)
			}
			return nil
		}
	}
	first, second := app.start(t), sidecar.start(t)
	first.Update("checkout", checkout("sha256:aa"))
	w.expectReport(t, names("checkout sha256:aa"))
	second.Update("payments", checkout("sha256:bb"))
	w.expectReport(t, names("checkout sha256:aa", "payments sha256:bb"))
	first.Update("checkout", checkout("sha256:cc"))
	got := w.expectReport(t, names("checkout sha256:cc", "payments sha256:bb"))
	if len(got.OwnerReferences) != 1 {
		t.Errorf("owners are %+v, want the pod once", got.OwnerReferences)
	}

	// A container that starts anew with another client takes back what it said
	// before, and nothing of its neighbour's.
	first.Close()
	app.start(t).Update("search", checkout("sha256:dd"))
	w.expectReport(t, names("payments sha256:bb", "search sha256:dd"))

	// One client in both: both are heard, and the last one wins where they differ.
	second.Update("search", checkout("sha256:ee"))
	w.expectReport(t, names("payments sha256:bb", "search sha256:ee"))
}

// Half of the rights that a report takes is a failure like another: one warning,
// and the report once the other half is there.
//
// Case O21.
func TestHalfOfTheRightsIsWaitedOut(t *testing.T) {
	binding := &rbacv1.ClusterRoleBinding{}
	must(t, admin.Get(t.Context(), client.ObjectKey{Name: "timeout-operator-reporter"}, binding))
	must(t, admin.Delete(t.Context(), binding))
	defer func() {
		binding.ResourceVersion, binding.UID = "", ""
		must(t, admin.Create(context.Background(), binding))
	}()
	for _, test := range []struct{ has, lacks string }{{"create", "patch"}, {"patch", "create"}} {
		t.Run("only "+test.has, func(t *testing.T) {
			namespace := newNamespace(t)
			role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "half"}}
			role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.Group}, Resources: []string{"clientreports"}, Verbs: []string{test.has}}}
			must(t, admin.Create(t.Context(), role))
			must(t, admin.Create(t.Context(), &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "half"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "half"},
				Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "default"}},
			}))
			w := newWorkload(t, namespace, "half")
			eventually(t, func() error { // the authorizer takes a moment to notice
				return w.mayOnly(t, test.has, test.lacks)
			})
			var log lockedBuffer
			w.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
			r := w.start(t)
			r.Update("checkout", checkout("sha256:aa"))
			expectFailure(t, r, "403 Forbidden", "cannot "+test.lacks+" resource")
			role.Rules[0].Verbs = []string{"create", "patch"}
			must(t, admin.Update(t.Context(), role))
			w.expectReport(t, hasRevision("sha256:aa"))
			if n := strings.Count(log.String(), "level=WARN"); n != 1 {
				t.Errorf("%d warnings, want one:\n%s", n, log.String())
			}
		})
	}
}
