package adaptertest_test

import (
	"context"
	"testing"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/adaptertest"
)

// guide: battery

func TestTheRecordOfLineIsTrue(t *testing.T) {
	adaptertest.Run(t, adaptertest.Adapter{
		Record: lineRecord(),
		Open: func(t testing.TB, c *clientlib.Client, s adaptertest.Setup) adaptertest.Peer {
			return &linePeer{adaptertest.NewHTTPServer(t, s), policed(c, newLine())}
		},
		Lacks: map[adaptertest.Feature]string{
			adaptertest.Drips:           "an answer comes in one piece",
			adaptertest.Streams:         "an answer comes in one piece",
			adaptertest.OpaqueBodies:    "a question is a string",
			adaptertest.IdempotencyKeys: "it has no headers",
			adaptertest.BadBody:         "a question is a string",
			adaptertest.Unread:          "a question is a string",
			adaptertest.BoundedPool:     "each question has a connection of its own",
			adaptertest.OverHTTP2:       "it speaks HTTP/1.1",
			adaptertest.Declines:        "it speaks HTTP/1.1",
			adaptertest.Odd:             "it does not let anybody dial",
			adaptertest.Panics:          "nothing of a program's is in it",
		},
	})
}

// linePeer is the battery's HTTP server with a client of ours.
type linePeer struct {
	*adaptertest.HTTPServer
	line *policedLine
}

func (p *linePeer) Do(ctx context.Context, call adaptertest.Call) adaptertest.Result {
	r := p.Request(call)
	a, err := p.line.Ask(call.Context(ctx), r.Method, r.URL, call.Body)
	if err != nil {
		a.Code = -1
	}
	return adaptertest.Result{Err: err, Status: a.Code, Body: a.Text}
}

// end
