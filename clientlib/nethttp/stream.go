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
	mediaType, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(mediaType), "text/event-stream")
}

// isUpgrade reports whether the connection now belongs to the caller.
func isUpgrade(resp *http.Response) bool {
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return false
	}
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
	a.traceBody()
}

// upgraded is the body of a 101 under limits.
type upgraded struct {
	*attempt
	io.Writer
}
