package plan

import (
	"fmt"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// fit renders the target. Where the document does not fit, the youngest
// policies are left out until it does.
func (p *planner) fit(t *target) ([]byte, string) {
	data, revision, fault := p.tryFit(t.content)
	if fault == "" {
		return data, revision
	}
	whole := t.content
	t.reason = fault
	// The size grows with the policies: look for the largest number of old ones
	// that fits.
	fits, tooMany := 0, len(whole.policies)
	t.content = &assembly{client: t.client}
	for tooMany-fits > 1 {
		n := (fits + tooMany) / 2
		some := p.assemble(t.client, whole.youngest(n))
		someData, someRevision, someFault := p.tryFit(some)
		if someFault == "" {
			fits, t.content, data, revision = n, some, someData, someRevision
		} else {
			tooMany = n
		}
	}
	t.tooLarge = whole.youngest(fits)
	return data, revision
}

// tryFit renders an assembly; fault says in words why it does not fit.
func (p *planner) tryFit(a *assembly) (data []byte, revision, fault string) {
	data, revision, err := a.render(p.in.Namespace)
	if err != nil {
		return nil, "", err.Error()
	}
	if limit := p.in.Options.MaxDocumentBytes; len(data) > limit {
		return nil, "", fmt.Sprintf("the document would have %d bytes, more than %d", len(data), limit)
	}
	return data, revision, ""
}

func newRendered(configMap, client, revision string, tombstone bool, data []byte, existing ExistingDocument, now time.Time) *RenderedDocument {
	d := &RenderedDocument{
		ConfigMap: configMap,
		Client:    client,
		Revision:  revision,
		Tombstone: tombstone,
		Data:      data,
		Current:   existing.Revision == revision,
		Since:     now.UTC().Truncate(time.Second),
	}
	if d.Current && !existing.Since.IsZero() {
		d.Since = existing.Since.UTC().Truncate(time.Second)
	}
	d.Labels = map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.OperatorFieldManager,
		v1alpha1.LabelDocument:  client,
	}
	d.Annotations = map[string]string{
		v1alpha1.AnnotationRevision: revision,
		AnnotationSince:             d.Since.Format(time.RFC3339),
	}
	if tombstone {
		d.Annotations[AnnotationTombstone] = "true"
	}
	return d
}
