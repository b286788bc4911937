package clientlib

import (
	"errors"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/report"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// settle decides what the client lives on, from what the source said last and
// the adapters in use, and acts where that changed. It is called with the lock.
func (c *Client) settle() {
	before := c.status()
	c.delivery = c.update.Delivery
	swapped := c.choose(c.update.Document)
	c.assess()
	c.state, c.reason, c.message = c.judge()
	after := c.status()
	if after.State != before.State || after.Reason != before.Reason {
		c.since = c.clock.Now()
		after.Since = c.since
	}
	c.announce(before, after, swapped)
	if !c.closed {
		c.reporter.Update(c.name, reportOf(after, c.adapters))
	}
}

// choose puts a document in force unless the adapters must refuse it. It
// reports whether calls obey another document now.
func (c *Client) choose(doc *document.Document) bool {
	c.rejected = nil
	if doc == nil {
		return false
	}
	assessment := capability.Assess(doc, c.adapters)
	if err := assessment.Rejection(); err != nil {
		c.rejected = &Rejection{
			Revision: doc.Revision,
			Reason:   ReasonUnsupported,
			Message:  err.Error(),
			Policies: doc.Policies,
			Report:   assessment,
		}
		if c.applied == nil || c.applied.Revision != doc.Revision {
			return false
		}
		c.retreat()
		return true
	}
	if c.applied != nil && c.applied.Revision == doc.Revision {
		c.origin = c.update.Origin // the same may come from elsewhere now
		return false
	}
	c.applied, c.origin, c.appliedAt = doc, c.update.Origin, c.clock.Now()
	c.engine.Swap(doc)
	return true
}

// retreat puts an earlier document in force, since an adapter that cannot honour
// the one that is came after it: what an earlier process kept, if the adapters can
// honour that, else the fallback.
func (c *Client) retreat() {
	c.applied, c.origin = nil, ""
	if doc, path := c.earlier(); doc != nil {
		c.applied, c.origin, c.appliedAt = doc, path, c.clock.Now()
	}
	c.engine.Swap(c.inForce())
}

// earlier returns what an earlier process kept, and its file; nil where there is
// nothing that the adapters can honour.
func (c *Client) earlier() (doc *document.Document, path string) {
	if c.cache == nil {
		return nil, ""
	}
	if doc, path = c.cache.Earlier(); doc == nil {
		return nil, ""
	}
	if assessment := capability.Assess(doc, c.adapters); assessment.Rejection() != nil {
		return nil, ""
	}
	return doc, path
}

func (c *Client) assess() {
	c.assessment = capability.Assessment{}
	if doc := c.inForce(); doc != nil {
		c.assessment = capability.Assess(doc, c.adapters)
	}
}

func (c *Client) judge() (State, source.Reason, string) {
	state := StateReady
	switch {
	case c.applied == nil:
		state = StateFallback
	case c.rejected != nil || c.update.Err != nil:
		state = StateStale
	}
	if c.rejected != nil {
		return state, c.rejected.Reason, c.rejected.Message
	}
	return state, c.update.Reason, c.update.Message()
}

// announce logs and tells the observers, once per change.
func (c *Client) announce(before, after Status, swapped bool) {
	result := "unchanged"
	if swapped && c.applied != nil {
		result = "applied"
		c.log.Info("timeout policy in force", "revision", after.Revision, "policies", len(after.Policies), "origin", after.Origin, "tombstone", after.Tombstone)
	}
	switch {
	case after.Rejected != nil && (before.Rejected == nil || before.Rejected.Revision != after.Rejected.Revision):
		result = "rejected"
	case result == "applied":
	case after.Reason != before.Reason || after.Message != before.Message:
		result = c.turn(before)
	case after.State == before.State && after.Delivery == before.Delivery:
		return
	}
	switch {
	case after.Reason == source.ReasonNone && before.Reason != source.ReasonNone && !swapped:
		c.log.Info("timeout policy up to date again", "revision", after.Revision)
	case after.Reason == before.Reason && after.Message == before.Message, after.Reason == source.ReasonNone:
	case after.State == StateReady:
		c.log.Warn("timeout policy up to date, with a warning", "reason", after.Reason, "message", after.Message, "revision", after.Revision, "delivery", after.Delivery)
	default:
		c.log.Warn("timeout policy not up to date", "state", after.State, "reason", after.Reason, "message", after.Message, "revision", after.Revision)
	}
	for _, o := range c.observers {
		o.PolicyChanged(PolicyChange{Result: result, Status: after, CheckedAt: c.checkedAt})
	}
}

// turn says what another reason means while the document stays the same: the
// source cannot be used, can be used again, or warns.
func (c *Client) turn(before Status) string {
	switch {
	case c.update.Err != nil || c.rejected != nil:
		return "invalid"
	case before.State != StateReady || c.reason == source.ReasonNone:
		return "recovered"
	default:
		return "unchanged"
	}
}

// chooseReporter returns who tells the cluster, and how to stop what was started
// for it. Who cannot report works all the same.
func (c *Client) chooseReporter(o *options) (Reporter, func()) {
	if o.reporter != nil {
		return o.reporter, func() {}
	}
	r, err := report.New(report.Options{Logger: c.log, Clock: c.clock})
	switch {
	case errors.Is(err, report.ErrOff):
		c.log.Debug("no report to the cluster", "reason", err)
		return silent{}, func() {}
	case err != nil:
		c.log.Warn("no report to the cluster", "reason", err)
		return silent{}, func() {}
	}
	return r, r.Close
}
