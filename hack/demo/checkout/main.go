// Command checkout is the sample workload of the demo: it uses clientlib as any
// program does, and makes a call whenever it is asked to.
//
//	curl '127.0.0.1:PORT/call/drip?n=8&every=500ms'   # GET /drip?n=8&every=500ms of the upstream
//	curl '127.0.0.1:PORT/status'                      # what the client lives on
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "checkout:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	routes := connectTo{}
	flags := flag.NewFlagSet("checkout", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "`address` on which calls are asked for")
	upstream := flags.String("upstream", "http://orders.shop.svc:8080", "`URL` of the service that is called")
	flags.Var(routes, "connect-to", "`HOST:PORT=ADDRESS`: connect to ADDRESS where the URL says HOST:PORT, as a cluster's network would")
	if err := flags.Parse(args); err != nil {
		return err
	}

	// This is what a workload does, and all of it.
	client, err := clientlib.New(ctx, "checkout")
	if err != nil {
		return err
	}
	defer client.Close()
	caller := &caller{
		client:   client,
		http:     &http.Client{Transport: nethttp.NewTransport(client, routes.transport())},
		upstream: *upstream,
	}

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/call/", http.StripPrefix("/call", caller))
	mux.Handle("/status", client.Handler())
	server := &http.Server{Handler: mux}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Println(listener.Addr())
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// connectTo maps the host and port of URLs to addresses. It is filled before
// the first call and not changed afterwards.
type connectTo map[string]string

// String implements flag.Value.
func (c connectTo) String() string { return "" }

// Set implements flag.Value.
func (c connectTo) Set(text string) error {
	name, address, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q: write HOST:PORT=ADDRESS", text)
	}
	c[name] = address
	return nil
}

// transport is net/http's own, but for the names in c and for proxies, which
// the demo does without.
func (c connectTo) transport() *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	var dialer net.Dialer
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if mapped, ok := c[address]; ok {
			address = mapped
		}
		return dialer.DialContext(ctx, network, address)
	}
	return transport
}
