package report

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
)

// writer writes the report of one pod, in a goroutine of its own.
type writer struct {
	key     podKey
	pod     Pod
	library Library
	clock   clock.Clock
	random  func() float64
	log     *slog.Logger
	sender  *sender

	stop context.CancelFunc
	done chan struct{}
	wake chan struct{} // holds one token when said has changed

	mu   sync.Mutex
	said map[*Reporter]map[string]Client
	err  error

	// The rest belongs to the goroutine.
	pace    pace
	written []byte   // the report as the API server has it, nil when that is unknown
	sent    []Client // what the newest attempt said
	logged  string   // class of the failure that was logged last
}

func newWriter(o Options, key podKey) *writer {
	return &writer{
		key:     key,
		pod:     o.Pod,
		library: o.Library,
		clock:   o.Clock,
		random:  o.Rand,
		log:     o.Logger,
		sender:  newSender(o),
		done:    make(chan struct{}),
		wake:    make(chan struct{}, 1),
		said:    map[*Reporter]map[string]Client{},
		pace: pace{
			firstDelay:  o.FirstDelay,
			minInterval: o.MinInterval,
			spread:      o.Spread,
			maxBackoff:  o.MaxBackoff,
		},
	}
}

func (w *writer) enter(r *Reporter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said[r] = map[string]Client{}
}

// set notes what a Reporter says; one that has left says nothing.
func (w *writer) set(r *Reporter, c Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	clients, in := w.said[r]
	if !in {
		return
	}
	clients[c.Name] = c
	w.changed()
}

// drop takes a Reporter out. It returns how many are left, and whether this one
// was in.
func (w *writer) drop(r *Reporter) (left int, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known = w.said[r]
	delete(w.said, r)
	w.changed()
	return len(w.said), known
}

func (w *writer) changed() {
	select {
	case w.wake <- struct{}{}:
	default: // it will see this change too
	}
}

func (w *writer) clients() []Client {
	w.mu.Lock()
	defer w.mu.Unlock()
	return merged(w.said)
}

func (w *writer) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// run writes until ctx ends.
func (w *writer) run(ctx context.Context) {
	defer close(w.done)
	for w.await(ctx) {
		w.write(ctx)
	}
}

// await plans a write for each change of content and waits until one is due. It
// returns false when ctx is over.
func (w *writer) await(ctx context.Context) bool {
	for {
		w.plan()
		due, stop := w.timer()
		select {
		case <-ctx.Done():
			stop()
			return false
		case <-due:
			return true
		case <-w.wake:
			stop()
		}
	}
}

// timer fires when the planned write is due, never if none is planned.
func (w *writer) timer() (due <-chan time.Time, stop func()) {
	if w.pace.due.IsZero() {
		return nil, func() {}
	}
	t := w.clock.NewTimer(w.pace.due.Sub(w.clock.Now()))
	return t.C(), func() { t.Stop() }
}

// plan compares what is said with what the API server has.
func (w *writer) plan() {
	clients := w.clients()
	switch {
	case len(clients) == 0 && w.written == nil:
		// Nobody has said anything yet.
	case bytes.Equal(w.render(clients), w.written):
		w.settled()
	default:
		w.pace.plan(w.clock.Now(), isWide(w.sent, clients), w.random())
	}
}

func (w *writer) render(clients []Client) []byte { return render(w.pod, w.library, clients) }

// write makes one attempt with what is true now.
func (w *writer) write(ctx context.Context) {
	clients := w.clients()
	body := w.render(clients)
	if bytes.Equal(body, w.written) {
		w.settled()
		return
	}
	w.sent = clients
	err := w.sender.send(ctx, body)
	now := w.clock.Now()
	switch {
	case err == nil:
		w.written = body
		w.pace.wrote(now)
		w.note("", nil)
	case ctx.Err() != nil:
		// The process is done with it.
	default:
		if err.doubtful {
			w.written = nil
		}
		w.pace.failed(now, err.retryAfter, w.random())
		w.note(err.class, err)
	}
}

// settled notes that the API server has what is true now, whatever failed before.
func (w *writer) settled() {
	w.pace.cancel()
	w.note("", nil)
}

// note remembers the outcome and logs it if it is another one than before.
func (w *writer) note(class string, err error) {
	w.fail(err)
	if class == w.logged {
		return
	}
	w.logged = class
	if err != nil {
		w.log.Warn("the report of this pod cannot be written; calls are not affected",
			"pod", w.pod.Name, "namespace", w.pod.Namespace, "error", err, "nextAttempt", w.pace.due.Sub(w.clock.Now()).Round(time.Second))
		return
	}
	w.log.Info("the report of this pod is written again", "pod", w.pod.Name, "namespace", w.pod.Namespace)
}
