package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

func (a *app) statusCommand() *cobra.Command {
	var clusterDomain string
	cmd := &cobra.Command{
		Use:   "status [POLICY]",
		Short: "Show which pods have applied a policy, and which cannot enforce all of it",
		Long: `Show which pods have applied a policy, and which cannot enforce all of it.

Without a name all policies of the namespace are listed, with one the pods behind its
numbers too. Conditions are those that the operator wrote; the pods come from their
reports, counted by the operator's own code. Exit status 1 unless all that is shown is
Ready.`,
		Example: `  kubectl timeouts status -n shop
  kubectl timeouts status checkout -n shop -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			in, err := c.input(cmd.Context(), clusterDomain, a.now())
			if err != nil {
				return err
			}
			return a.status(in, args)
		},
	}
	cmd.Flags().StringVar(&clusterDomain, "cluster-domain", "cluster.local", "domain of the cluster, as the operator has it")
	return cmd
}

// policyState is what is known of one policy.
type policyState struct {
	Namespace  string                       `json:"namespace"`
	Name       string                       `json:"name"`
	Generation int64                        `json:"generation"`
	Ready      metav1.ConditionStatus       `json:"ready"`
	Status     v1alpha1.TimeoutPolicyStatus `json:"status"`
	// Notes say what may make the numbers differ from what is in force.
	Notes   []string      `json:"notes,omitempty"`
	Readers []plan.Reader `json:"readers"`
	// Silent are the pods that mount a document of the policy and report nothing.
	Silent []string `json:"silent,omitempty"`
}

func (a *app) status(in observed, args []string) error {
	out := plan.Plan(in.Input)
	var states []*policyState
	for _, s := range out.Statuses {
		if len(args) == 0 || s.Name == args[0] {
			states = append(states, newPolicyState(&in, out, s.Name))
		}
	}
	switch {
	case len(states) == 0 && len(args) > 0:
		return fmt.Errorf("namespace %s has no timeoutpolicy/%s", in.Namespace, args[0])
	case len(states) == 0:
		return fmt.Errorf("namespace %s has no TimeoutPolicy", in.Namespace)
	}
	err := a.print(states, func(w io.Writer) {
		if len(args) == 0 {
			listStates(w, states)
			return
		}
		states[0].table(w)
	})
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.Ready != metav1.ConditionTrue {
			return errNo
		}
	}
	return nil
}

func newPolicyState(in *observed, out plan.Output, name string) *policyState {
	s := &policyState{Namespace: in.Namespace, Name: name, Ready: metav1.ConditionUnknown, Readers: out.Readers(name)}
	if s.Readers == nil {
		s.Readers = []plan.Reader{}
	}
	for i := range in.Policies {
		if in.Policies[i].Name == name {
			s.Generation, s.Status = in.Policies[i].Generation, in.Policies[i].Status
		}
	}
	if ready := s.condition(v1alpha1.ConditionReady); ready != nil && s.Status.ObservedGeneration == s.Generation {
		s.Ready = ready.Status
	}
	if s.Status.ObservedGeneration != s.Generation {
		s.Notes = append(s.Notes, fmt.Sprintf("the operator has seen generation %d, the policy is at %d: does it run?", s.Status.ObservedGeneration, s.Generation))
	}
	readBy := map[string]bool{}
	for _, r := range s.Readers {
		readBy[r.ConfigMap] = true
	}
	for _, d := range out.Documents {
		if !d.Current && readBy[d.ConfigMap] {
			s.Notes = append(s.Notes, fmt.Sprintf("the ConfigMap %s does not hold what these policies render to: the operator has not written it yet, or has another --cluster-domain or version", d.ConfigMap))
		}
	}
	for i := range s.Status.Clients {
		configMap := s.Status.Clients[i].ConfigMap
		if silent := in.silent[configMap]; len(silent) > 0 {
			s.Notes = append(s.Notes, silentNote(configMap, silent))
			s.Silent = append(s.Silent, silent...)
		}
	}
	return s
}

func (s *policyState) condition(conditionType string) *metav1.Condition {
	for i := range s.Status.Conditions {
		if s.Status.Conditions[i].Type == conditionType {
			return &s.Status.Conditions[i]
		}
	}
	return nil
}

// cell is the status of a condition, with the reason when it is not True.
func (s *policyState) cell(conditionType string) string {
	c := s.condition(conditionType)
	switch {
	case c == nil:
		return "-"
	case c.Status == metav1.ConditionTrue:
		return string(c.Status)
	default:
		return fmt.Sprintf("%s (%s)", c.Status, c.Reason)
	}
}

func listStates(w io.Writer, states []*policyState) {
	rows := [][]string{{"POLICY", "GENERATION", "ACCEPTED", "PROGRAMMED", "ACKED", "CAPABLE", "READY"}}
	for _, s := range states {
		rows = append(rows, []string{
			s.Name, fmt.Sprint(s.Generation), s.cell(v1alpha1.ConditionAccepted), s.cell(v1alpha1.ConditionProgrammed),
			orDash(s.Status.Summary.Acknowledged), orDash(s.Status.Summary.Capable), s.cell(v1alpha1.ConditionReady),
		})
	}
	columns(w, rows)
}

// table writes one policy with its pods.
func (s *policyState) table(w io.Writer) {
	columns(w, [][]string{
		{"Policy:", s.Namespace + "/" + s.Name},
		{"Generation:", fmt.Sprint(s.Generation)},
	})
	for _, note := range s.Notes {
		fmt.Fprintf(w, "Note: %s\n", note)
	}
	fmt.Fprintln(w)
	rows := [][]string{{"CONDITION", "STATUS", "REASON", "MESSAGE"}}
	for _, c := range s.Status.Conditions {
		rows = append(rows, []string{c.Type, string(c.Status), c.Reason, c.Message})
	}
	columns(w, rows)
	fmt.Fprintln(w)
	if len(s.Readers) == 0 {
		fmt.Fprintln(w, "No live pod reports a client that the policy is for.")
		return
	}
	rows = [][]string{{"POD", "CLIENT", "POLICY", "STATE", "DELIVERY", "REVISION", "CANNOT", "WHY"}}
	for i := range s.Readers {
		r := &s.Readers[i]
		rows = append(rows, []string{
			r.Pod, r.Client, string(r.Verdict), string(r.State), string(r.Delivery),
			orDash(short(r.Revision)), cannot(r), why(r),
		})
	}
	columns(w, rows)
}

// cannot lists what a reader cannot honour.
func cannot(r *plan.Reader) string {
	var parts []string
	for _, g := range r.Unsupported {
		parts = append(parts, fmt.Sprintf("%s of %s (%s)", g.Field, g.Upstream, g.Adapter))
	}
	for _, d := range r.DeadKinds {
		parts = append(parts, fmt.Sprintf("retry on %s of %s (%s)", d.Kind, d.Upstream, d.Adapter))
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ")
	case !r.Known:
		return "does not say"
	default:
		return "-"
	}
}

func why(r *plan.Reader) string {
	return cmp.Or(strings.Trim(r.Reason+": "+r.Message, ": "), "-")
}
