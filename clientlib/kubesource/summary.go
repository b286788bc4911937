package kubesource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// sighting is what the follower of a place found out.
type sighting struct {
	place int
	// look is what is there now; nil when there is nothing new about it.
	look *look
	// trouble is why the follower cannot know; nil when it is sure.
	trouble *trouble
	// polling says that looks come from reading again and again, since the watch
	// cannot be had, for the reason in trouble.
	polling bool
}

// look is the content of a ConfigMap at one moment.
type look struct {
	data    []byte
	missing error  // there is no document, and why
	object  string // resourceVersion of the ConfigMap, empty without one
}

// summary makes updates out of sightings. One goroutine uses it.
type summary struct {
	clock  clock.Clock
	places *source.Places
	// origins of the places, as updates name them.
	origins []string
	spots   []spot
	check   *source.Check
	told    bool
	last    source.Update
}

// spot is what is known of one place.
type spot struct {
	known   bool // a look or a failure to look
	look    *look
	trouble *trouble
	polling bool
	sure    time.Time // when it was last sure that look is the newest
}

func newSummary(o options, names []string) *summary {
	var places []source.Place
	var origins []string
	for i, name := range names {
		origin := fmt.Sprintf("ConfigMap %s/%s", o.namespace, name)
		places = append(places, source.Place{Origin: origin, PassTombstone: i < len(names)-1})
		origins = append(origins, origin)
	}
	return &summary{
		clock:   o.clock,
		places:  source.NewPlaces("the ConfigMaps of namespace "+o.namespace, places...),
		origins: origins,
		spots:   make([]spot, len(names)),
		check:   &source.Check{},
	}
}

func (s *summary) run(ctx context.Context, sightings <-chan sighting, sink func(source.Update)) {
	first := s.clock.NewTimer(firstLook)
	defer first.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case seen := <-sightings:
			s.take(seen)
		case <-first.C():
			s.giveUpWaiting()
		}
		if !s.ready() {
			continue
		}
		if u := s.update(); !s.told || !u.Same(s.last) {
			s.told, s.last = true, u
			sink(u)
		}
	}
}

// take notes a sighting. What a place had stays while it is in trouble.
func (s *summary) take(seen sighting) {
	spot := &s.spots[seen.place]
	spot.known, spot.trouble, spot.polling = true, seen.trouble, seen.polling
	if seen.look != nil {
		spot.look = seen.look
	}
	if spot.trouble == nil || spot.polling {
		spot.sure = s.clock.Now()
	}
	switch {
	case spot.trouble != nil && !spot.polling:
		s.places.Lost(seen.place, spot.trouble.fault, spot.trouble.err)
	case spot.look == nil:
	case spot.look.missing != nil:
		s.places.Lost(seen.place, source.FaultMissing, spot.look.missing)
	default:
		s.places.Found(seen.place, spot.look.data)
	}
}

// mark makes the check as old as the oldest knowledge of a place that counts: one
// behind the document in force does not, and may be forbidden.
func (s *summary) mark(inForce source.Update) {
	oldest := s.spots[0].sure
	for i, spot := range s.spots {
		if spot.sure.Before(oldest) {
			oldest = spot.sure
		}
		if doc := inForce.Document; doc != nil && !doc.Tombstone && inForce.Origin == s.origins[i] {
			break
		}
	}
	if !oldest.IsZero() {
		s.check.Mark(oldest)
	}
}

// giveUpWaiting says of the places that nothing is known of that they do not
// answer.
func (s *summary) giveUpWaiting() {
	for i := range s.spots {
		if !s.spots[i].known {
			s.spots[i].known = true
			s.places.Lost(i, source.FaultUnreachable, errNoAnswer)
		}
	}
}

var errNoAnswer = errors.New("the API server has not answered yet")

func (s *summary) ready() bool {
	for _, spot := range s.spots {
		if !spot.known {
			return false
		}
	}
	return true
}

func (s *summary) update() source.Update {
	u := s.places.Update()
	s.mark(u)
	u.Delivery, u.Check = source.DeliveryWatch, s.check
	for _, spot := range s.spots {
		if !spot.polling {
			continue
		}
		u.Delivery = source.DeliveryPoll
		if u.Err == nil {
			u.Reason, u.Detail = source.ReasonWatchUnavailable, "the ConfigMap is read again and again, since it cannot be watched: "+spot.trouble.err.Error()
		}
		break
	}
	return u
}
