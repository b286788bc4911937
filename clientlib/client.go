package clientlib

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/internal/cache"
	"github.com/timeout-operator/timeout-operator/clientlib/report"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// Client holds the policy of one named client of this process and keeps it up
// to date. It is safe for concurrent use. Its calls go on after Close, under
// the policy that was in force then.
type Client struct {
	name      string
	engine    *engine.Engine
	log       *slog.Logger
	clock     clock.Clock
	reporter  Reporter
	observers []PolicyObserver
	fallback  *document.Document
	cache     *cache.Cache // nil without one
	stop      func() error
	check     atomic.Pointer[source.Check] // of update; read without the lock

	mu         sync.Mutex
	adapters   []capability.Record
	update     source.Update // what the source said last
	heard      bool          // it said something
	delivery   source.Delivery
	applied    *document.Document // in force, nil for none
	origin     string             // of applied
	appliedAt  time.Time
	rejected   *Rejection
	assessment capability.Assessment
	state      State
	reason     source.Reason
	message    string
	since      time.Time
	closed     bool
	warnings   []string
	cacheFault []string // those of the warnings that are about the cache
}

// New makes the client of a name. It returns once the source was looked at for
// the first time, so that a policy that is there is in force; without one it
// returns too, in state Fallback, unless [WithRequirePolicy] is given. ctx
// bounds that wait only. An error names what was set up wrongly.
//
// The name is the one that policies use in spec.clients.
func New(ctx context.Context, name string, opts ...Option) (*Client, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	o := options{client: name}
	for _, opt := range opts {
		opt(&o)
	}
	if err := errors.Join(o.errs...); err != nil {
		return nil, fmt.Errorf("client %s: %w", name, err)
	}
	o.applyDefaults()
	c := &Client{
		name:     name,
		engine:   engine.New(engine.Options{Clock: o.clock, Observers: o.observers, Tracer: o.tracer, Budget: o.budget}),
		log:      o.log.With("client", name),
		clock:    o.clock,
		fallback: o.fallback,
		state:    StateFallback,
		since:    o.clock.Now(),
	}
	for _, obs := range o.observers {
		if p, ok := obs.(PolicyObserver); ok {
			c.observers = append(c.observers, p)
		}
	}
	if c.fallback != nil {
		c.engine.Swap(c.fallback)
	}
	if err := c.start(ctx, &o); err != nil {
		return nil, fmt.Errorf("client %s: %w", name, err)
	}
	return c, nil
}

func checkName(name string) error {
	doc := document.Document{Schema: document.Schema, Client: name}
	if err := doc.Validate(); err != nil || name == "" {
		return fmt.Errorf("client name %q: write the name that policies use in spec.clients, 1 to 253 characters", name)
	}
	return nil
}

// start runs the source and waits for its first word, and for a policy where
// one is required.
func (c *Client) start(ctx context.Context, o *options) error {
	reporter, closeReporter := c.chooseReporter(o)
	c.reporter = reporter
	running, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	looked := make(chan struct{}, 1)
	from := c.withCache(o)
	go func() {
		err := from.Run(running, func(u source.Update) {
			c.receive(u)
			select {
			case looked <- struct{}{}:
			default:
			}
		})
		if running.Err() == nil {
			c.abandoned(err)
		}
		ended <- err
	}()
	c.stop = sync.OnceValue(func() error {
		cancel()
		err := <-ended
		closeReporter()
		return err
	})
	if err := c.await(ctx, o.requirePolicy, looked, ended); err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

func (c *Client) await(ctx context.Context, required time.Duration, looked <-chan struct{}, ended chan error) error {
	var late <-chan time.Time
	if required > 0 {
		timer := c.clock.NewTimer(required)
		defer timer.Stop()
		late = timer.C()
	}
	for {
		select {
		case <-looked:
			if required == 0 || c.Status().State != StateFallback {
				return nil
			}
		case err := <-ended:
			ended <- nil
			if err == nil {
				err = errEnded
			}
			return err
		case <-late:
			s := c.Status()
			return fmt.Errorf("no policy could be applied within %s: %s: %s", required, s.Reason, s.Message)
		case <-ctx.Done():
			return fmt.Errorf("wait for the first look at the source: %w", context.Cause(ctx))
		}
	}
}

// Close stops every goroutine that New started and takes the client out of the
// pod's report. It may be called more than once. The policy in force stays in
// force for calls that are still made.
func (c *Client) Close() error {
	err := c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return err
}

// Name returns the name of the client.
func (c *Client) Name() string { return c.name }

// Engine returns the engine that enforces the policy in force, for adapters.
func (c *Client) Engine() *engine.Engine { return c.engine }

// UseAdapter says that calls are made through an adapter, whose record then
// counts in reports and where a policy refuses clients that cannot honour it.
// Adapters call it; doing so twice is the same as once.
func (c *Client) UseAdapter(r capability.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.adapters {
		if c.adapters[i].Adapter == r.Adapter {
			return
		}
	}
	c.adapters = append(c.adapters, r)
	c.settle()
}

// withCache returns the source, with its documents kept on disk where that is
// asked for.
func (c *Client) withCache(o *options) source.Source {
	if o.cacheDir == "" {
		return o.source
	}
	c.cache = cache.New(cache.Options{
		Source: o.source, Dir: o.cacheDir, Client: c.name, Namespace: os.Getenv(report.EnvPodNamespace),
		InForce: c.lives, Clock: c.clock, Note: c.noteCache,
	})
	return c.cache
}

// lives reports whether calls obey a document.
func (c *Client) lives(doc *document.Document) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.applied != nil && c.applied.Revision == doc.Revision
}

// noteCache tells that the cache has trouble, or, with nil, has none any more.
func (c *Client) noteCache(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.log.Info("the policy is kept on disk again")
		c.warnings = slices.DeleteFunc(c.warnings, func(text string) bool { return slices.Contains(c.cacheFault, text) })
		c.cacheFault = nil
		return
	}
	if slices.Contains(c.warnings, err.Error()) {
		return
	}
	c.log.Warn("the last good policy on disk cannot be had; calls are not affected", "error", err)
	if c.warn(err.Error()) {
		c.cacheFault = append(c.cacheFault, err.Error())
	}
}

// maxWarnings bounds Status.Warnings; adapters have a handful of texts each.
const maxWarnings = 16

// Warn says that something in the program works against its policy, for
// adapters that find out. Each text is logged once and shown in the status.
func (c *Client) Warn(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.warn(text) {
		c.log.Warn("the program works against its timeout policy", "what", text)
	}
}

// warn adds a warning unless it is there, or there are too many. It is called
// with the lock.
func (c *Client) warn(text string) bool {
	if len(c.warnings) == maxWarnings || slices.Contains(c.warnings, text) {
		return false
	}
	c.warnings = append(c.warnings, text)
	return true
}

var errEnded = errors.New("the source ended by itself")

// abandoned notes that a source ended that had to go on: no change comes any more.
// Where it never said anything, New fails.
func (c *Client) abandoned(err error) {
	if err == nil {
		err = errEnded
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.heard {
		return
	}
	c.update.Err, c.update.Reason, c.update.Detail = fmt.Errorf("no change comes any more: %w", err), source.ReasonSetUp, ""
	c.settle()
}

// receive takes what the source found.
func (c *Client) receive(u source.Update) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.update, c.heard = u, true
	c.check.Store(u.Check)
	c.settle()
}
