package source

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
)

// Prefer returns a source of several sources in order of preference, such as
// the API server and, while that cannot be had, the mounted ConfigMap:
//
//	source.Prefer(kubesource.New("checkout"), source.Dir("/etc/timeouts"))
//
// All of them run. The first that has a document and is well has the say. One
// that is lost (gone, unreachable, unreadable, refused or set up wrongly) hands
// over to the next that is well, and takes over again when it is back. A source
// that is there and says that its newest document cannot be used is not lost.
//
// Handing over never replaces a document by an older one. The generations of the
// policies that both were made from tell which is newer. Where they do not: what
// the next source had already when the lost one was last sure of its own is
// older, and stays out of force until it changes; a change less than three
// minutes after the one in force came, or was replaced, may be a mount that lags
// behind, and has to stand for three minutes. The same revision in both hands
// over without a change. Until then, and when no source is well, the document in
// force stays, and the update says why. A preferred mount that is back with what
// the generations say is older has the say again when that changes, or after
// three minutes.
//
// An update tells the delivery that is at work, and a source that stands in
// with the reason of the one it stands in for as a warning. Run fails when every
// source does.
func Prefer(sources ...Source) Source { return &preference{sources, clock.System()} }

type preference struct {
	sources []Source
	clock   clock.Clock
}

// saying is what a source said, or the error it ended with.
type saying struct {
	source int
	update Update
	err    error
}

// Run implements [Source].
func (p *preference) Run(ctx context.Context, sink func(Update)) error {
	if len(p.sources) == 0 {
		return errors.New("source.Prefer was given no source: name at least one")
	}
	for i, s := range p.sources {
		if s == nil {
			return fmt.Errorf("source.Prefer: source %d is nil", i+1)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	sayings := make(chan saying)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for i, s := range p.sources {
		running.Go(func() { listen(ctx, i, s, sayings) })
	}
	return p.choose(ctx, sayings, sink)
}

// listen passes on what a source says until ctx ends.
func listen(ctx context.Context, i int, s Source, sayings chan<- saying) {
	say := func(what saying) {
		select {
		case sayings <- what:
		case <-ctx.Done():
		}
	}
	err := s.Run(ctx, func(u Update) { say(saying{source: i, update: u}) })
	if err == nil {
		err = errors.New("the source ended by itself")
	}
	say(saying{source: i, err: err})
}

func (p *preference) choose(ctx context.Context, sayings <-chan saying, sink func(Update)) error {
	c := newChoice(len(p.sources))
	var last *Update
	for {
		u, wait, ok := c.decide(p.clock.Now())
		if ok && (last == nil || !u.Same(*last)) {
			last = &u
			sink(u)
		}
		again := p.clock.NewTimer(max(wait, 0))
		due := again.C()
		if wait <= 0 {
			due = nil
		}
		select {
		case <-ctx.Done():
			again.Stop()
			return nil
		case said := <-sayings:
			c.hear(said, p.clock.Now())
		case <-due:
		}
		again.Stop()
		if err := c.failure(); err != nil {
			return err
		}
	}
}
