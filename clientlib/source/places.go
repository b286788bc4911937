package source

import (
	"fmt"
	"strings"
)

// Place names a place of [Places].
type Place struct {
	// Origin is what people call the place, such as "ConfigMap shop/timeouts".
	Origin string
	// PassTombstone says that a tombstone here leaves the say to the places
	// after it; otherwise it means that there is no policy.
	PassTombstone bool
}

// Places is the rule by which [Dir] keeps documents, for sources that find
// their documents elsewhere: the first place that has a valid document wins, and
// each place keeps its own last good one whatever is found there later.
//
// It decides only; whoever looks says what was found. One goroutine uses it.
type Places struct {
	name  string
	slots []*slot
}

// NewPlaces returns places in order of precedence, in none of which anybody has
// looked yet. The name is for the error that says that all of them are empty.
func NewPlaces(name string, places ...Place) *Places {
	p := &Places{name: name}
	for _, place := range places {
		p.slots = append(p.slots, &slot{origin: place.Origin, passTombstone: place.PassTombstone})
	}
	return p
}

// Found says what a place has now. The bytes are kept if they are a document,
// and must not be changed afterwards.
func (p *Places) Found(place int, data []byte) { p.slots[place].found(data) }

// Lost says that a place has nothing, or cannot be looked at; fault is one of
// FaultMissing, FaultUnreachable, FaultForbidden and FaultIO. What changes with
// each attempt, such as a port, does not belong into err: another text is told
// as news.
func (p *Places) Lost(place int, fault Fault, err error) {
	s := p.slots[place]
	s.fault = &Error{Path: s.origin, Fault: fault, Err: err}
}

// Update returns what is in force and what is wrong. Delivery and Check are the
// caller's to say.
func (p *Places) Update() Update {
	inForce, faulty := resolve(p.slots)
	u := Update{}
	if inForce != nil {
		u.Document, u.Raw, u.Origin = inForce.doc, inForce.raw, inForce.origin
	}
	switch {
	case faulty != nil:
		u.Err, u.Reason = faulty.fault, faulty.reason()
	case inForce == nil:
		u.Err, u.Reason = p.nothing(), ReasonNoDocument
	}
	return u
}

// nothing is the error of places without any document: the link that leads
// nowhere if there is one, else that all places are empty.
func (p *Places) nothing() *Error {
	origins := make([]string, 0, len(p.slots))
	for _, s := range p.slots {
		if s.fault != nil && (s.fault.Fault == FaultDanglingLink || len(p.slots) == 1) {
			return s.fault
		}
		origins = append(origins, s.origin)
	}
	return &Error{Path: p.name, Fault: FaultMissing, Err: fmt.Errorf("none of %s is there", strings.Join(origins, ", "))}
}

// inForce returns the slot whose document is in force, nil for none.
func (p *Places) inForce() *slot {
	s, _ := resolve(p.slots)
	return s
}
