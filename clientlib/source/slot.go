package source

import (
	"crypto/sha256"
	"errors"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// slot is what became of one place over time, whatever the place is. Each slot
// keeps its own last good document.
type slot struct {
	// origin names the place, such as the path of its file.
	origin string
	// passTombstone says that a tombstone here leaves the say to the next slot.
	passTombstone bool

	doc    *document.Document // last good; nil if there never was one
	raw    []byte             // the text of doc
	digest [sha256.Size]byte  // of raw; set only once raw was parsed

	fault *Error // what is wrong now, nil if nothing is
}

// found takes the content of the place as it is now. The same bytes are parsed
// once only, good or bad. It reports whether they became the document.
func (s *slot) found(data []byte) bool {
	digest := sha256.Sum256(data)
	switch {
	case s.doc != nil && digest == s.digest:
		s.fault = nil
		return false
	case s.fault != nil && digest == s.fault.content:
		return false
	}
	doc, err := document.Parse(data)
	if err != nil {
		s.fault = &Error{Path: s.origin, Fault: contentFault(err), Err: err, content: digest}
		return false
	}
	s.doc, s.raw, s.digest, s.fault = doc, data, digest, nil
	return true
}

// contentFault classes an error of document.Parse.
func contentFault(err error) Fault {
	for _, known := range []struct {
		err   error
		fault Fault
	}{
		{document.ErrEmpty, FaultEmpty},
		{document.ErrTooLarge, FaultTooLarge},
		{document.ErrTruncated, FaultTruncated},
		{document.ErrSyntax, FaultSyntax},
		{document.ErrSchema, FaultSchema},
		{document.ErrRevision, FaultDigest},
	} {
		if errors.Is(err, known.err) {
			return known.fault
		}
	}
	return FaultInvalid
}

// absent reports whether there is nothing in the place, as opposed to something
// that cannot be used.
func (s *slot) absent() bool {
	return s.fault != nil && (s.fault.Fault == FaultMissing || s.fault.Fault == FaultDanglingLink)
}

// trouble returns the fault that its client should know of. An optional place
// that never held a document is none, and neither is a tombstone that is gone:
// it and nothing mean the same.
func (s *slot) trouble() *Error {
	if s.absent() && (s.doc == nil || s.doc.Tombstone) {
		return nil
	}
	return s.fault
}

// reason sums up the fault of this slot.
func (s *slot) reason() Reason {
	switch s.fault.Fault {
	case FaultMissing, FaultDanglingLink:
		if s.doc == nil {
			return ReasonNoDocument
		}
		return ReasonSourceGone
	case FaultSymlinkLoop, FaultPermission, FaultNotRegular, FaultIO:
		return ReasonUnreadable
	case FaultUnreachable:
		return ReasonUnreachable
	case FaultForbidden:
		return ReasonForbidden
	}
	if s.doc == nil {
		return ReasonInvalidInitial
	}
	return ReasonInvalidUpdate
}

// resolve picks the slot in force: the first that has a document, where a
// tombstone may leave the say to the slots after it. Nil when there is no
// document at all. The faulty one is the first with trouble among the slots
// that were asked.
func resolve(slots []*slot) (inForce, faulty *slot) {
	for _, s := range slots {
		if faulty == nil && s.trouble() != nil {
			faulty = s
		}
		if s.doc == nil {
			continue
		}
		if s.doc.Tombstone && s.passTombstone {
			if inForce == nil {
				inForce = s
			}
			continue
		}
		return s, faulty
	}
	return inForce, faulty
}
