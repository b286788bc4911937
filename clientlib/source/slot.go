package source

import (
	"crypto/sha256"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// slot is a place and what became of it over time. Each slot keeps its own last
// good document.
type slot struct {
	place place
	// passTombstone says that a tombstone here leaves the say to the next slot.
	passTombstone bool
	mounts        func() ([]byte, error)

	doc    *document.Document // last good; nil if there never was one
	raw    []byte             // the text of doc
	digest [sha256.Size]byte  // of raw; set only once raw was parsed
	fixed  bool               // doc lies where nothing ever changes

	fault *Error // what is wrong now, nil if nothing is
}

// look reads the place again. The same bytes are parsed once only, good or bad.
func (s *slot) look() {
	data, atomic, fault := s.place.read()
	if fault != nil {
		s.fault = fault
		return
	}
	digest := sha256.Sum256(data)
	switch {
	case s.doc != nil && digest == s.digest:
		s.fault = nil
		return
	case s.fault != nil && digest == s.fault.content:
		return
	}
	doc, err := document.Parse(data)
	if err != nil {
		s.fault = s.place.contentFault(err, digest)
		return
	}
	s.doc, s.raw, s.digest, s.fault = doc, data, digest, nil
	s.fixed = !atomic && isFixedMount(s.mounts, s.place)
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

// reason sums up a fault of this slot.
func (s *slot) reason(fault *Error) Reason {
	switch fault.Fault {
	case FaultMissing, FaultDanglingLink:
		if s.doc == nil {
			return ReasonNoDocument
		}
		return ReasonSourceGone
	case FaultSymlinkLoop, FaultPermission, FaultNotRegular, FaultIO:
		return ReasonUnreadable
	}
	if s.doc == nil {
		return ReasonInvalidInitial
	}
	return ReasonInvalidUpdate
}

// resolve picks the slot in force: the first that has a document, where a
// tombstone may leave the say to the slots after it. Nil when there is no
// document at all. The fault is the first one among the slots that were asked,
// with the slot it belongs to.
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
