package clientprom

import (
	"strconv"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

const (
	none    = "none"
	unknown = "unknown"
	other   = "_OTHER"
	success = "success"
)

// MaxTemplates is how many route templates of call sites are told apart for each
// upstream; those that come later are "unknown".
const MaxTemplates = 64

// maxTemplateBytes keeps a path with its values from passing as a template.
const maxTemplateBytes = 256

// method bounds the label to the methods of HTTP (RFC 9110 and RFC 5789), as
// OpenTelemetry does. The empty method is GET, as in net/http.
func method(m string) string {
	switch m {
	case "":
		return "GET"
	case "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH":
		return m
	default:
		return other
	}
}

// status bounds a status to what has a label: 100 to 599, and the codes of gRPC.
func status(code int, grpc bool) int16 {
	if 100 <= code && code <= 599 || grpc && 0 <= code && code < len(engine.GRPCCodes) {
		return int16(code)
	}
	return engine.NoStatus
}

// statusLabel is for what status returned.
func statusLabel(code int16) string {
	switch {
	case code < 0:
		return none
	case code < 100:
		return engine.GRPCCodes[code]
	default:
		return strconv.Itoa(int(code))
	}
}

// outcome is 0 for success, else the kind plus one.
func outcome(ok bool, kind failure.Kind) uint8 {
	if ok {
		return 0
	}
	return uint8(kind) + 1
}

func outcomeLabel(o uint8) string {
	if o == 0 {
		return success
	}
	return failure.Kind(o - 1).Label()
}

// templates bounds the routes that call sites name for one upstream. Looking up
// a known one takes no lock.
type templates struct {
	known sync.Map // string -> nothing
	count atomic.Int32
}

// admit returns the label of a template.
func (t *templates) admit(template string) string {
	if template == "" {
		return unknown
	}
	if _, ok := t.known.Load(template); ok {
		return template
	}
	if t.count.Load() >= MaxTemplates || len(template) > maxTemplateBytes || !utf8.ValidString(template) {
		return unknown
	}
	if t.count.Add(1) > MaxTemplates {
		return unknown
	}
	if _, loaded := t.known.LoadOrStore(template, nil); loaded {
		t.count.Add(-1)
	}
	return template
}
