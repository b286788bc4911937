package engine

import (
	"strings"
	"sync/atomic"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// Authority finds who answers for the host of a URL, "name" or "name:port" as
// document.SplitHostPort takes it; port is that of the URL's scheme, 0 for unknown.
// False when no pattern names it, or it is none.
func (s *Snapshot) Authority(host string, port uint16) (Host, bool) {
	if h, ok := s.authorities.find(host, port); ok {
		return h, true
	}
	name, own, err := document.SplitHostPort(host)
	if err != nil {
		return Host{}, false
	}
	if own == 0 {
		own = port
	}
	h, ok := s.Host(name, own)
	if ok {
		s.authorities.add(host, port, h)
	}
	return h, ok
}

// authorities are the first few hosts that came up, as URLs spell them. Most
// programs call no more than that, and a comparison costs a fraction of taking a
// host apart and looking its name up, above all with cold caches. The zero value
// is empty; it is safe for concurrent use.
type authorities struct {
	known atomic.Pointer[knownAuthorities]
}

type knownAuthorities struct {
	n    int
	list [maxAuthorities]authority
}

type authority struct {
	text string
	port uint16
	host Host
}

const (
	maxAuthorities    = 8
	maxAuthorityBytes = 256
)

func (a *authorities) find(text string, port uint16) (Host, bool) {
	known := a.known.Load()
	if known == nil {
		return Host{}, false
	}
	for i := range known.n {
		if k := &known.list[i]; k.text == text && k.port == port {
			return k.host, true
		}
	}
	return Host{}, false
}

// add remembers a host, unless there are enough, or somebody else adds one at the
// same time: it comes up again.
func (a *authorities) add(text string, port uint16, h Host) {
	if len(text) > maxAuthorityBytes {
		return
	}
	var after knownAuthorities
	before := a.known.Load()
	if before != nil {
		after = *before
	}
	if after.n == maxAuthorities {
		return
	}
	// A string of its own: that of the URL may be part of something large.
	after.list[after.n] = authority{text: strings.Clone(text), port: port, host: h}
	after.n++
	a.known.CompareAndSwap(before, &after)
}
