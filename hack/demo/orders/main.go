// Command orders is the sample upstream of the demo: clientlib's misbehaving
// origin, with a record of the requests that reached it.
//
//	/ok, /hang, /drip?n=8&every=500ms, …   see clienttest.Origin
//	/-/requests?path=/hang                 when each request for /hang came, and how long it was served
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("orders", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "`address` to serve on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &recorder{next: &clienttest.Origin{}}}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Println(listener.Addr())
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// visit is one request, as the server saw it.
type visit struct {
	Path    string    `json:"path"`
	Arrived time.Time `json:"arrived"`
	// Seconds until the answer was complete or the client had gone; absent while
	// the request is being served.
	Seconds *float64 `json:"seconds,omitempty"`
}

// recorder notes the requests that reach a handler.
type recorder struct {
	next http.Handler

	mu     sync.Mutex
	visits []*visit
}

// ServeHTTP serves the record under /-/requests and notes every other request.
func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.URL.Path == "/-/requests" {
		r.serveRecord(w, request.URL.Query().Get("path"))
		return
	}
	v := &visit{Path: request.URL.Path, Arrived: time.Now()}
	r.mu.Lock()
	r.visits = append(r.visits, v)
	r.mu.Unlock()
	defer func() {
		seconds := time.Since(v.Arrived).Seconds()
		r.mu.Lock()
		defer r.mu.Unlock()
		v.Seconds = &seconds
	}()
	r.next.ServeHTTP(w, request)
}

func (r *recorder) serveRecord(w http.ResponseWriter, path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	visits := []visit{}
	for _, v := range r.visits {
		if path == "" || v.Path == path {
			visits = append(visits, *v)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(visits)
}
