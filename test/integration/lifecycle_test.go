package integration

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/operator"
)

// through lets an operator reach the API server by a proxy, with one token.
func (c *cluster) through(t *testing.T, p *proxy) func(*operator.Options) {
	t.Helper()
	admin, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		t.Fatal(err)
	}
	token, err := admin.CoreV1().ServiceAccounts(systemNamespace).CreateToken(context.Background(), "timeout-operator",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *operator.Options) {
		o.Config = func() (*rest.Config, error) {
			config := rest.AnonymousClientConfig(c.admin)
			config.Host = "https://" + p.address
			config.BearerToken = token.Status.Token
			config.QPS = -1
			return config, nil
		}
	}
}

// TestOperatorWaitsForWhatIsMissing starts with nothing and adds what is missing,
// one thing after the other.
//
// Case O12.
func TestOperatorWaitsForWhatIsMissing(t *testing.T) {
	t.Parallel() // on a cluster of its own
	c := newCluster(t)
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}})
	c.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "timeout-operator"}})
	line := c.newProxy(t)
	p := c.startOperator(t, c.through(t, line))

	p.eventuallyNotReady(t, "APIServerUnreachable: cannot reach the API server")
	if code, _ := p.get(t, p.op.HealthAddress(), "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz says %d: a restart would not mend it", code)
	}
	line.connect(t)
	p.eventuallyNotReady(t, "Forbidden: the operator may not ")
	_, text := p.readyz(t)
	for _, right := range []string{"list, watch timeoutpolicies.timeout-operator.dev", "create, patch, delete configmaps", "list, watch pods", "patch timeoutpolicies/status.timeout-operator.dev", "get namespaces"} {
		if !strings.Contains(text, right) {
			t.Errorf("/readyz does not name the right to %s: %s", right, text)
		}
	}
	if _, err := c.kubectl("apply", "--server-side", "-k", repository()+"/config/rbac"); err != nil {
		t.Fatal(err)
	}
	p.eventuallyNotReady(t, "CRDMissing: the CustomResourceDefinition timeoutpolicies.timeout-operator.dev is not installed")
	if err := c.install("config/default"); err != nil {
		t.Fatal(err)
	}
	p.eventuallyReady(t)
	policy := newPolicy(c.newNamespace(t), "checkout")
	c.create(t, policy)
	c.expectProgrammed(t, policy)

	// One line a state, however often it was asked for. What is forbidden becomes
	// less while the roles are being applied.
	if lines := p.lines.with("not ready", "APIServerUnreachable"); len(lines) != 1 {
		t.Errorf("%d lines: %v", len(lines), lines)
	}
	if lines := p.lines.with("level=WARN"); len(lines) > 10 {
		t.Errorf("%d lines: %v", len(lines), lines)
	}
	if noise := p.lines.with("level=ERROR"); len(noise) != 0 {
		t.Errorf("logged as errors: %v", noise)
	}
}

func TestOperatorOutlivesAnAPIServerThatIsAway(t *testing.T) {
	line := shared.newProxy(t)
	line.connect(t)
	p := shared.startReady(t, shared.through(t, line))
	policy := newPolicy(shared.newNamespace(t), "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)

	line.cut()
	p.eventuallyNotReady(t, "APIServerUnreachable")
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("2s") })
	line.connect(t)
	p.eventuallyReady(t)
	shared.expectDocument(t, policy.Namespace, "timeouts-checkout", total("orders", "2s"))
	if lines := p.lines.with("not ready", "APIServerUnreachable"); len(lines) != 1 {
		t.Errorf("%d lines: %v", len(lines), lines)
	}
}

// TestConnectionIsMadeAnewWhenTheAPIServerStaysAway is what helps when the
// address or the certificate authority changed meanwhile.
func TestConnectionIsMadeAnewWhenTheAPIServerStaysAway(t *testing.T) {
	before, after := shared.newProxy(t), shared.newProxy(t)
	before.connect(t)
	old, changed := operator.Options{}, operator.Options{}
	shared.through(t, before)(&old)
	shared.through(t, after)(&changed)
	config := make(chan func() (*rest.Config, error), 1)
	config <- old.Config
	p := shared.startReady(t, func(o *operator.Options) {
		o.RestartAfter = 500 * time.Millisecond
		o.Config = func() (*rest.Config, error) {
			current := <-config
			config <- current
			return current()
		}
	})
	before.cut()
	p.eventuallyNotReady(t, "APIServerUnreachable")
	after.connect(t)
	<-config
	config <- changed.Config
	p.eventuallyReady(t)
	policy := newPolicy(shared.newNamespace(t), "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
}

func TestRightThatIsTakenAwayIsNamed(t *testing.T) {
	c := newScratch(t)
	line := c.newProxy(t)
	line.connect(t)
	p := c.startReady(t, c.through(t, line))
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "timeout-operator-manager"}}
	edit(t, c, role, func(r *rbacv1.ClusterRole) {
		for i := range r.Rules {
			if r.Rules[i].Resources[0] == "pods" {
				r.Rules[i].Resources = []string{"services"}
			}
		}
	})
	// The watch that is open goes on until it ends.
	line.cut()
	line.connect(t)
	p.eventuallyNotReady(t, "Forbidden: the operator may not list, watch pods")
	edit(t, c, role, func(r *rbacv1.ClusterRole) {
		r.Rules = append(r.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}})
	})
	p.eventuallyReady(t)
}

// TestDeletedCRDTakesNoPolicyFromClients: O12. Whoever deletes the
// CustomResourceDefinition deletes all policies; running clients keep theirs.
func TestDeletedCRDTakesNoPolicyFromClients(t *testing.T) {
	c := newScratch(t)
	p := c.startReady(t, elected)
	namespace := c.newNamespace(t)
	stock := func(p *v1alpha1.TimeoutPolicy) {
		p.Spec.Upstreams[0].Name, p.Spec.Upstreams[0].Hosts = "stock", []v1alpha1.HostPattern{"stock.example.com"}
	}
	for _, policy := range []*v1alpha1.TimeoutPolicy{newPolicy(namespace, "orders"), newPolicy(namespace, "stock", stock)} {
		c.create(t, policy)
		c.expectProgrammed(t, policy)
	}
	both := func(doc *document.Document) error {
		return errors.Join(total("orders", "1s")(doc), total("stock", "1s")(doc))
	}
	before := c.expectDocument(t, namespace, "timeouts-checkout", both)
	c.waitForNextSecond(t, before)

	if _, err := c.kubectl("delete", "crd", "timeoutpolicies.timeout-operator.dev"); err != nil {
		t.Fatal(err)
	}
	p.eventuallyNotReady(t, "CRDMissing")
	if err := c.install("config/default"); err != nil {
		t.Fatal(err)
	}
	p.eventuallyReady(t)
	p.settle(t)

	// The policies come back one by one. Until the last is back the document
	// stays, and says why.
	orders := newPolicy(namespace, "orders", func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("2s") })
	c.create(t, orders)
	message := c.expectCondition(t, orders, v1alpha1.ConditionProgrammed, metav1.ConditionUnknown, v1alpha1.ReasonReconciling)
	if !strings.Contains(message, "installed anew") {
		t.Errorf("the message does not say why: %s", message)
	}
	if after := c.expectDocument(t, namespace, "timeouts-checkout", both); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the document was written: %v", after.Data)
	}
	c.create(t, newPolicy(namespace, "stock", stock))
	c.expectDocument(t, namespace, "timeouts-checkout", func(doc *document.Document) error {
		return errors.Join(total("orders", "2s")(doc), total("stock", "1s")(doc))
	})
	c.expectProgrammed(t, orders)
	if noise := p.lines.with("level=ERROR"); len(noise) != 0 {
		t.Errorf("logged as errors: %v", noise)
	}
}

// TestDeletions runs with the controllers that end namespaces and collect
// garbage.
//
// Cases O08, O10, O36.
func TestDeletions(t *testing.T) {
	t.Parallel() // on a cluster of its own
	c := newCluster(t)
	if err := c.install("config/default"); err != nil {
		t.Fatal(err)
	}
	c.startControllerManager(t)
	t.Run("reports go with their pods", c.testReportsGoWithTheirPods)
	t.Run("nothing is created in a terminating namespace", c.testTerminatingNamespace)
	t.Run("uninstalling in any order leaves nothing behind", c.testUninstall)
}

// testTerminatingNamespace: O08.
func (c *cluster) testTerminatingNamespace(t *testing.T) {
	p := c.startReady(t)
	namespace := c.newNamespace(t)
	held, plain := newPolicy(namespace, "held", func(p *v1alpha1.TimeoutPolicy) { p.Finalizers = []string{"example.com/hold"} }), newPolicy(namespace, "plain")
	c.create(t, held)
	c.create(t, plain)
	c.expectDocument(t, namespace, "timeouts-checkout", total("orders", "1s"))
	p.settle(t)
	p.requests.reset()

	c.delete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	c.expectGone(t, plain)
	c.expectGone(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "timeouts-checkout"}})
	p.settle(t)
	if writes := p.requests.writes("/configmaps/"); len(writes) != 0 {
		t.Errorf("wrote %v", writes)
	}
	if noise := p.lines.with("level=ERROR"); len(noise) != 0 {
		t.Errorf("logged as errors: %v", noise)
	}
	edit(t, c, held, func(p *v1alpha1.TimeoutPolicy) { p.Finalizers = nil })
	c.expectGone(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
}

// testUninstall: O10. Without the operator everything can go, in whatever order.
func (c *cluster) testUninstall(t *testing.T) {
	p := c.startReady(t)
	first, second := c.newNamespace(t), c.newNamespace(t)
	for _, namespace := range []string{first, second} {
		policy := newPolicy(namespace, "checkout")
		c.create(t, policy)
		c.expectProgrammed(t, policy)
	}
	p.end(t)
	c.delete(t, newPolicy(first, "checkout"))
	c.expectGone(t, newPolicy(first, "checkout"))
	c.delete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: first}})
	if _, err := c.kubectl("delete", "crd", "timeoutpolicies.timeout-operator.dev", "clientreports.timeout-operator.dev", "--timeout=30s"); err != nil {
		t.Fatal(err)
	}
	c.delete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: second}})
	for _, namespace := range []string{first, second} {
		c.expectGone(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
}

func TestAddressThatIsTakenIsAnErrorAtOnce(t *testing.T) {
	p := shared.startReady(t)
	_, err := operator.New(operator.Options{
		Config:        func() (*rest.Config, error) { return nil, errors.New("not asked for") },
		HealthAddress: p.op.HealthAddress(), Registry: prometheus.NewRegistry(), Now: time.Now,
	})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("New says %v", err)
	}
}
