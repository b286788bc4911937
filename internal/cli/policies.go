package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/offline"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// finding is something to say about one place of the input.
type finding struct {
	Line    int    `json:"line"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// judged is one policy of the input, or one document that is no YAML.
type judged struct {
	File      string    `json:"file"`
	Line      int       `json:"line"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	Valid     bool      `json:"valid"`
	Errors    []finding `json:"errors,omitempty"`
	Warnings  []finding `json:"warnings,omitempty"`

	// policy is nil when it cannot be decoded or is invalid.
	policy *v1alpha1.TimeoutPolicy
}

// label names the policy in messages.
func (j *judged) label() string {
	if j.Name == "" {
		return "-"
	}
	return "timeoutpolicy/" + j.Name
}

// inputFlags are the flags of the commands that read policies from files.
type inputFlags struct {
	files         []string
	recursive     bool
	clusterDomain string
}

// judge reads the policies of the input and judges each as an API server and
// the operator would. Objects of other kinds are passed over.
func (a *app) judge(in *inputFlags) ([]*judged, error) {
	manifests, bad, err := a.manifests(in.files, in.recursive)
	if err != nil {
		return nil, err
	}
	judge, err := newJudge()
	if err != nil {
		return nil, err
	}
	var all []*judged
	for _, b := range bad {
		all = append(all, &judged{File: b.file, Line: b.line, Errors: []finding{{Line: b.line, Message: b.message}}})
	}
	for i := range manifests {
		m := &manifests[i]
		if kind, _ := m.object["kind"].(string); kind != "TimeoutPolicy" {
			continue
		}
		all = append(all, a.judgeOne(judge, m, in))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no TimeoutPolicy in %s", strings.Join(in.files, ", "))
	}
	a.judgeTogether(all, in)
	sortJudged(all, manifests, bad)
	return all, nil
}

// newJudge compiles the rules once in a process.
var newJudge = sync.OnceValues(offline.NewJudge)

// sortJudged puts files in the order in which they were read, and what is said
// of one in the order of lines.
func sortJudged(all []*judged, manifests []manifest, bad []unreadable) {
	order := map[string]int{}
	for _, b := range bad {
		order[b.file] = b.order
	}
	for i := range manifests {
		order[manifests[i].file] = manifests[i].order
	}
	slices.SortStableFunc(all, func(a, b *judged) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line))
	})
	byLine := func(a, b finding) int { return cmp.Compare(a.Line, b.Line) }
	for _, j := range all {
		slices.SortStableFunc(j.Errors, byLine)
		slices.SortStableFunc(j.Warnings, byLine)
	}
}

func (a *app) judgeOne(judge *offline.Judge, m *manifest, in *inputFlags) *judged {
	meta := &unstructured.Unstructured{Object: m.object}
	j := &judged{Namespace: a.cluster.namespaceOf(meta.GetNamespace()), Name: meta.GetName()}
	j.File, j.Line = m.at("")
	add := func(list *[]finding, field, message string) {
		_, line := m.at(field)
		*list = append(*list, finding{Line: line, Field: field, Message: message})
	}
	if version, _ := m.object["apiVersion"].(string); version != v1alpha1.GroupVersion.String() {
		add(&j.Errors, "apiVersion", fmt.Sprintf("is %q, it must be %s", version, v1alpha1.GroupVersion))
	}
	for _, f := range judge.Faults(m.object) {
		add(&j.Errors, f.Field, f.Message)
	}
	policy, err := decodePolicy(m.object)
	if err != nil {
		if len(j.Errors) == 0 {
			add(&j.Errors, "spec", err.Error())
		}
		return j
	}
	policy.Namespace = j.Namespace
	for _, text := range nameFaults(&policy.ObjectMeta) {
		add(&j.Errors, "metadata.name", text)
	}
	if len(j.Errors) == 0 {
		for _, f := range plan.Validate(policy, plan.Options{ClusterDomain: in.clusterDomain}) {
			add(&j.Errors, f.Path, f.Reason)
		}
	}
	if len(j.Errors) > 0 {
		return j
	}
	j.Valid, j.policy = true, policy
	for _, w := range judge.Warnings(m.object) {
		add(&j.Warnings, "", w)
	}
	return j
}

// decodePolicy reads an object into the API type. What a file says of status,
// UID or generation does not matter: it is a policy that is about to be made.
func decodePolicy(object map[string]any) (*v1alpha1.TimeoutPolicy, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var policy v1alpha1.TimeoutPolicy
	if err := json.Unmarshal(data, &policy); err != nil {
		return nil, err
	}
	policy.Status = v1alpha1.TimeoutPolicyStatus{}
	policy.Generation = max(policy.Generation, 1)
	return &policy, nil
}

func nameFaults(meta *metav1.ObjectMeta) []string {
	if meta.Name == "" {
		return []string{"is missing: give the policy a name"}
	}
	return validation.NameIsDNSSubdomain(meta.Name, false)
}

// judgeTogether adds what shows only when the policies meet.
func (a *app) judgeTogether(all []*judged, in *inputFlags) {
	seen := map[types.NamespacedName]*judged{}
	for _, j := range all {
		if j.policy == nil {
			continue
		}
		key := types.NamespacedName{Namespace: j.Namespace, Name: j.Name}
		if first := seen[key]; first != nil {
			j.Warnings = append(j.Warnings, finding{Line: j.Line, Field: "metadata.name",
				Message: fmt.Sprintf("%s has a policy of the same name in namespace %s: the later one would replace it", first.File, j.Namespace)})
			continue
		}
		seen[key] = j
	}
	for _, namespace := range namespaces(all) {
		out := plan.Plan(a.input(all, namespace, in))
		for _, s := range out.Statuses {
			j := seen[types.NamespacedName{Namespace: namespace, Name: s.Name}]
			for _, c := range s.Status.Conditions {
				if c.Status == metav1.ConditionFalse && (c.Reason == v1alpha1.ReasonConflicted || c.Reason == v1alpha1.ReasonDocumentTooLarge) && c.Type != v1alpha1.ConditionReady {
					j.Warnings = append(j.Warnings, finding{Line: j.Line, Message: c.Reason + ": " + c.Message + "; of policies with the same age the name decides"})
				}
			}
		}
	}
}

// namespaces lists those of the valid policies, in order.
func namespaces(all []*judged) []string {
	var names []string
	for _, j := range all {
		if j.policy != nil {
			names = append(names, j.Namespace)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// input plans the valid policies of one namespace. Of policies with one name the
// first is taken; every Service exists.
func (a *app) input(all []*judged, namespace string, in *inputFlags) plan.Input {
	input := plan.Input{
		Namespace: namespace,
		Options:   plan.Options{ClusterDomain: in.clusterDomain},
		Services:  map[types.NamespacedName]plan.Service{},
		Now:       a.now(),
	}
	taken := map[string]bool{}
	for _, j := range all {
		if j.policy != nil && j.Namespace == namespace && !taken[j.Name] {
			taken[j.Name] = true
			input.Policies = append(input.Policies, *j.policy)
		}
	}
	for _, ref := range plan.ServiceRefs(input.Policies) {
		input.Services[ref] = plan.Service{}
	}
	return input
}
