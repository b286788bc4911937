package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

// profiles of the operator, as it serves them with --pprof-bind-address, and of the
// API server.

// pprofAddress chooses a loopback address when profiles are wanted.
func (r *runner) pprofAddress() error {
	if r.profiles == "" || r.pprof != "" {
		return nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r.pprof = listener.Addr().String()
	return errors.Join(listener.Close(), os.MkdirAll(r.profiles, 0o755))
}

// profileCPU takes a profile of what the operator does in the next seconds; the
// function that it returns waits for it.
func (r *runner) profileCPU(ctx context.Context, name string, seconds int) func() error {
	if r.profiles == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() { done <- r.profile(ctx, fmt.Sprintf("profile?seconds=%d", seconds), "cpu-"+name+".pprof") }()
	return func() error { return <-done }
}

// profileServer takes a profile of the API server in the next seconds, which does
// the larger part of the work.
func (r *runner) profileServer(ctx context.Context, name string, seconds int) func() error {
	if r.profiles == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		client, err := rest.HTTPClientFor(r.plane.Admin)
		if err != nil {
			done <- err
			return
		}
		done <- r.save(ctx, client, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", r.plane.Server(), seconds), "server-cpu-"+name+".pprof")
	}()
	return func() error { return <-done }
}

func (r *runner) profileHeap(ctx context.Context) error {
	if r.profiles == "" {
		return nil
	}
	return r.profile(ctx, "heap?gc=1", "heap.pprof")
}

func (r *runner) profile(ctx context.Context, what, name string) error {
	return r.save(ctx, http.DefaultClient, "http://"+r.pprof+"/debug/pprof/"+what, name)
}

// save keeps what an address answers in the folder of the profiles.
func (r *runner) save(ctx context.Context, client *http.Client, url, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", request.URL, response.Status)
	}
	file, err := os.Create(filepath.Join(r.profiles, name))
	if err != nil {
		return err
	}
	_, err = io.Copy(file, response.Body)
	return errors.Join(err, file.Close())
}
