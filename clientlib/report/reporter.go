package report

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Reporter is one user of the pod's report. All Reporters of a process that
// report for the same pod share one writer, since there is one object per pod:
// what their clients say is merged. The writer has the options of the first of
// them.
//
// The methods are safe for concurrent use and never block on the network; on a
// nil Reporter they do nothing.
type Reporter struct {
	writer *writer
}

// New returns a Reporter. The error wraps [ErrOff] when this process is not in
// a pod that could report; another error is an option that cannot be used.
func New(o Options) (*Reporter, error) {
	if o.Library == (Library{}) {
		o.Library = Library{Name: "clientlib", Version: Version}
	}
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	return writers.join(o), nil
}

// Update says what is true of a client now. It replaces what was said before
// under the same name. When and whether it is written is the writer's business.
func (r *Reporter) Update(name string, c Client) {
	if r == nil {
		return
	}
	c.Name = name
	r.writer.set(r, c)
}

// Err returns why the last attempt to write failed; nil when it did not, when
// there was none yet, or when the API server has what is true by now all the same.
func (r *Reporter) Err() error {
	if r == nil {
		return nil
	}
	return r.writer.failure()
}

// Close takes the Reporter's clients out of the report. The last one of a pod
// ends the writer: what was not written by then is not written any more, and
// when Close returns its goroutine and connection are gone. Close may be
// called more than once.
func (r *Reporter) Close() {
	if r != nil {
		writers.leave(r)
	}
}

// writers are the writers of this process.
var writers = registry{byPod: map[podKey]*writer{}}

type podKey struct {
	server    string
	pod       Pod
	container string
}

type registry struct {
	mu    sync.Mutex
	byPod map[podKey]*writer
}

func (g *registry) join(o Options) *Reporter {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := podKey{o.Server, o.Pod, o.Container}
	w := g.byPod[key]
	if w == nil {
		w = newWriter(o, key)
		g.byPod[key] = w
		ctx, cancel := context.WithCancel(context.Background())
		w.stop = cancel
		go w.run(ctx)
	}
	r := &Reporter{writer: w}
	w.enter(r)
	return r
}

func (g *registry) leave(r *Reporter) {
	g.mu.Lock()
	left, known := r.writer.drop(r)
	last := known && left == 0
	if last {
		delete(g.byPod, r.writer.key)
	}
	g.mu.Unlock()
	if last {
		r.writer.stop()
		<-r.writer.done
	}
}

// merged returns what all Reporters say, sorted by name. Two that say something
// about one client are one client in the worse of the two states, with the
// adapters and upstreams of both.
func merged(said map[*Reporter]map[string]Client) []Client {
	byName := map[string]Client{}
	for _, clients := range said {
		for name, c := range clients {
			if other, twice := byName[name]; twice {
				c = mergeClient(other, c)
			}
			byName[name] = c
		}
	}
	out := make([]Client, 0, len(byName))
	for _, c := range byName {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Client) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func mergeClient(a, b Client) Client {
	if cmp.Or(cmp.Compare(stateRank(a.State), stateRank(b.State)), cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Message, b.Message)) > 0 {
		a, b = b, a
	}
	a.Adapters = union(a.Adapters, b.Adapters, func(x Adapter) string { return x.Name })
	a.Upstreams = union(a.Upstreams, b.Upstreams, func(x Upstream) string { return x.Name + "/" + x.Adapter })
	return a
}

// union returns the items of a, and those of b whose key a does not have.
func union[E any](a, b []E, key func(E) string) []E {
	out := slices.Clone(a)
	for _, item := range b {
		if !slices.ContainsFunc(a, func(x E) bool { return key(x) == key(item) }) {
			out = append(out, item)
		}
	}
	return out
}
