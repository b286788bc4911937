package kubesource

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// until waits for an update that satisfies check and returns when that was.
func (h *heard) until(what string, check func(source.Update) bool) time.Time {
	h.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		all := h.updates()
		if len(all) > 0 && check(all[len(all)-1]) {
			return time.Now()
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%s: not within %s; it said %s", what, patience, describe(h.last()))
		}
		<-time.After(5 * time.Millisecond)
	}
}

func has(client string) func(source.Update) bool {
	return func(u source.Update) bool { return clientOf(u) == client && u.Err == nil }
}

func hasReason(reason source.Reason) func(source.Update) bool {
	return func(u source.Update) bool { return u.Reason == reason }
}

// measured logs how long after an event the newest policy was in force.
func measured(t *testing.T, event string, from, to time.Time) {
	t.Helper()
	t.Logf("in force %s after %s", to.Sub(from).Round(time.Millisecond), event)
}

// The rights of the sample are enough, and not more than needed.
func TestAChangeIsDelivered(t *testing.T) {
	t.Parallel()
	c := theCluster(t)
	namespace := c.newNamespace(t, true)
	pod := c.newPod(t, namespace)
	h := listen(t, New("checkout", WithConfig(pod.config), WithNamespace(namespace)))
	h.until("the first word", hasReason(source.ReasonNoDocument))
	at := c.store(t, namespace, "timeouts", docFor(t, "all"))
	measured(t, "the answer to kubectl", at, h.until("the namespace's document", has("all")))
	at = c.store(t, namespace, "timeouts-checkout", docFor(t, "a"))
	measured(t, "the answer to kubectl", at, h.until("the client's document", has("a")))
	if u := h.last(); u.Delivery != source.DeliveryWatch || u.Origin != "ConfigMap "+namespace+"/timeouts-checkout" {
		t.Errorf("it said %s", describe(u))
	}

	// As large as a ConfigMap may be.
	at = c.store(t, namespace, "timeouts-checkout", largeDocument(t))
	measured(t, "the answer to kubectl, with 900 KB", at, h.until("a large document", has("large")))
	c.store(t, namespace, "timeouts-checkout", "no document")
	h.until("a document that cannot be used", hasReason(source.ReasonInvalidUpdate))
	if u := h.last(); clientOf(u) != "large" {
		t.Errorf("the last good document is gone: %s", describe(u))
	}
	c.kubectl(t, "", "-n", namespace, "delete", "configmap", "timeouts-checkout")
	h.until("the deletion", hasReason(source.ReasonSourceGone))
}

// largeDocument has some 900 KB.
func largeDocument(t *testing.T) string {
	d := &document.Document{Client: "large"}
	for i := range 9000 {
		name := fmt.Sprintf("upstream-%04d", i)
		d.Upstreams = append(d.Upstreams, document.Upstream{Name: name, Hosts: []string{name + ".shop.svc.cluster.local"}})
	}
	return rendered(t, d)
}

// The API server is killed and comes back with an etcd that was compacted
// meanwhile: the version that a watch would go on with is not known any more.
func TestTheAPIServerIsKilledAndComesBack(t *testing.T) {
	c := theCluster(t)
	namespace := c.newNamespace(t, true)
	pod := c.newPod(t, namespace)
	c.store(t, namespace, "timeouts-checkout", docFor(t, "a"))
	h := listen(t, New("checkout", WithConfig(pod.config), WithNamespace(namespace), withGrace(time.Second)))
	h.until("the first document", has("a"))
	f, session, version := pod.follower(t, namespace)
	for _, client := range []string{"b", "c"} {
		c.store(t, namespace, "timeouts-checkout", docFor(t, client))
	}
	h.until("the second document", has("c"))
	told := len(h.updates())
	cached := pod.client(t, namespace)
	must(t, cached.Close())

	c.order(t, "kill kube-apiserver")
	c.compact(t)
	h.until("the outage", hasReason(source.ReasonUnreachable))
	if u := h.last(); clientOf(u) != "c" {
		t.Errorf("in the outage it has %s", describe(u))
	}
	// A pod that restarts has what the last one kept on its disk.
	cached = pod.client(t, namespace)
	defer func() { must(t, cached.Close()) }()
	if s := cached.Status(); s.State != clientlib.StateStale || s.Reason != source.ReasonCached || s.Revision != h.last().Document.Revision {
		t.Errorf("a client that starts in the outage has status %+v", s)
	}
	ready := c.order(t, "start kube-apiserver")
	c.store(t, namespace, "timeouts-checkout", docFor(t, "d"))
	measured(t, "the API server was ready after kill -9", ready, h.until("the newest document", has("d")))
	if n := len(h.updates()) - told; n > 4 {
		t.Errorf("one outage took %d updates", n)
	}
	h.until("the client that started in the outage", func(u source.Update) bool {
		s := cached.Status()
		return s.State == clientlib.StateReady && s.Revision == u.Document.Revision
	})

	f.sessions.give(session, true)
	session, err := f.sessions.get()
	must(t, err)
	defer f.sessions.give(session, false)
	if _, err = f.watch(t.Context(), session, version); !isGone(err) {
		t.Fatalf("a watch from version %s ended with %v, want 410", version, err)
	}
	found, _, err := f.list(t.Context(), session)
	must(t, err)
	if string(found.data) != docFor(t, "d") {
		t.Errorf("after a 410 the list found %s", found.data)
	}
}

// client is a whole client that keeps its policy on disk.
func (p *pod) client(t *testing.T, namespace string) *clientlib.Client {
	t.Helper()
	client, err := clientlib.New(t.Context(), "checkout", clientlib.WithCache(filepath.Dir(p.token)), clientlib.WithReporter(nil),
		clientlib.WithLogger(slog.New(slog.DiscardHandler)),
		clientlib.WithSource(source.Prefer(New("checkout", WithConfig(p.config), WithNamespace(namespace)), source.Dir(t.TempDir()))))
	must(t, err)
	return client
}

// follower is one that has listed and not begun to watch.
func (p *pod) follower(t *testing.T, namespace string) (f *follower, s *session, version string) {
	t.Helper()
	shared := &sessions{config: p.config}
	t.Cleanup(shared.close)
	s, err := shared.get()
	must(t, err)
	f = &follower{
		rota: newRota(1),
		name: "timeouts-checkout", sessions: shared, emit: func(sighting) {},
		options: options{config: p.config, namespace: namespace, check: MaxCheck, clock: clock.System()},
	}
	_, version, err = f.list(t.Context(), s)
	must(t, err)
	return f, s, version
}

// withGrace shortens the time until a failure is told.
func withGrace(d time.Duration) Option { return func(o *options) { o.grace = d } }

// withMount is the watch, and the mounted ConfigMap where it cannot be had.
func withMount(t *testing.T, pod *pod, namespace, client string) (s source.Source, mount string) {
	t.Helper()
	mount = t.TempDir()
	write(t, mount, generation(t, client, 1))
	return source.Prefer(New("checkout", WithConfig(pod.config), WithNamespace(namespace), withGrace(time.Second)), source.Dir(mount)), mount
}

// generation is a document for a client, of one policy at a generation.
func generation(t *testing.T, client string, n int64) string {
	t.Helper()
	return rendered(t, &document.Document{Client: client, Policies: []document.PolicyRef{{Name: "p", UID: "u", Generation: n}}})
}

func write(t *testing.T, dir, document string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, "policy.json~"), []byte(document), 0o600))
	must(t, os.Rename(filepath.Join(dir, "policy.json~"), filepath.Join(dir, "policy.json")))
}

// Case R29.
func TestRightsThatAreMissingAreStoodInForByTheMount(t *testing.T) {
	t.Parallel()
	c := theCluster(t)
	namespace := c.newNamespace(t, false)
	pod := c.newPod(t, namespace)
	c.store(t, namespace, "timeouts-checkout", generation(t, "a", 3))
	s, mount := withMount(t, pod, namespace, "mounted")
	h := listen(t, s)

	// At the start.
	h.until("the refusal", hasReason(source.ReasonForbidden))
	if u := h.last(); clientOf(u) != "mounted" || u.Err != nil || u.Delivery != source.DeliveryMount || !strings.Contains(u.Message(), "cannot list resource") {
		t.Errorf("without rights it said %s", describe(u))
	}
	c.allow(t, namespace)
	given := time.Now()
	measured(t, "rights were given", given, h.until("the watch", has("a")))
	if u := h.last(); u.Delivery != source.DeliveryWatch || u.Reason != source.ReasonNone {
		t.Errorf("with rights it said %s", describe(u))
	}

	// In the middle: the watch itself goes on until it breaks.
	c.kubectl(t, "", "-n", namespace, "delete", "rolebinding", "timeouts-checkout")
	// The API server may take a moment to notice, and let a new watch begin.
	cut := time.Time{}
	h.until("the end of the rights", func(u source.Update) bool {
		if now := time.Now(); now.Sub(cut) > time.Second {
			pod.proxy.cut()
			cut = now
		}
		return u.Reason == source.ReasonForbidden
	})
	if u := h.last(); clientOf(u) != "a" || u.Err == nil {
		t.Errorf("the mount, which is older, displaced the watch's document: %s", describe(u))
	}
	told := len(h.updates())
	write(t, mount, generation(t, "older", 2))
	write(t, mount, generation(t, "newer", 4))
	h.until("a change of the mount", has("newer"))
	if n := len(h.updates()); n != told+1 {
		t.Errorf("the refusal was told %d times more", n-told-1)
	}
	c.store(t, namespace, "timeouts-checkout", generation(t, "newest", 5))
	c.allow(t, namespace)
	given = time.Now()
	measured(t, "rights were given back", given, h.until("the watch again", has("newest")))
}

// A token that is bound to a Secret is good as long as that is there.
//
// Case R28.
func TestARotatedTokenIsUsed(t *testing.T) {
	t.Parallel()
	c := theCluster(t)
	namespace := c.newNamespace(t, true)
	bound := func(name string) string {
		c.kubectl(t, "", "-n", namespace, "create", "secret", "generic", name)
		return c.kubectl(t, "", "-n", namespace, "create", "token", "checkout", "--bound-object-kind=Secret", "--bound-object-name="+name)
	}
	pod := c.newPod(t, namespace)
	old := bound("old")
	pod.rotate(t, old)
	c.store(t, namespace, "timeouts-checkout", docFor(t, "a"))
	h := listen(t, New("checkout", WithConfig(pod.config), WithNamespace(namespace), withGrace(time.Second)))
	h.until("the first document", has("a"))

	next := bound("next")
	c.kubectl(t, "", "-n", namespace, "delete", "secret", "old")
	waitUntilRefused(t, pod.config, old)
	c.store(t, namespace, "timeouts-checkout", docFor(t, "b"))
	h.until("a change over the watch that is open", has("b"))
	pod.proxy.cut()
	h.until("the refusal of the old token", hasReason(source.ReasonForbidden))
	if m := h.last().Message(); !strings.Contains(m, "token") || clientOf(h.last()) != "b" {
		t.Errorf("it said %s", describe(h.last()))
	}
	c.store(t, namespace, "timeouts-checkout", docFor(t, "c"))
	pod.rotate(t, next)
	measured(t, "the token was replaced", time.Now(), h.until("the newest document", has("c")))
}

// waitUntilRefused waits until the API server takes a token no more; it
// remembers tokens for some seconds.
func waitUntilRefused(t *testing.T, config *rest.Config, token string) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.BearerTokenFile, config.BearerToken = "", token
	session, err := openSession(config, true)
	must(t, err)
	defer session.close()
	for deadline := time.Now().Add(patience); ; {
		err := session.client.Get().AbsPath("/api").MaxRetries(0).Do(t.Context()).Error()
		if err != nil && newTrouble(err).class == unauthorized {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the old token is still good: %v", err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// The connections of the watches take bytes and give none, while new ones work.
//
// Case R27.
func TestABlackholedWatchIsFound(t *testing.T) {
	t.Parallel()
	c := theCluster(t)
	namespace := c.newNamespace(t, true)
	pod := c.newPod(t, namespace)
	c.store(t, namespace, "timeouts-checkout", docFor(t, "a"))
	const check = 2 * time.Second // of 5 minutes, to keep the test short
	h := listen(t, New("checkout", WithConfig(pod.config), WithNamespace(namespace), WithCheck(check)))
	h.until("the first document", has("a"))
	pod.proxy.swallow()
	at := c.store(t, namespace, "timeouts-checkout", docFor(t, "b"))
	measured(t, fmt.Sprintf("the change, with plain reads each %s", check), at, h.until("the change", has("b")))
	at = c.store(t, namespace, "timeouts-checkout", docFor(t, "c"))
	measured(t, "the next change, over a new watch", at, h.until("the next change", has("c")))
	if u := h.last(); u.Delivery != source.DeliveryWatch || u.Reason != source.ReasonNone {
		t.Errorf("it said %s", describe(u))
	}
}

func TestTheConfigurationThatWasGivenIsLeftAlone(t *testing.T) {
	config := &rest.Config{Host: "http://127.0.0.1:1", Transport: refusing{}}
	h := listen(t, New("checkout", WithConfig(config), WithNamespace("shop")))
	h.until("the failure", hasReason(source.ReasonUnreachable))
	if config.QPS != 0 || config.GroupVersion != nil || config.UserAgent != "" {
		t.Errorf("the configuration was changed: %+v", config)
	}
	if m := h.last().Message(); !strings.Contains(m, "no route") || strings.Contains(m, "resourceVersion") {
		t.Errorf("the message is %q", m)
	}
}

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }
