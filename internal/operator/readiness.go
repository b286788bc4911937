package operator

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
)

// Reason says why the operator is not ready. It is part of the answer of
// /readyz and of the log line.
type Reason string

// The reasons.
const (
	// ReasonStarting: the checks or the first read of the caches are under way.
	ReasonStarting Reason = "Starting"
	// ReasonNoConfiguration: neither a kubeconfig nor a service account is there.
	ReasonNoConfiguration Reason = "NoConfiguration"
	// ReasonUnreachable: the API server does not answer, or answers with an
	// error of its own.
	ReasonUnreachable Reason = "APIServerUnreachable"
	// ReasonUnauthorized: the API server does not accept the credentials.
	ReasonUnauthorized Reason = "Unauthorized"
	// ReasonCRDMissing: a CustomResourceDefinition is not installed, does not
	// serve the version, or is being deleted.
	ReasonCRDMissing Reason = "CRDMissing"
	// ReasonForbidden: a right of the manager's ClusterRole is missing.
	ReasonForbidden Reason = "Forbidden"
	// ReasonStopped: the process ends.
	ReasonStopped Reason = "Stopped"
)

// NotReadyError is a state in which the operator cannot work. It says what is
// missing and what mends it.
type NotReadyError struct {
	Reason  Reason
	Message string
}

// Error returns the reason and the message in one line.
func (e *NotReadyError) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Message) }

// readiness is what /readyz answers. It is independent of leadership: a standby
// is ready. Each change is logged once, however often it is confirmed.
type readiness struct {
	log *slog.Logger

	mu      sync.Mutex
	current *NotReadyError
}

func newReadiness(log *slog.Logger) *readiness {
	return &readiness{log: log, current: &NotReadyError{ReasonStarting, "the operator is starting"}}
}

// ready records that the operator works.
func (r *readiness) ready() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil {
		r.log.Info("ready")
	}
	r.current = nil
}

// notReady records why the operator does not work.
func (r *readiness) notReady(why *NotReadyError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil || !sameState(r.current, why) {
		level := slog.LevelWarn
		if why.Reason == ReasonStarting || why.Reason == ReasonStopped {
			level = slog.LevelInfo
		}
		r.log.Log(context.Background(), level, "not ready", "reason", why.Reason, "message", why.Message)
	}
	r.current = why
}

// sameState leaves the text of network errors out of account: it differs from
// try to try though nothing has changed.
func sameState(a, b *NotReadyError) bool {
	return a.Reason == b.Reason && (a.Reason == ReasonUnreachable || a.Message == b.Message)
}

// state returns nil when the operator is ready.
func (r *readiness) state() *NotReadyError {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// ServeHTTP answers 200, or 503 with the reason.
func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if why := r.state(); why != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, why.Error()+"\n")
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}
