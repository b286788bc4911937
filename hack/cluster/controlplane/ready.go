package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// administrator returns an HTTP client that the API server takes for a member of system:masters.
func administrator(creds *credentials) (*http.Client, error) {
	cert, err := tls.X509KeyPair(creds.admin.cert, creds.admin.key)
	if err != nil {
		return nil, fmt.Errorf("read the administrator's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(creds.ca.parsed)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true, // nothing to break when the server is killed
	}
	return &http.Client{Transport: transport, Timeout: 5 * time.Second}, nil
}

// check says why a component is not ready, or nil.
func (cp *ControlPlane) check(ctx context.Context, c Component) error {
	switch c {
	case Etcd: // the API server's readyz goes through to etcd; here, that it listens is enough
		if _, err := os.Stat(cp.state.etcdSocket()); err != nil {
			return errors.New("does not listen yet")
		}
		return nil
	case APIServer:
		return cp.get(ctx, "/readyz")
	default: // its controllers have started once they have made the first service account
		return cp.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
	}
}

func (cp *ControlPlane) get(ctx context.Context, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, cp.URL()+path, nil)
	if err != nil {
		return err
	}
	response, err := cp.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(unready(path, response.Status, string(body)))
	}
	return nil
}

// unready picks the failing checks out of a readyz answer.
func unready(path, status, body string) string {
	var failing []string
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, "[-]"); ok {
			check, _, _ := strings.Cut(rest, " ")
			failing = append(failing, check)
		}
	}
	if len(failing) == 0 {
		return fmt.Sprintf("%s answers %s", path, status)
	}
	return fmt.Sprintf("%s waits for %s", path, strings.Join(failing, " "))
}

const (
	checkEvery  = 50 * time.Millisecond
	reportEvery = 5 * time.Second
)

// await returns when the component is ready, or with an error when it is not in time or any component has died.
func (cp *ControlPlane) await(ctx context.Context, c Component) error {
	ctx, cancel := context.WithTimeout(ctx, cp.options.StartTimeout)
	defer cancel()
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	start := time.Now()
	report := start.Add(reportEvery)
	for {
		if dead := cp.dead(); dead != nil {
			return dead
		}
		if !cp.Running(c) {
			return fmt.Errorf("%s does not run", c)
		}
		err := cp.check(ctx, c)
		if err == nil {
			cp.options.Progress(fmt.Sprintf("%s: ready after %s", c, time.Since(start).Round(10*time.Millisecond)))
			return nil
		}
		if now := time.Now(); now.After(report) {
			report = now.Add(reportEvery)
			cp.options.Progress(fmt.Sprintf("%s: not ready after %s: %v", c, now.Sub(start).Round(time.Second), err))
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return fmt.Errorf("%s was not ready yet: %w", c, context.Cause(ctx))
			}
			return fmt.Errorf("%s is not ready after %s: %w; the last lines of its log:\n%s",
				c, time.Since(start).Round(time.Second), err, tail(cp.state.log(c), 20))
		case <-tick.C:
		}
	}
}
