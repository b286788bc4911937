package kubesource

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// fakeAPI serves the ConfigMaps of one namespace over connections in memory, so
// that all of a test is in fake time.
type fakeAPI struct {
	conns chan net.Conn
	quit  chan struct{}

	mu      sync.Mutex
	version int
	maps    map[string]*corev1.ConfigMap
	watches map[*fakeWatch]struct{}
	forgets int // resource versions below it are gone
	down    bool
	deaf    bool           // new watches get nothing
	swallow bool           // requests get no answer
	cut     string         // watches of this ConfigMap end at once
	watched map[string]int // watches accepted, by name
	endless bool           // lists get an answer without end
	refuse  func(watch bool) *metav1.Status
	// answer answers in the place of the server where it returns true.
	answer func(w http.ResponseWriter, r *http.Request, watch bool) bool
	open   []net.Conn
	asked  []time.Time // when each list and each watch was asked for

	dials, lists, accepted atomic.Int64 // accepted watches
	alive                  atomic.Int64 // connections that the source has not closed
}

type fakeWatch struct {
	name   string
	deaf   bool
	events chan metav1.WatchEvent
	end    chan struct{}
}

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{
		conns: make(chan net.Conn), quit: make(chan struct{}), version: 100,
		maps: map[string]*corev1.ConfigMap{}, watches: map[*fakeWatch]struct{}{}, watched: map[string]int{},
	}
	server := &http.Server{Handler: f}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(f)
	}()
	t.Cleanup(func() {
		close(f.quit)
		_ = server.Close()
		<-done
	})
	return f
}

// Accept, Close and Addr make it a listener.
func (f *fakeAPI) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.quit:
		return nil, net.ErrClosed
	}
}
func (f *fakeAPI) Close() error   { return nil }
func (f *fakeAPI) Addr() net.Addr { return &net.TCPAddr{} }

func (f *fakeAPI) dial(context.Context, string, string) (net.Conn, error) {
	f.mu.Lock()
	f.dials.Add(1)
	if f.down {
		f.mu.Unlock()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	here, there := net.Pipe()
	f.open = append(f.open, there)
	f.mu.Unlock()
	select {
	case f.conns <- there:
		f.alive.Add(1)
		return &countedConn{Conn: here, closed: sync.OnceFunc(func() { f.alive.Add(-1) })}, nil
	case <-f.quit:
		return nil, net.ErrClosed
	}
}

// countedConn is a connection whose end is noted.
type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

func (f *fakeAPI) config() *rest.Config {
	return &rest.Config{Host: "http://api.example.com", Dial: f.dial}
}

// badCA is a configuration that cannot be used.
func badCA() *rest.Config {
	return &rest.Config{Host: "https://api.example.com", TLSClientConfig: rest.TLSClientConfig{CAFile: "/nowhere/ca.crt"}}
}

// kill makes the server unreachable and cuts all connections.
func (f *fakeAPI) kill() {
	f.mu.Lock()
	f.down = true
	open := f.open
	f.open = nil
	f.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}

func (f *fakeAPI) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// put stores a document and delivers it.
func (f *fakeAPI) put(name string, data string) {
	f.putKeys(name, map[string]string{source.DocumentKey: data})
}

func (f *fakeAPI) putKeys(name string, keys map[string]string) {
	f.putBoth(name, keys, nil)
}

// putBoth stores a ConfigMap with data and binaryData.
func (f *fakeAPI) putBoth(name string, keys map[string]string, binary map[string][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	kind := "MODIFIED"
	if f.maps[name] == nil {
		kind = "ADDED"
	}
	m := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: strconv.Itoa(f.version)},
		Data:       keys, BinaryData: binary,
	}
	f.maps[name] = m
	f.deliver(name, kind, m)
}

func (f *fakeAPI) delete(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	m := f.maps[name].DeepCopy()
	m.ResourceVersion = strconv.Itoa(f.version)
	delete(f.maps, name)
	f.deliver(name, "DELETED", m)
}

func (f *fakeAPI) bookmark() {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	m.ResourceVersion = strconv.Itoa(f.version)
	for w := range f.watches {
		f.send(w, "BOOKMARK", m)
	}
}

func (f *fakeAPI) deliver(name, kind string, m *corev1.ConfigMap) {
	for w := range f.watches {
		if w.name == name {
			f.send(w, kind, m)
		}
	}
}

func (f *fakeAPI) send(w *fakeWatch, kind string, o any) {
	if w.deaf {
		return
	}
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	e := metav1.WatchEvent{Type: kind}
	e.Object.Raw = raw
	w.events <- e
}

// endWatches ends all watches in good order, after an event of an error if one
// is given.
func (f *fakeAPI) endWatches(status *metav1.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		if status != nil {
			w.deaf = false
			f.send(w, "ERROR", status)
		}
		close(w.end)
		delete(f.watches, w)
	}
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	name, _ := strings.CutPrefix(query.Get("fieldSelector"), "metadata.name=")
	watching := query.Get("watch") == "true" || query.Get("watch") == "1"
	f.mu.Lock()
	swallow, endless, answer := f.swallow, f.endless && !watching, f.answer
	var refusal *metav1.Status
	if f.refuse != nil {
		refusal = f.refuse(watching)
	}
	if version, _ := strconv.Atoi(query.Get("resourceVersion")); refusal == nil && watching && version < f.forgets {
		refusal = gone()
	}
	if !watching {
		f.lists.Add(1)
	}
	f.asked = append(f.asked, time.Now())
	f.mu.Unlock()
	switch {
	case answer != nil && answer(w, r, watching):
	case swallow:
		<-r.Context().Done()
	case endless:
		w.Header().Set("Content-Type", "application/json")
		for spaces := bytes.Repeat([]byte(" "), 1<<20); ; {
			if _, err := w.Write(spaces); err != nil {
				return
			}
		}
	case refusal != nil:
		if refusal.Details != nil && refusal.Details.RetryAfterSeconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(refusal.Details.RetryAfterSeconds)))
		}
		respond(w, int(refusal.Code), refusal)
	case watching:
		f.serveWatch(w, r, name)
	default:
		f.serveList(w, name)
	}
}

func (f *fakeAPI) serveList(w http.ResponseWriter, name string) {
	f.mu.Lock()
	list := &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}}
	list.ResourceVersion = strconv.Itoa(f.version)
	if m := f.maps[name]; m != nil {
		list.Items = append(list.Items, *m)
	}
	f.mu.Unlock()
	respond(w, http.StatusOK, list)
}

func (f *fakeAPI) serveWatch(w http.ResponseWriter, r *http.Request, name string) {
	watch := &fakeWatch{name: name, events: make(chan metav1.WatchEvent, 100), end: make(chan struct{})}
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	f.mu.Lock()
	f.accepted.Add(1)
	f.watched[name]++
	cut := f.cut == name
	watch.deaf = f.deaf
	f.watches[watch] = struct{}{}
	if m := f.maps[name]; m != nil {
		if version, _ := strconv.Atoi(m.ResourceVersion); version > from {
			f.send(watch, "MODIFIED", m)
		}
	}
	f.mu.Unlock()
	defer f.set(func() { delete(f.watches, watch) })
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush := w.(http.Flusher).Flush
	flush()
	if cut {
		return
	}
	write := func(e metav1.WatchEvent) {
		_ = json.NewEncoder(w).Encode(e)
		flush()
	}
	for {
		select {
		case e := <-watch.events:
			write(e)
		case <-watch.end:
			for len(watch.events) > 0 {
				write(<-watch.events)
			}
			return
		case <-r.Context().Done():
			return
		case <-f.quit:
			return
		}
	}
}

func respond(w http.ResponseWriter, code int, o any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o)
}

func status(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}
}

func gone() *metav1.Status {
	return status(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
}

func forbidden() *metav1.Status {
	return status(http.StatusForbidden, metav1.StatusReasonForbidden, "configmaps is forbidden: User cannot")
}

// docFor renders a document for a client; other names give other revisions.
func docFor(t testing.TB, client string) string {
	t.Helper()
	return rendered(t, &document.Document{Namespace: "shop", Client: client})
}

func rendered(t testing.TB, d *document.Document) string {
	t.Helper()
	data, err := document.Render(d)
	must(t, err)
	return string(data)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// heard is what a source said.
type heard struct {
	t    *testing.T
	api  *fakeAPI
	mu   sync.Mutex
	all  []source.Update
	stop func()
}

// listen runs a source until the test is over.
func listen(t *testing.T, s source.Source) *heard {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := &heard{t: t}
	done := make(chan error)
	go func() {
		done <- s.Run(ctx, func(u source.Update) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.all = append(h.all, u)
		})
	}()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Cleanup(h.stop)
	return h
}

// withFake runs a source of the client checkout against a fake in fake time.
// Prepare is called before the source starts.
func withFake(t *testing.T, prepare func(*fakeAPI), test func(*testing.T, *fakeAPI, *heard), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		prepare(f)
		h := listen(t, New("checkout", append([]Option{WithConfig(f.config()), WithNamespace("shop")}, opts...)...))
		advance(time.Millisecond)
		test(t, f, h)
		h.stop()
	})
}

// advance lets fake time pass, and everything that is due by then happen.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (h *heard) updates() []source.Update {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]source.Update(nil), h.all...)
}

func (h *heard) last() source.Update {
	h.t.Helper()
	all := h.updates()
	if len(all) == 0 {
		h.t.Fatal("the source said nothing")
	}
	return all[len(all)-1]
}

// want checks the last update: the client of the document ("" for none,
// "tombstone" for one), reason and delivery.
func (h *heard) want(client string, reason source.Reason, delivery source.Delivery) {
	h.t.Helper()
	u := h.last()
	if got := clientOf(u); got != client || u.Reason != reason || u.Delivery != delivery {
		h.t.Errorf("want document %q, reason %q, delivery %s; got %s", client, reason, delivery, describe(u))
	}
}

func (h *heard) wantUpdates(n int) {
	h.t.Helper()
	all := h.updates()
	if len(all) == n {
		return
	}
	h.t.Errorf("%d updates, want %d:", len(all), n)
	for _, u := range all {
		h.t.Logf("  %s", describe(u))
	}
}

func clientOf(u source.Update) string {
	switch {
	case u.Document == nil:
		return ""
	case u.Document.Tombstone:
		return "tombstone"
	default:
		return u.Document.Client
	}
}

func describe(u source.Update) string {
	return fmt.Sprintf("document %q, reason %q, delivery %s, origin %s, message %s", clientOf(u), u.Reason, u.Delivery, u.Origin, u.Message())
}
