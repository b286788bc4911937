package kubesource

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// configMap is the name of the ConfigMap for the clients that no policy names;
// that of a client has its name after a hyphen.
const configMap = "timeouts"

// firstLook bounds the wait for the first answers: then the source says that it
// has none yet.
const firstLook = 5 * time.Second

// New returns the source of a client's ConfigMaps, by the name that policies use
// in spec.clients: timeouts-<client>, then timeouts, with the same rules as
// source.Dir. Each is listed, then watched, both by its name.
//
// A watch goes on where the last one ended, and starts over with a list when
// the server has forgotten what was then (410). Beside it, a plain read on a
// connection of its own, every few minutes, finds a watch that has stalled in
// silence; Update.Check says since when nothing was heard.
//
// While the API server cannot be reached, or refuses (401, 403), the last good
// documents stay, and after five to fifteen seconds the update says why, once. The
// attempts go on. The library client-go is kept from logging.
//
// Run fails at once where the API server or the namespace is not known, or an
// option is wrong.
func New(client string, opts ...Option) source.Source {
	o := options{
		check:            DefaultCheck,
		maxBackoff:       DefaultMaxBackoff,
		maxDeniedBackoff: DefaultMaxDeniedBackoff,
		grace:            defaultGrace,
		clock:            clock.System(),
	}
	for _, opt := range opts {
		opt(&o)
	}
	if client == "" {
		o.errs = append(o.errs, errors.New("the name of the client is empty: write the one that policies use in spec.clients"))
	}
	return &watched{client, o}
}

type watched struct {
	client  string
	options options
}

// Run implements [source.Source].
func (w *watched) Run(ctx context.Context, sink func(source.Update)) error {
	o, err := w.options.complete()
	if err != nil {
		return fmt.Errorf("kubesource: %w", err)
	}
	sessions := &sessions{config: o.config}
	if err := sessions.try(); err != nil {
		return fmt.Errorf("kubesource: use the configuration of the API server: %w", err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, silent))
	sightings := make(chan sighting)
	var following sync.WaitGroup
	defer sessions.close()
	defer following.Wait()
	defer cancel()
	names := []string{configMap + "-" + w.client, configMap}
	rota := newRota(len(names))
	for i, name := range names {
		f := &follower{
			place: i, name: name, options: o, sessions: sessions, rota: rota,
			pace: pace{max: o.maxBackoff, maxDenied: o.maxDeniedBackoff},
		}
		f.emit = func(s sighting) {
			s.place = f.place
			select {
			case sightings <- s:
			case <-ctx.Done():
			}
		}
		following.Go(func() { f.follow(ctx) })
	}
	newSummary(o, names).run(ctx, sightings, sink)
	return nil
}
