package report

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/retryafter"
)

const (
	// requestTimeout bounds one write, from the dial to the answer.
	requestTimeout = 10 * time.Second
	// maxAnswer is how much of an answer is read: enough for the message.
	maxAnswer = 4096
	// maxRetryAfter bounds the wait that a server can ask for.
	maxRetryAfter = time.Hour
)

// sendError is a write that failed.
type sendError struct {
	// class stays the same while writing fails in the same way.
	class string
	// retryAfter is how long the server asked to wait, 0 if it did not.
	retryAfter time.Duration
	// doubtful says that the report may have been written all the same.
	doubtful bool
	err      error
}

func (e *sendError) Error() string { return e.err.Error() }
func (e *sendError) Unwrap() error { return e.err }

// sender writes reports. One goroutine uses it.
type sender struct {
	url       string
	tokenFile string
	caFile    string
	agent     string
	clock     clock.Clock
	client    http.Client
	own       *http.Transport // the transport of client, nil if it was given
	ca        string          // what own trusts
}

func newSender(o Options) *sender {
	s := &sender{
		url: fmt.Sprintf("%s/apis/%s/namespaces/%s/clientreports/%s?fieldManager=%s&force=true",
			o.Server, APIVersion, url.PathEscape(o.Pod.Namespace), url.PathEscape(o.Pod.Name), url.QueryEscape(manager(o.Container))),
		tokenFile: o.TokenFile,
		caFile:    o.CAFile,
		agent:     o.Library.Name + "/" + o.Library.Version,
		clock:     o.Clock,
	}
	s.client = http.Client{
		Transport: o.Transport,
		Timeout:   requestTimeout,
		// A redirect would carry the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// send writes one report: a server-side apply of the whole object. It returns
// nil or a *sendError.
func (s *sender) send(ctx context.Context, body []byte) *sendError {
	token, err := readToken(s.tokenFile)
	if err != nil {
		return &sendError{class: "token", err: err}
	}
	if err := s.trust(); err != nil {
		return &sendError{class: "ca", err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, s.url, bytes.NewReader(body))
	if err != nil {
		return &sendError{class: "request", err: err}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/apply-patch+yaml") // of which JSON is a part
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", s.agent)
	resp, err := s.client.Do(req)
	if err != nil {
		return &sendError{class: "unreachable", doubtful: !isUnsent(err), err: fmt.Errorf("write the report: %w", err)}
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusCreated {
		return nil
	}
	return s.refused(resp)
}

// isUnsent reports whether a request cannot have come to anybody, since there was
// no connection.
func isUnsent(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial"
}

// trust makes the transport trust the CA bundle as it is now.
func (s *sender) trust() error {
	if s.own == nil && s.client.Transport != nil {
		return nil
	}
	ca, err := readSmall(s.caFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the CA bundle: %w", err)
	}
	if s.own != nil && ca == s.ca {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return fmt.Errorf("read the CA bundle: %s holds no certificate", s.caFile)
		}
	}
	// Writes are far apart: a kept connection would only be one more to hold
	// for the API server.
	s.own = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, DisableKeepAlives: true}
	s.ca, s.client.Transport = ca, s.own
	return nil
}

func (s *sender) refused(resp *http.Response) *sendError {
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	var status struct {
		Message string `json:"message"`
	}
	// What is not a Status of the API server (a proxy's page) says nothing.
	_ = json.Unmarshal(answer, &status)
	err := fmt.Errorf("write the report: the API server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if status.Message != "" {
		err = fmt.Errorf("%w: %s", err, clip(status.Message, MaxMessageLength))
	}
	return &sendError{
		class:      strconv.Itoa(resp.StatusCode),
		retryAfter: retryafter.Parse(resp.Header.Get("Retry-After"), s.clock.Now(), maxRetryAfter),
		doubtful:   resp.StatusCode >= http.StatusInternalServerError,
		err:        err,
	}
}
