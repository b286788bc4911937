package grpcclient

import (
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// target is the host that the policies of a connection are looked up for. The
// zero value names none.
type target struct {
	name string // normalised
	port uint16 // 0 where the target has none
	url  *url.URL
	// What was warned of: somebody waits for a connection without end; a connection
	// has our interceptors twice; the deadline header has no place in metadata.
	warned, doubled, mute atomic.Bool
}

func newTarget(name string, port uint16) *target {
	t := &target{name: document.NormalizeHostname(name), port: port}
	t.url = &url.URL{Host: t.String()}
	return t
}

// String returns the host and, where it is known, the port.
func (t *target) String() string {
	switch {
	case t.port != 0:
		return net.JoinHostPort(t.name, strconv.Itoa(int(t.port)))
	case strings.Contains(t.name, ":"):
		return "[" + t.name + "]"
	default:
		return t.name
	}
}

// maxTargets bounds what is remembered for a program that dials without end.
const maxTargets = 1024

// targets remembers the targets of connections, so that a call finds its own
// without parsing. The zero value is empty.
type targets struct {
	known atomic.Pointer[map[string]*target]
	mu    sync.Mutex
}

func (t *targets) of(cc *grpc.ClientConn, warn func(string)) *target {
	known := t.known.Load()
	if known != nil {
		if to, ok := (*known)[cc.Target()]; ok {
			return to
		}
	}
	to, hostless := parseTarget(cc.CanonicalTarget())
	if hostless {
		warn("the gRPC target " + clip(cc.Target()) + " names no single host: its calls obey no policy; say which with grpcclient.WithHost")
	}
	t.remember(cc.Target(), to)
	return to
}

func (t *targets) remember(text string, to *target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := map[string]*target{}
	if known := t.known.Load(); known != nil {
		if len(*known) >= maxTargets {
			return
		}
		next = maps.Clone(*known)
	}
	next[text] = to
	t.known.Store(&next)
}

// localSchemes are those of targets on this machine, which never name a host and
// which no policy can mean.
var localSchemes = []string{"unix", "unix-abstract", "vsock"}

// defaultPorts are those that a resolver dials where a target has none.
var defaultPorts = map[string]uint16{"dns": 443}

// parseTarget reads "scheme://authority/endpoint", the form that grpc-go makes of
// every target. The host is that of the endpoint; the authority names who is
// asked for its addresses. hostless says that there should have been a host.
func parseTarget(canonical string) (to *target, hostless bool) {
	u, err := url.Parse(canonical)
	if err != nil {
		return &target{}, true
	}
	for _, scheme := range localSchemes {
		if u.Scheme == scheme {
			return &target{}, false
		}
	}
	endpoint := resolver.Target{URL: *u}.Endpoint()
	name, port, err := splitEndpoint(endpoint)
	if err != nil || !isHost(name) {
		return &target{}, true
	}
	if port == 0 {
		port = defaultPorts[u.Scheme]
	}
	return newTarget(name, port), false
}

// splitEndpoint is document.SplitHostPort for what a resolver accepts besides: an
// IPv6 address without brackets, and no name for this machine.
func splitEndpoint(endpoint string) (name string, port uint16, err error) {
	if net.ParseIP(endpoint) != nil {
		return endpoint, 0, nil
	}
	name, port, err = document.SplitHostPort(endpoint)
	if err == nil && name == "" {
		name = "localhost"
	}
	return name, port, err
}

// isHost reports whether a name can be that of one host: a path or a list is the
// business of its resolver.
func isHost(name string) bool { return name != "" && !strings.ContainsAny(name, "/, ") }

// clip bounds a text that becomes part of a warning.
func clip(s string) string {
	if len(s) > 128 {
		s = s[:128] + "…"
	}
	return strconv.Quote(s)
}
