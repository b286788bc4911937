package plane

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
)

// operatorUser is the operator to the API server.
const operatorUser = "system:serviceaccount:" + SystemNamespace + ":timeout-operator"

// auditPolicy has the API server note what the operator asks, and no more.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: ["` + operatorUser + `"]
- level: None
`

// Requests are what the operator asked of the API server, by verb and resource,
// such as "patch timeoutpolicies/status". Watches count when they end.
type Requests map[string]int

// Writes are the requests that change something, except the lease of leader
// election, which is renewed every other second by design.
func (r Requests) Writes() Requests {
	writes := Requests{}
	for what, n := range r {
		verb, resource, _ := strings.Cut(what, " ")
		if slices.Contains([]string{"create", "update", "patch", "delete"}, verb) && resource != "leases" &&
			!strings.HasSuffix(resource, "accessreviews") {
			writes[what] = n
		}
	}
	return writes
}

// Total of all requests.
func (r Requests) Total() int {
	total := 0
	for _, n := range r {
		total += n
	}
	return total
}

// Since are the requests that an earlier count does not have yet.
func (r Requests) Since(before Requests) Requests {
	out := Requests{}
	for what, n := range r {
		if more := n - before[what]; more > 0 {
			out[what] = more
		}
	}
	return out
}

// String lists them, the most frequent first.
func (r Requests) String() string {
	var parts []string
	for _, what := range slices.SortedFunc(maps.Keys(r), func(a, b string) int { return cmp.Or(cmp.Compare(r[b], r[a]), cmp.Compare(a, b)) }) {
		n, _ := json.Marshal(r[what])
		parts = append(parts, string(n)+" "+what)
	}
	return strings.Join(parts, ", ")
}

// audit reads the audit log as it grows.
type audit struct {
	path string

	mu     sync.Mutex
	offset int64
	counts Requests
}

type auditEvent struct {
	Verb      string `json:"verb"`
	User      struct{ Username string }
	ObjectRef *struct{ Resource, Subresource string } `json:"objectRef"`
}

// Requests counts what the operator asked of the API server since the plane was
// started. The API server writes a line when it has answered; it is the
// caller's to wait until nothing is under way.
func (p *Plane) Requests() (Requests, error) { return p.audit.read() }

func (a *audit) read() (Requests, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts == nil {
		a.counts = Requests{}
	}
	file, err := os.Open(a.path)
	if errors.Is(err, os.ErrNotExist) {
		return maps.Clone(a.counts), nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return nil, err
	}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil { // the end, or a line that is not complete yet
			break
		}
		a.offset += int64(len(line))
		a.count(line)
	}
	return maps.Clone(a.counts), nil
}

func (a *audit) count(line []byte) {
	var event auditEvent
	if json.Unmarshal(line, &event) != nil || event.User.Username != operatorUser || event.ObjectRef == nil {
		return
	}
	what := event.Verb + " " + event.ObjectRef.Resource
	if event.ObjectRef.Subresource != "" {
		what += "/" + event.ObjectRef.Subresource
	}
	a.counts[what]++
}
