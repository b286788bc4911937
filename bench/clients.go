package main

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/go-resty/resty/v2"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// The limits that every client has, if it can have them.
const (
	total      = 10 * time.Second
	perAttempt = 5 * time.Second
	retries    = 2
)

// caller makes one GET and reads the body to its end.
type caller func(buffer []byte) error

// maker makes the caller of a goroutine.
type maker func() caller

func newRequest(url string) *http.Request {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		panic(err) // the URLs are ours
	}
	return req
}

func get(c *http.Client, req *http.Request, buffer []byte) error {
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = resp.Body.Read(buffer)
	}
	_ = resp.Body.Close()
	if err != io.EOF {
		return err
	}
	return nil
}

func plainly(c *http.Client, url string) maker {
	return func() caller {
		req := newRequest(url)
		return func(buffer []byte) error { return get(c, req, buffer) }
	}
}

// withTimeout is the one line that a policy replaces.
func withTimeout(c *http.Client, url string) maker {
	return func() caller {
		req := newRequest(url)
		return func(buffer []byte) error {
			ctx, cancel := context.WithTimeout(context.Background(), total)
			defer cancel()
			return get(c, req.WithContext(ctx), buffer)
		}
	}
}

// failsafeClient has what our rules have: total, retries with a budget, circuit
// breaker, attempt timeout.
func failsafeClient(base http.RoundTripper) *http.Client {
	return &http.Client{Transport: failsafehttp.NewRoundTripper(base, failsafePolicies(
		failsafehttp.NewRetryPolicyBuilder().WithMaxRetries(retries).WithBudget(budget.New()).Build())...)}
}

func failsafePolicies[R any](retry failsafe.Policy[R]) []failsafe.Policy[R] {
	return []failsafe.Policy[R]{
		timeout.New[R](total),
		retry,
		circuitbreaker.NewWithDefaults[R](),
		timeout.New[R](perAttempt),
	}
}

// retryableClient has retries only.
func retryableClient(base http.RoundTripper) *http.Client {
	c := retryablehttp.NewClient()
	c.Logger, c.RetryMax = nil, retries
	c.HTTPClient = &http.Client{Transport: base}
	return c.StandardClient()
}

// rehttpClient has retries only.
func rehttpClient(base http.RoundTripper) *http.Client {
	return &http.Client{Transport: rehttp.NewTransport(base,
		rehttp.RetryAll(rehttp.RetryMaxRetries(retries), rehttp.RetryTemporaryErr()), rehttp.ConstDelay(time.Millisecond))}
}

// restyCaller has a total and retries.
func restyCaller(base http.RoundTripper, url string) maker {
	c := resty.NewWithClient(&http.Client{Transport: base}).SetTimeout(total).SetRetryCount(retries)
	return func() caller {
		return func([]byte) error {
			_, err := c.R().Get(url)
			return err
		}
	}
}

// httpCases are the clients of a group on one base; run turns a maker into the
// work of a case. The client of ours without a policy for the host calls
// elsewhere, all others call url.
func httpCases(base http.RoundTripper, url, host, elsewhere string, run func(maker) func(int) error) ([]*testCase, func(), error) {
	var l closers
	cases := []*testCase{
		{name: caseBare, run: run(plainly(&http.Client{Transport: base}, url))},
		{name: casePlain, run: run(withTimeout(&http.Client{Transport: base}, url))},
		{name: "Client.Timeout", run: run(plainly(&http.Client{Transport: base, Timeout: total}, url))},
	}
	for _, own := range []struct {
		name, rules, host, url string
		options                []clientlib.Option
	}{
		{caseUnlimited, allRules, "nobody.example", elsewhere, []clientlib.Option{metrics()}},
		{"ours, total only, no metrics", `"timeouts":{"total":"10s"}`, host, url, nil},
		{"ours, all but metrics", allRules, host, url, nil},
		{caseAll, allRules, host, url, []clientlib.Option{metrics()}},
		{"ours, all and deadline header", headerRules, host, url, []clientlib.Option{metrics()}},
	} {
		c, err := client(own.host, own.rules, own.options...)
		if err != nil {
			return nil, l.close, err
		}
		l.add(func() { _ = c.Close() })
		cases = append(cases, &testCase{name: own.name, run: run(plainly(&http.Client{Transport: nethttp.NewTransport(c, base)}, own.url))})
	}
	cases = append(cases,
		&testCase{name: "failsafehttp " + version("github.com/failsafe-go/failsafe-go"), full: true, run: run(plainly(failsafeClient(base), url))},
		&testCase{name: "go-retryablehttp " + version("github.com/hashicorp/go-retryablehttp") + " (retries only)", run: run(plainly(retryableClient(base), url))},
		&testCase{name: "rehttp " + version("github.com/PuerkitoBio/rehttp") + " (retries only)", run: run(plainly(rehttpClient(base), url))},
		&testCase{name: "resty " + version("github.com/go-resty/resty/v2") + " (total, retries)", run: run(restyCaller(base, url))},
	)
	return cases, l.close, nil
}
