package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// watchTimeout is how long something is waited for that should take moments.
const watchTimeout = 60 * time.Second

// object is what the demo reads of a TimeoutPolicy or a ConfigMap.
type object struct {
	Metadata struct {
		Name       string `json:"name"`
		UID        string `json:"uid"`
		Generation int64  `json:"generation"`
	} `json:"metadata"`
	Data map[string]string `json:"data"`
}

// document is what the demo reads of the document in a ConfigMap.
type document struct {
	Revision string `json:"revision"`
	Policies []struct {
		Name       string `json:"name"`
		Generation int64  `json:"generation"`
	} `json:"policies"`
	Upstreams []struct {
		Name     string `json:"name"`
		Timeouts struct {
			Total   string `json:"total"`
			Attempt string `json:"attempt"`
		} `json:"timeouts"`
	} `json:"upstreams"`
}

// document returns an empty one where the object holds none that can be read.
func (o object) document() document {
	var d document
	if json.Unmarshal([]byte(o.Data["policy.json"]), &d) != nil {
		return document{}
	}
	return d
}

// generation of the one policy of the demo that the document was made from; 0
// for none.
func (d document) generation() int64 {
	if len(d.Policies) == 0 {
		return 0
	}
	return d.Policies[0].Generation
}

// event is a change of an object, with the time at which it was seen.
type event struct {
	Type   string `json:"type"` // ADDED, MODIFIED or DELETED
	Object object `json:"object"`
	at     time.Time
}

// watch collects the changes of the objects of one kind, by "kubectl get
// --watch" in the background. It is safe for concurrent use.
type watch struct {
	mu      sync.Mutex
	events  []event
	changed chan struct{} // closed and replaced when there are more
}

// startWatch watches a kind in a namespace.
func (d *demo) startWatch(ctx context.Context, kind string) (*watch, error) {
	w := &watch{changed: make(chan struct{})}
	reader, writer := io.Pipe()
	cmd := d.kubectl.command(context.WithoutCancel(ctx), "get", kind, "--namespace", "shop", "--watch", "--output-watch-events", "-o", "json")
	cmd.Stdout = writer
	p, err := d.children.start("kubectl-watch-"+kind, cmd)
	if err != nil {
		return nil, err
	}
	go func() {
		<-p.done
		_ = writer.Close()
	}()
	go w.read(reader)
	return w, nil
}

func (w *watch) read(stream io.ReadCloser) {
	defer stream.Close()
	for decoder := json.NewDecoder(stream); ; {
		var e event
		if decoder.Decode(&e) != nil {
			return // the child has ended, which is told elsewhere
		}
		e.at = time.Now()
		w.mu.Lock()
		w.events = append(w.events, e)
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
	}
}

// mark returns where the next event will be.
func (w *watch) mark() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.events)
}

// await returns the first wanted event from a mark on, and the mark behind it.
func (w *watch) await(ctx context.Context, from int, what string, want func(event) bool) (event, int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, watchTimeout, fmt.Errorf("did not see within %s: %s", watchTimeout, what))
	defer cancel()
	for {
		w.mu.Lock()
		seen, changed := w.events[from:], w.changed
		w.mu.Unlock()
		for i, e := range seen {
			if want(e) {
				return e, from + i + 1, nil
			}
		}
		from += len(seen)
		select {
		case <-changed:
		case <-ctx.Done():
			return event{}, from, context.Cause(ctx)
		}
	}
}

// errNotYet is the answer of a question that is asked again.
var errNotYet = errors.New("not yet")

// poll asks every few milliseconds until there is no error.
func poll(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("did not see within %s: %s (%w)", watchTimeout, what, err)
		}
	}
}
