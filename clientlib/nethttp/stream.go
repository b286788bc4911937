package nethttp

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// isStream reports whether a response is a stream, whose total ends at the
// headers unless the policy says otherwise: an upgrade that was asked for, and
// server-sent events.
func isStream(req *http.Request, resp *http.Response) bool {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return req.Header.Get("Upgrade") != ""
	}
	var contentType string
	if values := resp.Header["Content-Type"]; len(values) > 0 {
		contentType = values[0]
	}
	return isEventStream(contentType)
}

const eventStream = "text/event-stream"

// isEventStream reports whether a Content-Type is that of server-sent events,
// parameters aside.
func isEventStream(contentType string) bool {
	if len(contentType) < len(eventStream) || contentType[len("text/")]|' ' == 'p' {
		return false // text/plain too, at a glance
	}
	if c := contentType[0]; c == ' ' || c == '\t' {
		contentType = strings.TrimSpace(contentType)
	}
	n := len(eventStream)
	if len(contentType) < n || !strings.EqualFold(contentType[:n], eventStream) {
		return false
	}
	parameters := strings.TrimLeft(contentType[n:], " \t")
	return parameters == "" || parameters[0] == ';'
}

// isUpgrade reports whether the connection of a 101 now belongs to the caller.
func isUpgrade(resp *http.Response) bool {
	_, writable := resp.Body.(io.ReadWriteCloser)
	return writable
}

// deliverUpgrade hands an upgraded connection over. Without a limit of its own
// it is the library's body, untouched; with one it stays a ReadWriteCloser.
func (a *attempt) deliverUpgrade(resp *http.Response) {
	if !a.Watched() {
		a.endNow(engine.Outcome{OK: true})
		return
	}
	conn := resp.Body.(io.ReadWriteCloser)
	// net/http lets go of the context of an upgraded connection, so a limit
	// that fires has to close it.
	context.AfterFunc(&a.Scope, func() { _ = conn.Close() })
	resp.Body = &upgraded{attempt: a, Writer: conn}
	if a.flight.Traced() {
		a.traceBody()
	}
}

// upgraded is the body of a 101 under limits.
type upgraded struct {
	*attempt
	io.Writer
}
