package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/timeout-operator/timeout-operator/internal/callcmd"
)

// callFlags say which calls are made and where the document comes from.
type callFlags struct {
	explainFlags
	count      int
	every      time.Duration
	headers    []string
	data       string
	idempotent bool
	route      string
	timeout    time.Duration
	budget     time.Duration
	detach     bool
	holdBody   time.Duration
	stream     bool
	connectTo  string
	caCert     string
	http2      bool
}

func (a *app) callCommand() *cobra.Command {
	var in callFlags
	cmd := &cobra.Command{
		Use:   "call [-f FILE | --document FILE] [--client NAME] URL",
		Short: "Make a call under the policies, and show each attempt",
		Long: `Make a call under the policies, and show each attempt.

The call is made from here, through the code that enforces policies in a workload. Each
attempt is shown as it ends: what came of it, what was left of the call, and why it was
repeated or not; then how the body ended, which is read and thrown away. The document
comes from policies in files (-f), from a document (--document), or else from the
ConfigMaps of a cluster. To reach an upstream inside a cluster, forward a port and name
it with --connect-to; the policies still see the host of the URL. A gRPC method is called by
grpc://HOST:PORT/package.Service/Method (grpcs for TLS) with the message of --data in protobuf's
binary form, or an empty one.
With --count several calls are made one after another, which share their circuit breaker
and retry budget; a document that is a file is watched meanwhile, as a workload does, and
what changes in it holds for the calls that begin afterwards.
Exit status 1 if a call failed, was cut, or was answered with a failing status.`,
		Example: `  kubectl timeouts call -f policies/ --client checkout http://orders.shop:8080/orders/42
  kubectl timeouts call --document policy.json --connect-to localhost:8080 http://orders:8080/
  kubectl timeouts call -f policies/ --method POST --header 'Idempotency-Key: 7' --data @order.json http://orders/
  kubectl timeouts call -f policies/ grpc://orders:9090/shop.v1.Orders/List --stream
  kubectl timeouts call --document policy.json --count 100 --every 1s http://orders:8080/`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.url = args[0]
			return a.call(cmd, &in)
		},
	}
	in.bind(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&in.client, "client", "", "the client's name; empty for a client that no policy names")
	flags.StringVar(&in.document, "document", "", "a rendered document (policy.json), - for standard input")
	flags.StringVar(&in.method, "method", "", "HTTP method (default GET, POST with --data)")
	flags.StringArrayVar(&in.headers, "header", nil, "header of the request or metadata of a gRPC call, as in 'Name: value'; more than once if need be")
	flags.StringVar(&in.data, "data", "", "body of the request, or message of a gRPC call; @FILE for that of a file, @- for standard input, which cannot be rewound")
	flags.BoolVar(&in.idempotent, "idempotent", false, "vouch that the call may be repeated; --idempotent=false forbids it (default: what the policy says)")
	flags.StringVar(&in.route, "route", "", "route template that the call site names")
	flags.DurationVar(&in.timeout, "timeout", 0, "deadline of the caller's context (default none)")
	flags.DurationVar(&in.budget, "budget", 0, "what is left of the request being served, as an inbound deadline would say (default none)")
	flags.BoolVar(&in.detach, "detach", false, "make the call in work that outlives the request being served, where --budget does not hold")
	flags.DurationVar(&in.holdBody, "hold-body", 0, "leave the body of the response alone for so long before it is read, as a program that forgets it (default not at all)")
	flags.IntVar(&in.count, "count", 1, "how many calls to make, 10000 at most")
	flags.DurationVar(&in.every, "every", 0, "how long to wait between the calls of --count (default not at all)")
	flags.BoolVar(&in.stream, "stream", false, "the gRPC method streams its responses")
	flags.StringVar(&in.connectTo, "connect-to", "", "HOST:PORT to connect to instead of the URL's")
	flags.StringVar(&in.caCert, "cacert", "", "file with the certificates in PEM that the call trusts (default the system's)")
	flags.BoolVar(&in.http2, "http2", false, "speak HTTP/2 to http URLs too; https negotiates it")
	return cmd
}

func (a *app) call(cmd *cobra.Command, in *callFlags) error {
	if in.document != "" && len(in.files) > 0 {
		return errors.New("--document and -f exclude each other")
	}
	options, err := a.callOptions(cmd, in)
	if err != nil {
		return err
	}
	if options.Document, _, err = a.documentOf(cmd, &in.explainFlags); err != nil {
		return err
	}
	if a.output == outputTable {
		options.Attempted = func(attempt callcmd.Attempt) {
			if attempt.Number == 1 {
				callcmd.WriteHead(a.Out)
			}
			callcmd.WriteAttempt(a.Out, attempt)
		}
	}
	caller, err := callcmd.NewCaller(*options)
	if err != nil {
		return err
	}
	defer caller.Close()
	if in.count > 1 {
		return a.callOften(cmd.Context(), in, caller, options.Document.Revision)
	}
	result := caller.Call(cmd.Context())
	if err := a.print(result, result.WriteResult); err != nil {
		return err
	}
	if !result.OK {
		return errNo
	}
	return nil
}

// callOptions reads the flags.
func (a *app) callOptions(cmd *cobra.Command, in *callFlags) (*callcmd.Options, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	o := &callcmd.Options{
		URL:       in.url,
		Method:    in.method,
		Header:    http.Header{},
		Route:     in.route,
		Timeout:   in.timeout,
		Budget:    in.budget,
		Detach:    in.detach,
		HoldBody:  in.holdBody,
		Stream:    in.stream,
		ConnectTo: in.connectTo,
		HTTP2:     in.http2,
	}
	if cmd.Flags().Changed("idempotent") {
		o.Idempotent = &in.idempotent
	}
	if in.caCert != "" {
		pem, err := os.ReadFile(in.caCert)
		if err != nil {
			return nil, fmt.Errorf("read --cacert: %w", err)
		}
		o.CACerts = pem
	}
	for _, h := range in.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("--header %q: write 'Name: value'", h)
		}
		o.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if !cmd.Flags().Changed("data") {
		return o, nil
	}
	var err error
	o.Body, err = a.callBody(in)
	return o, err
}

// check refuses values that mean nothing.
func (in *callFlags) check() error {
	switch {
	case in.timeout < 0 || in.budget < 0 || in.holdBody < 0 || in.every < 0:
		return errors.New("--timeout, --budget, --hold-body and --every are longer than 0, as in --timeout 500ms")
	case in.count < 1 || in.count > maxCalls:
		return fmt.Errorf("--count is from 1 to %d", maxCalls)
	case in.count > 1 && in.data == "@-":
		return errors.New("standard input can be sent once: give --data a file, or make one call")
	default:
		return nil
	}
}

// callBody is the body of the request. A file is read first, so that it can be
// sent again; standard input is streamed.
func (a *app) callBody(in *callFlags) (io.Reader, error) {
	file, isFile := strings.CutPrefix(in.data, "@")
	switch {
	case !isFile:
		return strings.NewReader(in.data), nil
	case file == "-":
		if in.document == "-" || len(in.files) == 1 && in.files[0] == "-" {
			return nil, errors.New("standard input is the document or the policies already: give --data a file")
		}
		return io.MultiReader(a.In), nil
	default:
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read --data: %w", err)
		}
		return strings.NewReader(string(data)), nil
	}
}
