package plan

import (
	"encoding/json"
	"slices"
	"time"
	"unique"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// Statement is what one client of a pod says of itself, word for word.
// Statements that say the same are equal and share their memory, and thousands
// of pods that run the same code under the same policies say the same. What a
// client is able to do, the larger part, is shared on its own: it stays the same
// when each pod has another message.
type Statement struct{ words, abilities unique.Handle[string] }

// abilities are the part of a statement that says what the client can do.
type abilities struct {
	Adapters  []v1alpha1.ReportedAdapter  `json:"adapters,omitempty"`
	Upstreams []v1alpha1.ReportedUpstream `json:"upstreams,omitempty"`
}

// NewStatement is what a reported client says.
func NewStatement(client *v1alpha1.ReportedClient) Statement {
	words := *client
	words.Adapters, words.Upstreams = nil, nil
	return Statement{intern(&words), intern(&abilities{client.Adapters, client.Upstreams})}
}

func intern(part any) unique.Handle[string] {
	// Strings, numbers and maps of strings, sorted by key: always the same text,
	// and nothing to refuse.
	text, _ := json.Marshal(part)
	return unique.Make(string(text))
}

// Size of the statement in bytes.
func (s Statement) Size() int { return len(s.words.Value()) + len(s.abilities.Value()) }

// client reads the words back, without the abilities.
func (s Statement) client() *v1alpha1.ReportedClient {
	client := &v1alpha1.ReportedClient{}
	_ = json.Unmarshal([]byte(s.words.Value()), client)
	return client
}

// Census counts what the clients of one namespace's live pods say. It is kept up
// to date pod by pod: one that comes, goes or changes its mind costs what it
// says, whatever the number of the others, and what a plan costs grows with the
// number of different statements. It is bounded by the number of pods.
//
// The zero value counts nobody. It is not safe for concurrent use.
type Census struct {
	pods   map[string]testimony
	groups map[Statement]*group
	able   map[unique.Handle[string]]*shared
}

// shared are abilities that several groups have.
type shared struct {
	abilities
	groups int
}

// testimony is what one pod says.
type testimony struct {
	// since is when the pod first said something, in Unix seconds.
	since      int64
	statements []Statement
}

// group is the clients that say the same.
type group struct {
	client *v1alpha1.ReportedClient
	count  int32
	// example is the first by name of the pods; empty when it has to be found
	// anew.
	example string
	// young counts pods by the second in which they first said something, those
	// up to horizon left out: they are old for good.
	young   map[int64]int32
	horizon int64
}

// Set replaces what a pod says. since is when it first said something. The
// statements belong to the Census.
func (c *Census) Set(pod string, since time.Time, statements []Statement) {
	if t, known := c.pods[pod]; known && t.since == since.Unix() && slices.Equal(t.statements, statements) {
		return
	}
	c.Remove(pod)
	if c.pods == nil {
		c.pods, c.groups, c.able = map[string]testimony{}, map[Statement]*group{}, map[unique.Handle[string]]*shared{}
	}
	t := testimony{since.Unix(), statements}
	c.pods[pod] = t
	for _, statement := range statements {
		g := c.groups[statement]
		if g == nil {
			g = &group{client: c.enter(statement), example: pod}
			c.groups[statement] = g
		}
		if g.example != "" && pod < g.example {
			g.example = pod
		}
		g.count++
		if t.since > g.horizon {
			if g.young == nil {
				g.young = map[int64]int32{}
			}
			g.young[t.since]++
		}
	}
}

// enter is for the first pod that says something.
func (c *Census) enter(statement Statement) *v1alpha1.ReportedClient {
	able := c.able[statement.abilities]
	if able == nil {
		able = &shared{}
		_ = json.Unmarshal([]byte(statement.abilities.Value()), &able.abilities)
		c.able[statement.abilities] = able
	}
	able.groups++
	client := statement.client()
	client.Adapters, client.Upstreams = able.Adapters, able.Upstreams
	return client
}

// leave is for the last one.
func (c *Census) leave(statement Statement) {
	delete(c.groups, statement)
	if able := c.able[statement.abilities]; able.groups > 1 {
		able.groups--
		return
	}
	delete(c.able, statement.abilities)
}

// Remove forgets a pod; one that said nothing is no matter.
func (c *Census) Remove(pod string) {
	t, known := c.pods[pod]
	if !known {
		return
	}
	delete(c.pods, pod)
	for _, statement := range t.statements {
		g := c.groups[statement]
		if g.count--; g.count == 0 {
			c.leave(statement)
			continue
		}
		if g.example == pod {
			g.example = ""
		}
		if t.since <= g.horizon {
			continue
		}
		if g.young[t.since]--; g.young[t.since] == 0 {
			delete(g.young, t.since)
		}
	}
}

// Pods is the number of pods that say something.
func (c *Census) Pods() int { return len(c.pods) }

// Voice is one statement and how many pods make it.
type Voice struct {
	client *v1alpha1.ReportedClient
	// able tells apart what voices can do.
	able  unique.Handle[string]
	count int32
	// example is the first by name of the pods.
	example string
	// cohorts split the count by when the pods first said something; those for
	// which it was long ago have the zero time.
	cohorts []cohort
}

type cohort struct {
	since time.Time
	count int32
}

// Voices is the count for a plan of that time with those options. It does not
// change with the Census.
func (c *Census) Voices(now time.Time, o Options) []Voice {
	horizon := now.Add(-o.withDefaults().StaleAfter).Unix()
	c.findExamples()
	voices := make([]Voice, 0, len(c.groups))
	for statement, g := range c.groups {
		v := g.voice(horizon)
		v.able = statement.abilities
		voices = append(voices, v)
	}
	return voices
}

// voice also drops what is older than the horizon, so that each pod is looked at
// once for its age.
func (g *group) voice(horizon int64) Voice {
	g.horizon = max(g.horizon, horizon)
	v := Voice{client: g.client, count: g.count, example: g.example}
	old := g.count
	for since, n := range g.young {
		if since <= g.horizon {
			delete(g.young, since)
			continue
		}
		old -= n
		v.cohorts = append(v.cohorts, cohort{time.Unix(since, 0), n})
	}
	if old > 0 {
		v.cohorts = append(v.cohorts, cohort{time.Time{}, old})
	}
	return v
}

// findExamples looks for the first pod of the groups that lost theirs.
func (c *Census) findExamples() {
	lost := map[Statement]*group{}
	for statement, g := range c.groups {
		if g.example == "" {
			lost[statement] = g
		}
	}
	if len(lost) == 0 {
		return
	}
	for pod, t := range c.pods {
		for _, statement := range t.statements {
			if g := lost[statement]; g != nil && (g.example == "" || pod < g.example) {
				g.example = pod
			}
		}
	}
}

// voices are those of the input, and what its single reports say.
func (in *Input) voices() []Voice {
	var census Census
	for i := range in.Reports {
		report := &in.Reports[i]
		if report.Namespace != in.Namespace {
			continue
		}
		statements := make([]Statement, 0, len(report.Clients))
		for j := range report.Clients {
			statements = append(statements, NewStatement(&report.Clients[j]))
		}
		census.Set(report.Name, report.CreationTimestamp.Time, statements)
	}
	if census.Pods() == 0 {
		return in.Voices
	}
	return append(census.Voices(in.Now, in.Options), in.Voices...)
}
