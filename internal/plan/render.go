package plan

import (
	"fmt"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// fit renders the target. Where the document does not fit, the youngest
// policies are left out until it does.
func (p *planner) fit(t *target) made {
	content := p.contentKey(t.content)
	if known, ok := p.recall(t, content); ok {
		if known.fits >= 0 {
			p.leaveOut(t, known.fits, known.reason)
		}
		p.remember(t, known)
		return known.made
	}
	fits := -1
	m, fault := p.tryFit(t.content)
	if fault != "" {
		fits, m = p.largest(t)
		p.leaveOut(t, fits, fault)
	}
	p.remember(t, remembered{content: content, made: m, fits: fits, reason: fault})
	return m
}

// largest looks for the largest number of old policies that fits: the size grows
// with the policies.
func (p *planner) largest(t *target) (fits int, m made) {
	tooMany := len(t.content.policies)
	for tooMany-fits > 1 {
		n := (fits + tooMany) / 2
		some, fault := p.tryFit(p.assemble(t.client, t.content.youngest(n)))
		if fault == "" {
			fits, m = n, some
		} else {
			tooMany = n
		}
	}
	return fits, m
}

// leaveOut takes all but the first n policies out of the target.
func (p *planner) leaveOut(t *target, n int, reason string) {
	t.tooLarge, t.reason = t.content.youngest(n), reason
	if n == 0 {
		t.content = &assembly{client: t.client}
		return
	}
	t.content = p.assemble(t.client, t.tooLarge)
}

// tryFit renders an assembly; fault says in words why it does not fit.
func (p *planner) tryFit(a *assembly) (m made, fault string) {
	data, revision, err := a.render(p.in.Namespace)
	if err != nil {
		return made{}, err.Error()
	}
	if limit := p.in.Options.MaxDocumentBytes; len(data) > limit {
		return made{}, fmt.Sprintf("the document would have %d bytes, more than %d", len(data), limit)
	}
	return newMade(data, revision), ""
}

// Render returns the bytes of one of the output's documents; err is not nil only
// for a document of another plan. It may be called several times at once.
func (o *Output) Render(d *RenderedDocument) ([]byte, error) {
	if d.Data != nil {
		return d.Data, nil
	}
	for _, t := range o.state.targets {
		if t.configMap == d.ConfigMap && t.rendered != nil {
			data, _, err := t.content.render(o.state.in.Namespace)
			return data, err
		}
	}
	return nil, fmt.Errorf("the plan has no document %s", d.ConfigMap)
}

func newRendered(configMap, client string, m made, tombstone bool, existing ExistingDocument, now time.Time) *RenderedDocument {
	d := &RenderedDocument{
		ConfigMap: configMap,
		Client:    client,
		Revision:  m.revision,
		Tombstone: tombstone,
		Data:      m.data,
		Digest:    m.digest,
		Bytes:     m.size,
		Current:   existing.Revision == m.revision,
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
		v1alpha1.AnnotationRevision: m.revision,
		AnnotationSince:             d.Since.Format(time.RFC3339),
	}
	if tombstone {
		d.Annotations[AnnotationTombstone] = "true"
	}
	return d
}
