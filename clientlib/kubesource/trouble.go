package kubesource

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// errStalled ends a watch that delivered less than there was.
var errStalled = errors.New("the watch has stalled: a plain read found what it did not deliver")

// errShort ends a watch that the server, or something in between, does not keep
// open.
var errShort = errors.New("the watch ends as soon as it begins")

// errBroken ends a watch whose connection was lost.
var errBroken = errors.New("the connection of the watch broke off")

// errNoVersion is an answer after which a watch could go back in time.
var errNoVersion = errors.New("the answer has no resourceVersion: it does not come from an API server")

// clientDecoding is how client-go marks an error of its own in a watch.
const clientDecoding = "ClientWatchDecoding"

// streamError is the error that a watch delivers: one of the server, or a
// stream that cannot be read on.
func streamError(o runtime.Object) error {
	err := apierrors.FromObject(o)
	if apierrors.HasStatusCause(err, clientDecoding) {
		return errBroken
	}
	return err
}

// trouble is why a place cannot be looked at or watched.
type trouble struct {
	fault source.Fault
	// class stays the same while attempts fail in the same way; err is that of
	// the first of them, so that what varies is not told again.
	class string
	err   error
}

// unauthorized is the class of a token that is not taken.
const unauthorized = "401"

// newTrouble classes an error of a request. What it says of a server's words is
// bounded: they go into logs and reports.
func newTrouble(err error) *trouble {
	t := classify(err)
	if len(t.err.Error()) > maxWords {
		t.err = abridged{t.err}
	}
	return t
}

// maxWords is more than an API server has to say, in bytes.
const maxWords = 1 << 10

// abridged is an error whose text is cut.
type abridged struct{ error }

func (e abridged) Error() string {
	return strings.ToValidUTF8(e.error.Error()[:maxWords], "") + "…"
}

func (e abridged) Unwrap() error { return e.error }

func classify(err error) *trouble {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		return &trouble{source.FaultForbidden, unauthorized, fmt.Errorf("the API server does not take the token of this pod: %w", err)}
	case apierrors.IsForbidden(err):
		return &trouble{source.FaultForbidden, "403", fmt.Errorf("%w: allow the service account to list and watch this ConfigMap", err)}
	case errors.As(err, &status):
		return &trouble{source.FaultUnreachable, strconv.Itoa(int(status.Status().Code)), err}
	default:
		return &trouble{source.FaultUnreachable, "connection", bare(err)}
	}
}

// bare takes the URL off an error: it is long and names a resource version.
func bare(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errSlow
	}
	return err
}

var errSlow = fmt.Errorf("the API server did not answer within %s", requestTimeout)

func (t *trouble) denied() bool { return t.fault == source.FaultForbidden }

// isGone reports whether the server has forgotten what was at a resource
// version.
func isGone(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// isSpent reports whether an error ends its session: nothing may come over its
// connections any more, or the token has to be read anew. A server that answers
// with another status is better off without new handshakes.
func isSpent(err error) bool {
	var status apierrors.APIStatus
	return err != nil && (!errors.As(err, &status) || apierrors.IsUnauthorized(err))
}

// retryAfter is how long the server asks to wait, 0 if it does not.
func retryAfter(err error) time.Duration {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		return time.Duration(seconds) * time.Second
	}
	return 0
}
