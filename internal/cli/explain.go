package cli

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// explainFlags say which call is meant and where the document comes from.
type explainFlags struct {
	inputFlags
	client, url, method, document string
	grpc                          bool
}

func (a *app) explainCommand() *cobra.Command {
	var in explainFlags
	cmd := &cobra.Command{
		Use:   "explain --client NAME --url URL [--method METHOD] [-f FILE | --document FILE]",
		Short: "Say which rules hold for a call, and where each value comes from",
		Long: `Say which rules hold for a call, and where each value comes from.

The document is looked at as the client library does: the most specific host pattern, then
the most specific route. It comes from policies in files (-f), from a document (--document),
or else from the ConfigMaps of a cluster. Each value names the policy and generation that
set it; "default" marks what the client library does where no policy says anything.
Exit status 1 if no upstream matches.`,
		Example: `  kubectl timeouts explain --client checkout --url http://orders.shop:8080/v1/refunds/7 --method POST
  kubectl timeouts explain --client checkout --url grpc://orders.shop:9090/shop.v1.Orders/Refund -f policies/
  kubectl timeouts explain --url http://orders.shop/ --document policy.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.explain(cmd, &in) },
	}
	in.bind(cmd.Flags())
	cmd.Flags().StringVar(&in.client, "client", "", "the client's name; empty for a client that no policy names")
	cmd.Flags().StringVar(&in.url, "url", "", "URL of the call; grpc://host:port/service/method for a gRPC call")
	cmd.Flags().StringVar(&in.method, "method", "GET", "HTTP method of the call")
	cmd.Flags().StringVar(&in.document, "document", "", "a rendered document (policy.json), - for standard input")
	cmd.Flags().BoolVar(&in.grpc, "grpc", false, "the call is a gRPC one, whatever the scheme of the URL")
	return cmd
}

// target is the call in question.
type target struct {
	host string
	port uint16
	call document.Call
}

// parseTarget reads --url and --method.
func parseTarget(in *explainFlags) (*target, error) {
	if in.url == "" {
		return nil, errors.New("no call to explain: give --url, as in --url http://orders.shop:8080/v1/refunds")
	}
	u, err := url.Parse(in.url)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	if u.Host == "" || u.Hostname() == "" {
		return nil, fmt.Errorf("--url %q has no host: write scheme and host, as in http://orders.shop:8080/", in.url)
	}
	ports := map[string]uint16{"http": 80, "ws": 80, "https": 443, "wss": 443, "grpc": 443, "grpcs": 443}
	port, known := ports[strings.ToLower(u.Scheme)]
	if !known {
		return nil, fmt.Errorf("--url %q has the scheme %q: use http, https or grpc", in.url, u.Scheme)
	}
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("--url %q: the port is a number from 1 to 65535", in.url)
		}
		port = uint16(n)
	}
	t := &target{host: u.Hostname(), port: port, call: document.Call{Method: in.method, Path: u.EscapedPath()}}
	if in.grpc || strings.HasPrefix(strings.ToLower(u.Scheme), "grpc") {
		t.call.GRPC, t.call.Method = true, "POST"
	}
	if t.call.Path == "" {
		t.call.Path = "/"
	}
	return t, nil
}

func (a *app) explain(cmd *cobra.Command, in *explainFlags) error {
	t, err := parseTarget(in)
	if err != nil {
		return err
	}
	if in.document != "" && len(in.files) > 0 {
		return errors.New("--document and -f exclude each other")
	}
	doc, source, err := a.documentOf(cmd, in)
	if err != nil {
		return err
	}
	e := newExplanation(doc, source, in, t)
	if err := a.print(e, e.table); err != nil {
		return err
	}
	if e.Upstream == "" {
		return errNo
	}
	return nil
}

// documentOf finds the document, and says in words where it is from.
func (a *app) documentOf(cmd *cobra.Command, in *explainFlags) (*document.Document, string, error) {
	switch {
	case in.document != "":
		name, data, err := a.read(in.document)
		if err != nil {
			return nil, "", err
		}
		doc, err := document.Parse(data)
		if err != nil {
			return nil, "", fmt.Errorf("%s is no document: %w", name, err)
		}
		return doc, name, nil
	case len(in.files) > 0:
		r, err := a.renderFiles(&in.inputFlags)
		if err != nil {
			return nil, "", err
		}
		found, err := r.documentFor(in.client)
		if err != nil {
			return nil, "", err
		}
		doc, err := document.Parse(found.Data)
		return doc, "ConfigMap " + found.ConfigMap + ", rendered from files", err
	default:
		c, err := a.connect()
		if err != nil {
			return nil, "", err
		}
		return c.document(cmd.Context(), in.client)
	}
}

// table writes an explanation for people.
func (e *explanation) table(w io.Writer) {
	head := [][]string{
		{"Call:", e.Call},
		{"Document:", e.Document.Source},
		{"Revision:", e.Document.Revision},
	}
	if e.Upstream == "" {
		columns(w, head)
		fmt.Fprintf(w, "\nNo upstream matches: the client library's defaults hold, no limit and no retry.\n")
		return
	}
	route := "-"
	if e.Route != "" {
		route = fmt.Sprintf("%s (%s)", e.Route, e.Match)
	}
	columns(w, append(head,
		[]string{"Upstream:", fmt.Sprintf("%s (%s)", e.Upstream, e.Host)},
		[]string{"Route:", route},
	))
	fmt.Fprintln(w)
	// The values are last, since some are long.
	rows := [][]string{{"FIELD", "FROM", "VALUE"}}
	for _, f := range e.Fields {
		if !f.idle {
			rows = append(rows, []string{f.Field, f.From, f.Value})
		}
	}
	columns(w, rows)
}
