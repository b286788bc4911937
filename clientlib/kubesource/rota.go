package kubesource

import (
	"sync"
	"time"
)

// rota lets the places of a source take turns while all of them are refused, so
// that rights that are given are noticed in half of the time with the same number
// of requests: they are mostly given for all places at once.
type rota struct {
	mu    sync.Mutex
	next  map[int]time.Time // when a place that is refused asks again
	wakes map[int]chan struct{}
}

func newRota(places int) *rota {
	r := &rota{next: map[int]time.Time{}, wakes: map[int]chan struct{}{}}
	for place := range places {
		r.wakes[place] = make(chan struct{}, 1)
	}
	return r
}

// refused notes that a place was refused and would ask again after a wait. It
// returns the wait that puts that between two attempts of the others, at most
// limit.
func (r *rota) refused(place int, now time.Time, wait, limit time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sleep(place)
	for other, at := range r.next {
		if ahead := at.Sub(now); other != place && ahead > 0 && ahead <= wait {
			wait = min(ahead+wait/2, limit)
			break
		}
	}
	r.next[place] = now.Add(wait)
	return wait
}

// allowed notes that a place is not refused, and wakes the others if it was.
func (r *rota) allowed(place int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sleep(place)
	if _, was := r.next[place]; !was {
		return
	}
	delete(r.next, place)
	for other := range r.next {
		select {
		case r.wakes[other] <- struct{}{}:
		default:
		}
	}
}

// sleep drops a wake that came too late: it would end another rest.
func (r *rota) sleep(place int) {
	select {
	case <-r.wakes[place]:
	default:
	}
}

// wake has something when another place was refused and is not any more.
func (r *rota) wake(place int) <-chan struct{} { return r.wakes[place] }
