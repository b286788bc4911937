package operator

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
)

// afterSync is started by a manager, leader or not, once its caches are synced.
type afterSync struct{ guard *watchdog }

func (a *afterSync) NeedLeaderElection() bool { return false }

func (a *afterSync) Start(ctx context.Context) error {
	a.guard.synced.Store(true)
	a.guard.look()
	<-ctx.Done()
	return nil
}

// watchdog looks after a running manager: it keeps the readiness true to the
// facts and stops the manager when it cannot go on.
type watchdog struct {
	gate               *gate
	state              *readiness
	stop               context.CancelCauseFunc
	interval, patience time.Duration

	// trouble asks for a look before the interval is over.
	trouble chan struct{}
	// forbidden says that a watch was refused, so that the rights are asked for
	// too: that takes requests that are no reads, so it is not done idly.
	forbidden atomic.Bool
	// synced says that the caches have been read.
	synced atomic.Bool
}

// watchFailed is the watch error handler of all informers. They try again by
// themselves, for ever and with back-off; what it means is found out here.
func (w *watchdog) watchFailed(_ context.Context, _ *toolscache.Reflector, err error) {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		w.forbidden.Store(true)
	}
	w.look()
}

func (w *watchdog) look() {
	select {
	case w.trouble <- struct{}{}:
	default:
	}
}

// run looks at once, then at intervals, and whenever there is trouble.
func (w *watchdog) run(ctx context.Context) {
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	away := time.Duration(0)
	for {
		why := w.check(ctx)
		if ctx.Err() != nil {
			return
		}
		if why == nil || why.Reason != ReasonUnreachable {
			away = 0
		}
		switch {
		case why == nil && w.synced.Load():
			w.state.ready()
		case why == nil:
			w.state.notReady(&NotReadyError{ReasonStarting, "the caches are being read"})
		case why.Reason == ReasonUnreachable && away < w.patience:
			w.state.notReady(why)
		default:
			w.stop(why)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-w.trouble:
		case <-ticker.C:
			away += w.interval
		}
	}
}

func (w *watchdog) check(ctx context.Context) *NotReadyError {
	if w.forbidden.Swap(false) {
		return w.gate.check(ctx)
	}
	return w.gate.checkKinds(ctx)
}
