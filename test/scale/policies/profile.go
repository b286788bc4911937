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
)

// profiles of the operator, as it serves them with --pprof-bind-address.

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

func (r *runner) profileHeap(ctx context.Context) error {
	if r.profiles == "" {
		return nil
	}
	return r.profile(ctx, "heap?gc=1", "heap.pprof")
}

func (r *runner) profile(ctx context.Context, what, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.pprof+"/debug/pprof/"+what, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
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
