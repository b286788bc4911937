package engine

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// fill sets everything that can be set, lists with one item.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	}
}

// leaves yields each value in v that has no parts, and each list, by its path.
func leaves(path string, v reflect.Value, yield func(path string, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		leaves(path, v.Elem(), yield)
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(path+"."+v.Type().Field(i).Name, v.Field(i), yield)
		}
	case reflect.Slice:
		yield(path, v)
		leaves(path+"[0]", v.Index(0), yield)
	case reflect.String, reflect.Int, reflect.Int64:
		yield(path, v)
	}
}

// What is left out here is no part of what is built. A field that the document
// gets some day has to be compared, or to be named here.
func TestEveryFieldTellsUpstreamsApart(t *testing.T) {
	ignored := map[string]bool{".OnUnsupported": true}
	filled := func() *document.Upstream {
		u := new(document.Upstream)
		fill(reflect.ValueOf(u).Elem())
		return u
	}
	if !sameUpstream(filled(), filled()) || !sameUpstream(&document.Upstream{}, &document.Upstream{}) {
		t.Fatal("equal upstreams are not the same")
	}
	compared := 0
	changed := filled()
	leaves("", reflect.ValueOf(changed).Elem(), func(path string, v reflect.Value) {
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		if ignored[path] {
			return
		}
		compared++
		v.Set(reflect.Zero(v.Type()))
		if sameUpstream(filled(), changed) || sameUpstream(changed, filled()) {
			t.Errorf("%s makes no difference", path)
		}
		v.Set(before)
	})
	if compared < 60 {
		t.Errorf("only %d fields were compared", compared)
	}
	for name, change := range map[string]func(*document.Upstream){
		"no deadline":       func(u *document.Upstream) { u.Deadline = nil },
		"no total":          func(u *document.Upstream) { u.Timeouts.Total = nil },
		"empty list":        func(u *document.Upstream) { u.Retry.Methods = []string{} },
		"route of its own":  func(u *document.Upstream) { u.Routes[0].Match.GRPC = nil },
		"one route more":    func(u *document.Upstream) { u.Routes = append(u.Routes, u.Routes[0]) },
		"route's own retry": func(u *document.Upstream) { u.Routes[0].Retry.Budget = nil },
	} {
		u := filled()
		change(u)
		if sameUpstream(u, filled()) || sameUpstream(filled(), u) {
			t.Errorf("%s makes no difference", name)
		}
	}
}

// twoUpstreams is a document whose second upstream differs by its total, and
// which has so many bytes of something else.
func twoUpstreams(t *testing.T, total string, padding int) *document.Document {
	t.Helper()
	doc, err := document.Parse(fmt.Appendf(nil, `{"schema":1,"padding":%q,"upstreams":[
		{"name":"orders","hosts":["orders","*.orders:80"],"timeouts":{"total":"1s","scope":"Body"},
		 "retry":{"methods":["GET"],"idempotencyHeaders":["X-Once"],"backoff":{"jitter":"Equal"}},"deadline":{"header":"X-Left"},
		 "routes":[{"name":"refunds","match":{"methods":["POST"],"path":"/refunds"}},{"name":"grpc","match":{"grpc":{"service":"s","method":"m"}}}]},
		{"name":"stock","hosts":["stock"],"timeouts":{"total":%q}}]}`, strings.Repeat("x", padding), total))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestAnUnchangedUpstreamIsTakenOver(t *testing.T) {
	asked := 0
	e := New(Options{Observers: []Observer{counting{&asked}}})
	before := e.Swap(twoUpstreams(t, "2s", 0))
	if asked != 4 {
		t.Fatalf("%d recorders for two upstreams with two routes", asked)
	}
	after := e.Swap(twoUpstreams(t, "3s", 1))
	find := func(s *Snapshot, name string) *Policy { return s.Lookup(name, 80, callOf("GET")) }
	if find(before, "orders") != find(after, "orders") || find(before, "a.orders") != find(after, "a.orders") {
		t.Error("an upstream that stayed the same was built anew")
	}
	if old, changed := find(before, "stock"), find(after, "stock"); old == changed || changed.Total.String() != "3s" || old.state != changed.state {
		t.Error("an upstream that changed was not built anew, or lost its state")
	}
	if asked != 5 {
		t.Errorf("%d recorders asked for, want one more for the upstream that changed", asked)
	}
}

// counting counts how often it is asked for a recorder.
type counting struct{ asked *int }

func (c counting) Recorder(string, string) Recorder {
	*c.asked++
	return &told{}
}

// What is taken over keeps nothing of the documents that it came from.
func TestOldDocumentsAreForgotten(t *testing.T) {
	e := New(Options{})
	e.Swap(twoUpstreams(t, "1s", 1<<12))
	freed := make(chan struct{})
	runtime.AddCleanup(&e.Snapshot().Document.Upstreams[0], func(c chan struct{}) { close(c) }, freed)
	e.Swap(twoUpstreams(t, "2s", 1<<12))
	kept := e.Snapshot().Lookup("orders", 80, callOf("GET"))
	for deadline := time.Now().Add(30 * time.Second); ; runtime.GC() {
		select {
		case <-freed:
			if kept.Total == 0 {
				t.Error("the policy is gone too")
			}
			return
		case <-time.After(5 * time.Millisecond):
			if time.Now().After(deadline) {
				t.Fatal("the upstreams of the old document are still in memory")
			}
		}
	}
}

// Many documents, each with another part of it new, leave no text behind.
func TestReloadsDoNotAddUp(t *testing.T) {
	const upstreams, padding = 16, 1 << 17
	totals := make([]int, upstreams)
	load := func(e *Engine, version int) {
		totals[version%upstreams] = version + 1
		var list []string
		for i, total := range totals {
			list = append(list, fmt.Sprintf(`{"name":"u%d","hosts":["u%d"],"timeouts":{"total":"%dms","scope":"Body"},"retry":{"methods":["M%d"]}}`, i, i, total, i))
		}
		doc, err := document.Parse(fmt.Appendf(nil, `{"schema":1,"padding":%q,"upstreams":[%s]}`, strings.Repeat("x", padding), strings.Join(list, ",")))
		if err != nil {
			t.Fatal(err)
		}
		e.Swap(doc)
	}
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	e := New(Options{})
	load(e, 0)
	before := inUse()
	for version := range upstreams {
		load(e, version+1)
	}
	if more := int64(inUse()) - int64(before); more > 4*padding {
		t.Errorf("%d KiB more in use after %d documents of %d KiB", more>>10, upstreams, padding>>10)
	}
	runtime.KeepAlive(e)
}
