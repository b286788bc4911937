package controllers

import (
	"sync"

	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// expectations remember, by namespace and ConfigMap, the digest of the document
// that was last known to be stored. They only serve to tell a repair from an
// update, for the log and the metric; what is written never depends on them.
// The zero value is ready. Safe for concurrent use.
type expectations struct {
	mu         sync.Mutex
	namespaces map[string]map[string]string
}

// set records that a namespace holds what was planned, except what failed or
// was kept.
func (e *expectations) set(f *facts, out plan.Output, failed, kept map[string]string) {
	documents := map[string]string{}
	for _, document := range out.Documents {
		if failed[document.ConfigMap] == "" && kept[document.ConfigMap] == "" {
			documents[document.ConfigMap] = document.Digest
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(documents) == 0 {
		delete(e.namespaces, f.namespace)
		return
	}
	if e.namespaces == nil {
		e.namespaces = map[string]map[string]string{}
	}
	e.namespaces[f.namespace] = documents
}

// drifted reports whether a document that had to be written is one that was
// stored already and that somebody else changed or deleted. A process that has
// just started goes by the annotation.
func (e *expectations) drifted(f *facts, document plan.RenderedDocument) bool {
	e.mu.Lock()
	expected, known := e.namespaces[f.namespace][document.ConfigMap]
	e.mu.Unlock()
	if known {
		return expected == document.Digest
	}
	_, stored := f.documents[document.ConfigMap]
	return stored && document.Current
}
