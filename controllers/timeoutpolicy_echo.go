package controllers

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// echoes tell the events that our own writes cause from those that others cause:
// what was written is what was planned, and to plan it again would find nothing.
// An edit would be planned three times otherwise, for the policy, for its document
// and for its status, and the second and the third in the way of the next edit.
//
// A version of an object is known to be ours from the answer to the write. Its
// event may come before the answer: what is heard of an object while it is written
// is kept until then. Anything else about the object is somebody else's doing, and
// a version that was never seen because a later one took its place is no echo.
//
// The zero value is ready. Safe for concurrent use, as long as an object is
// written by one at a time.
type echoes struct {
	mu      sync.Mutex
	objects map[echoKey]*echo
	// missed are namespaces where something else was heard during a write.
	missed map[string]bool
}

// echoKey names an object that the operator writes: a document, or else a policy.
type echoKey struct {
	document        bool
	namespace, name string
}

type echo struct {
	// writing says that the answer is not there yet, and heard is what came
	// meanwhile.
	writing bool
	heard   []string
	// version that our last write made; its event has not come yet.
	version string
}

func documentKey(namespace, name string) echoKey { return echoKey{true, namespace, name} }

func policyKey(namespace, name string) echoKey { return echoKey{false, namespace, name} }

// begin notes that an object is about to be written.
func (e *echoes) begin(key echoKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.objects == nil {
		e.objects = map[echoKey]*echo{}
	}
	e.objects[key] = &echo{writing: true}
}

// end notes which version a write made; empty when it made none, or nobody knows.
func (e *echoes) end(key echoKey, version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	object := e.objects[key]
	came := false
	for _, heard := range object.heard {
		if heard == version {
			came = true
			continue
		}
		if e.missed == nil {
			e.missed = map[string]bool{}
		}
		e.missed[key.namespace] = true
	}
	if came || version == "" {
		delete(e.objects, key)
		return
	}
	*object = echo{version: version}
}

// isEcho reports whether an event can be left out: it is the echo of a write, or
// the writer looks after it.
func (e *echoes) isEcho(key echoKey, object client.Object) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.objects[key]
	switch version := object.GetResourceVersion(); {
	case known == nil:
		return false
	case known.writing:
		known.heard = append(known.heard, version)
		return true
	case known.version != version:
		return false
	default:
		delete(e.objects, key)
		return true
	}
}

// gone notes that an object was deleted.
func (e *echoes) gone(key echoKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.objects[key]; known != nil && !known.writing {
		delete(e.objects, key)
	}
}

// takeMissed reports, once, whether the events that were kept during writes to a
// namespace were not all echoes, so that it has to be looked at again.
func (e *echoes) takeMissed(namespace string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	missed := e.missed[namespace]
	delete(e.missed, namespace)
	return missed
}
