package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
)

// result is what came of one call.
type result struct {
	// PID of this process, to see that it is the same one.
	PID int `json:"pid"`
	// Outcome is "success", a failure kind such as "TotalTimeout", "GaveUp" where
	// the caller's patience ended a call that no policy is for, or "Other".
	Outcome string `json:"outcome"`
	// Limit is whose limit ended the call: "policy", "budget" or "caller";
	// empty where none did.
	Limit string `json:"limit,omitempty"`
	// Status of the response, 0 for none.
	Status int `json:"status,omitempty"`
	// Attempts is how many requests were written.
	Attempts int `json:"attempts"`
	// Seconds from the call to the end of the response's body, or the error.
	Seconds float64 `json:"seconds"`
	// Bytes of the body that were delivered.
	Bytes int64 `json:"bytes"`
	// Error in words.
	Error string `json:"error,omitempty"`
	// Revision of the policy in force when the call began.
	Revision string `json:"revision,omitempty"`
}

// caller makes calls with an http.Client that obeys the policies of a client.
type caller struct {
	client   *clientlib.Client
	http     *http.Client
	upstream string // URL without a path
}

// ServeHTTP makes a GET of the same path and query at the upstream and answers
// with the result. The parameter "patience", a Go duration, is how long the
// caller itself would wait, whatever the policy says; absent: for ever.
func (c *caller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if text := r.URL.Query().Get("patience"); text != "" {
		patience, err := time.ParseDuration(text)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c.call(ctx, c.upstream+r.URL.RequestURI()))
}

func (c *caller) call(ctx context.Context, url string) result {
	out := result{PID: os.Getpid(), Revision: c.client.Status().Revision}
	var written atomic.Int64
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { written.Add(1) },
	})
	start := time.Now()
	err := c.fetch(ctx, url, &out)
	out.Seconds = time.Since(start).Seconds()
	out.Attempts = int(written.Load())
	out.judge(err)
	return out
}

func (c *caller) fetch(ctx context.Context, url string, out *result) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	out.Status = response.StatusCode
	out.Bytes, err = io.Copy(io.Discard, response.Body)
	return err
}

func (r *result) judge(err error) {
	if err == nil {
		r.Outcome = "success"
		return
	}
	r.Outcome, r.Error = "Other", err.Error()
	if failed, ok := errors.AsType[*clientlib.Error](err); ok {
		r.Outcome = failed.Kind.String()
		if failed.Timeout() {
			r.Limit = failed.Source.String()
		}
	} else if errors.Is(err, context.DeadlineExceeded) {
		r.Outcome, r.Limit = "GaveUp", "caller"
	}
}
