package nethttp_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/iotest"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// An upload that a server passes on may break off in its own way. Whatever it is,
// it is not the peer's fault, with retries and without.
func TestARequestBodyThatBreaksIsNotThePeersFault(t *testing.T) {
	for _, rules := range []string{"", `"retry":{"maxAttempts":2}`} {
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
			for _, getBody := range []bool{false, true} {
				u, base := serve(t, protocol, &clienttest.Origin{})
				l := overSockets(t, rules, base)
				broken := func() io.Reader { return iotest.ErrReader(io.ErrUnexpectedEOF) }
				req, err := http.NewRequest(http.MethodPut, u+"/ok", broken())
				if err != nil {
					t.Fatal(err)
				}
				if getBody {
					req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(broken()), nil }
				}
				_, err = l.http.Do(req)
				if e := failure(t, err); e.Kind != kinds.BodyError || !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%s, rules %q, GetBody %t: %v is a %v", protocol, rules, getBody, err, e.Kind)
				}
			}
		}
	}
}
