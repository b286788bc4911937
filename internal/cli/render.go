package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

func (a *app) renderCommand() *cobra.Command {
	var in inputFlags
	var client string
	cmd := &cobra.Command{
		Use:   "render -f FILE [--client NAME]",
		Short: "Render the documents of policies in files, without a cluster",
		Long: `Render the documents of policies in files, without a cluster.

With --client the document that this client would load is written, byte for byte; put it
into a file policy.json below $TIMEOUTS_DIR to try it. Without, all documents are listed;
-o yaml writes the ConfigMaps. Problems go to standard error, and the exit status is 1 if
a policy was left out.`,
		Example: `  kubectl timeouts render -f policies/
  kubectl timeouts render -f policies/ --client checkout > policy.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.render(&in, client, cmd.Flags().Changed("client"))
		},
	}
	in.bind(cmd.Flags())
	cmd.Flags().StringVar(&client, "client", "", "the client's name; empty for every client that no policy names")
	return cmd
}

func (a *app) render(in *inputFlags, client string, one bool) error {
	r, err := a.renderFiles(in)
	if err != nil {
		return err
	}
	if one {
		return a.renderOne(r, client)
	}
	if err := a.printDocuments(r); err != nil {
		return err
	}
	return r.verdict()
}

// rendering is what became of the policies of the input.
type rendering struct {
	outputs []plannedNamespace
	// complete says that every policy is rendered in full.
	complete bool
}

type plannedNamespace struct {
	name string
	plan plan.Output
}

func (r *rendering) verdict() error {
	if !r.complete {
		return errNo
	}
	return nil
}

// renderFiles plans the policies of the input, of one namespace if one was
// asked for, and tells the problems on standard error.
func (a *app) renderFiles(in *inputFlags) (*rendering, error) {
	all, err := a.judge(in)
	if err != nil {
		return nil, err
	}
	wanted := a.cluster.overrides.Context.Namespace
	r := &rendering{complete: true}
	for _, j := range all {
		if j.Valid || wanted != "" && j.Namespace != "" && j.Namespace != wanted {
			continue
		}
		r.complete = false
		writeFindings(a.Err, j)
	}
	for _, namespace := range namespaces(all) {
		if wanted != "" && namespace != wanted {
			continue
		}
		out := plan.Plan(a.input(all, namespace, in))
		r.outputs = append(r.outputs, plannedNamespace{namespace, out})
		for _, s := range out.Statuses {
			for _, c := range s.Status.Conditions {
				if c.Status == metav1.ConditionFalse && (c.Type == v1alpha1.ConditionAccepted || c.Type == v1alpha1.ConditionProgrammed && c.Reason != v1alpha1.ReasonOverridden) {
					r.complete = false
					fmt.Fprintf(a.Err, "timeoutpolicy/%s: %s: %s\n", s.Name, c.Reason, c.Message)
				}
			}
		}
	}
	return r, nil
}

// renderOne writes the document of one client.
func (a *app) renderOne(r *rendering, client string) error {
	found, err := r.documentFor(client)
	if err != nil {
		return err
	}
	if a.output == outputYAML {
		data, err := yaml.JSONToYAML(found.Data)
		if err != nil {
			return fmt.Errorf("write the document: %w", err)
		}
		_, err = a.Out.Write(data)
		return errors.Join(err, r.verdict())
	}
	_, err = a.Out.Write(found.Data)
	return errors.Join(err, r.verdict())
}

// documentFor finds the document that a client loads: its own, or the one of the
// namespace.
func (r *rendering) documentFor(client string) (*plan.RenderedDocument, error) {
	if len(r.outputs) > 1 {
		names := make([]string, 0, len(r.outputs))
		for _, o := range r.outputs {
			names = append(names, o.name)
		}
		return nil, fmt.Errorf("the policies are of the namespaces %s: choose one with -n", strings.Join(names, ", "))
	}
	for _, name := range []string{client, ""} {
		for i := range r.outputs {
			for j := range r.outputs[i].plan.Documents {
				if d := &r.outputs[i].plan.Documents[j]; d.Client == name {
					return d, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("no policy is for the client %q: it would have no document", client)
}

// renderedDocument is a row of the list.
type renderedDocument struct {
	Namespace string   `json:"namespace"`
	ConfigMap string   `json:"configMap"`
	Client    string   `json:"client"`
	Revision  string   `json:"revision"`
	Bytes     int      `json:"bytes"`
	Policies  []string `json:"policies"`
}

func (a *app) printDocuments(r *rendering) error {
	if a.output != outputTable {
		return a.printConfigMaps(r)
	}
	rows := [][]string{{"NAMESPACE", "CONFIGMAP", "CLIENT", "UPSTREAMS", "BYTES", "REVISION", "POLICIES"}}
	for _, o := range r.outputs {
		for i := range o.plan.Documents {
			d := &o.plan.Documents[i]
			doc, err := document.Parse(d.Data)
			if err != nil {
				return fmt.Errorf("read back the document of client %q: %w", d.Client, err)
			}
			rows = append(rows, []string{
				o.name, d.ConfigMap, orStar(d.Client), fmt.Sprint(len(doc.Upstreams)), fmt.Sprint(len(d.Data)),
				short(d.Revision), strings.Join(policyNames(doc), ", "),
			})
		}
	}
	columns(a.Out, rows)
	return nil
}

// printConfigMaps writes what the operator would write.
func (a *app) printConfigMaps(r *rendering) error {
	list := corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: []corev1.ConfigMap{}}
	for _, o := range r.outputs {
		for i := range o.plan.Documents {
			d := &o.plan.Documents[i]
			list.Items = append(list.Items, corev1.ConfigMap{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{
					Namespace: o.name, Name: d.ConfigMap, Labels: d.Labels,
					Annotations: map[string]string{v1alpha1.AnnotationRevision: d.Revision},
				},
				Data: map[string]string{v1alpha1.DocumentKey: string(d.Data)},
			})
		}
	}
	return a.print(list, func(io.Writer) {})
}

func policyNames(doc *document.Document) []string {
	names := make([]string, 0, len(doc.Policies))
	for _, p := range doc.Policies {
		names = append(names, p.Name)
	}
	return slices.Compact(names)
}

// orStar names the client of the namespace's document.
func orStar(client string) string {
	if client == "" {
		return "*"
	}
	return client
}

// short is the start of a revision, as the status has it.
func short(revision string) string {
	_, digits, _ := strings.Cut(revision, ":")
	return digits[:min(len(digits), 12)]
}
