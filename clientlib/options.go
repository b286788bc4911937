package clientlib

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/report"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// DefaultDir is where the documents are mounted unless the environment variable
// TIMEOUTS_DIR says otherwise.
const DefaultDir = "/etc/timeouts"

// Reporter tells the cluster about a client; *[report.Reporter] is the usual
// one. Update must neither block nor call back.
type Reporter interface {
	// Update replaces what is known of the client of that name.
	Update(name string, c report.Client)
}

// Option changes how a Client is made.
type Option func(*options)

type options struct {
	client        string // the name given to New
	source        source.Source
	reporter      Reporter
	log           *slog.Logger
	clock         clock.Clock
	observers     []engine.Observer
	tracer        engine.Tracer
	budget        deadline.Source
	fallback      *document.Document
	requirePolicy time.Duration
	cacheDir      string
	errs          []error
}

// WithSource says where documents come from; the default is [DefaultSource].
func WithSource(s source.Source) Option { return func(o *options) { o.source = s } }

// WithReporter says who tells the cluster; nil means nobody. A reporter that is
// given here is closed by whoever made it. The default is one of the client's
// own where the process runs in a pod whose name is known (see
// report.Options), else nobody.
func WithReporter(r Reporter) Option {
	return func(o *options) {
		o.reporter = r
		if r == nil {
			o.reporter = silent{}
		}
	}
}

// WithLogger says where changes of the policy are logged; the default is
// slog.Default.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// WithClock sets the clock of limits and waits. It is for tests; the default is
// the system's.
func WithClock(c clock.Clock) Option { return func(o *options) { o.clock = c } }

// WithObserver adds an observer of calls. One that is also a [PolicyObserver]
// is told about changes of the policy too.
func WithObserver(obs engine.Observer) Option {
	return func(o *options) { o.observers = append(o.observers, obs) }
}

// WithObserverFor is WithObserver for an observer that has to know the name of
// its client. An error makes New fail.
func WithObserverFor(build func(client string) (engine.Observer, error)) Option {
	return func(o *options) {
		obs, err := build(o.client)
		if err != nil {
			o.errs = append(o.errs, err)
			return
		}
		o.observers = append(o.observers, obs)
	}
}

// WithTracer sets who makes traces of calls; the default is nobody.
func WithTracer(t engine.Tracer) Option { return func(o *options) { o.tracer = t } }

// WithDeadlineSource limits every call of the client to what a source has left,
// such as the rest of a batch job's window (see deadline.Fixed). The ambient
// budget and the policy still hold, and the tightest wins; deadline.Detach and
// the policy's inbound: Ignore do not reach it, since it belongs to the client
// and not to a request being served. The default, nil, is no such limit.
func WithDeadlineSource(s deadline.Source) Option { return func(o *options) { o.budget = s } }

// WithFallback sets the document in force until the source has one. Without it
// nothing is limited and nothing is repeated until then.
func WithFallback(doc *document.Document) Option {
	return func(o *options) {
		if doc == nil {
			o.errs = append(o.errs, errors.New("WithFallback: the document is nil"))
			return
		}
		// A document made by a program has not passed document.Parse.
		if err := doc.Validate(); err != nil {
			o.errs = append(o.errs, fmt.Errorf("WithFallback: %w", err))
		}
		o.fallback = doc
	}
}

// WithRequirePolicy makes New wait up to d for a document that can be applied,
// and fail without one, for programs that must not run without their policy. A
// tombstone is a policy in this sense.
func WithRequirePolicy(d time.Duration) Option {
	return func(o *options) {
		if d <= 0 {
			o.errs = append(o.errs, fmt.Errorf("WithRequirePolicy: %s is no time to wait", d))
		}
		o.requirePolicy = d
	}
}

// WithCache keeps the last good document in a directory, for programs that start
// while no source has one, such as in pods that restart while the API server is
// down. It is used until a source has a document, in state Stale with
// source.ReasonCached; a tombstone is kept like any other document. For
// [WithRequirePolicy] it is a policy.
//
// The first document of a process is kept once it has been in force for ten
// seconds, or when the client is closed, and later ones at once. Where an adapter
// is used before, and has to refuse it (onUnsupported: Reject), the kept one is in
// force instead, with the reason Unsupported.
//
// The directory is made (mode 0700) where it is not there. It has to belong to
// this program alone, and to outlive the pod or at least the container (an
// emptyDir does the latter). Clients of several names may share it. A file is
// replaced at once (mode 0600) and verified when it is read; one that is damaged,
// or of another client or namespace, is not used. A directory that cannot be made
// or written changes nothing for the client: it is logged once, with what would
// mend it, and shown in Status.Warnings for as long as it lasts.
func WithCache(dir string) Option {
	return func(o *options) {
		if dir == "" {
			o.errs = append(o.errs, errors.New("WithCache: the directory is empty: name one, or leave the option out"))
		}
		o.cacheDir = dir
	}
}

// DefaultSource is where documents come from unless WithSource says otherwise:
// source.Dir($TIMEOUTS_DIR), or of [DefaultDir] where that is not set.
func DefaultSource() source.Source {
	dir := os.Getenv("TIMEOUTS_DIR")
	if dir == "" {
		dir = DefaultDir
	}
	return source.Dir(dir)
}

func (o *options) applyDefaults() {
	if o.source == nil {
		o.source = DefaultSource()
	}
	if o.log == nil {
		o.log = slog.Default()
	}
	if o.clock == nil {
		o.clock = clock.System()
	}
}

// silent is the reporter of those who want none.
type silent struct{}

func (silent) Update(string, report.Client) {}
