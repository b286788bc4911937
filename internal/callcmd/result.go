package callcmd

import (
	"encoding/json"
	"strconv"
	"time"
)

// Result is one call. In JSON, times are milliseconds.
type Result struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	// Client and Revision of the document.
	Client   string `json:"client,omitempty"`
	Revision string `json:"revision,omitempty"`
	// Upstream and Route of the document that apply; no upstream means that the
	// document does not name the host.
	Upstream string `json:"upstream,omitempty"`
	Route    string `json:"route,omitempty"`
	// Attempts are all requests, hops of redirects included.
	Attempts []Attempt `json:"attempts"`
	// Body of the final response; absent without one.
	Body *Body `json:"body,omitempty"`
	// WouldCut lists what mode Shadow left alone: limits, and "retry".
	WouldCut []string `json:"wouldCut,omitempty"`

	// OK says that the call and its body succeeded.
	OK bool `json:"ok"`
	// Kind of the failure, empty for none.
	Kind string `json:"kind,omitempty"`
	// Status of the final response; 0 for none and for gRPC.
	Status int `json:"status,omitempty"`
	// Code of a gRPC call, such as UNAVAILABLE; empty for HTTP.
	Code string `json:"code,omitempty"`
	// Took is the time until the body ended, or the error.
	Took Millis `json:"tookMs"`
	// Field and Limit say which limit of the policy passed, Source whose it was.
	Field  string `json:"field,omitempty"`
	Limit  Millis `json:"limitMs,omitempty"`
	Source string `json:"source,omitempty"`
	// Skip is why the last attempt was not repeated.
	Skip string `json:"skip,omitempty"`
	// RetryAfter is when an open circuit or the peer lets the next call through.
	RetryAfter Millis `json:"retryAfterMs,omitempty"`
	Error      string `json:"error,omitempty"`
}

// Attempt is one request.
type Attempt struct {
	Number int    `json:"number"`
	Method string `json:"method"`
	URL    string `json:"url"`
	OK     bool   `json:"ok"`
	// Kind of the failure, empty for none.
	Kind string `json:"kind,omitempty"`
	// Status of the response; 0 for none and for gRPC.
	Status int `json:"status,omitempty"`
	// Code of an attempt at a gRPC call; empty for HTTP and where none came.
	Code string `json:"code,omitempty"`
	// Started is the time since the call began, Took that until the headers or
	// the error.
	Started Millis `json:"startedMs"`
	Took    Millis `json:"tookMs"`
	// Left is what was left of the call at the attempt's end; absent where
	// nothing limits it.
	Left *Millis `json:"leftMs,omitempty"`
	// Retried says that another attempt followed, Wait after how long.
	Retried bool   `json:"retried"`
	Wait    Millis `json:"waitMs,omitempty"`
	// Skip is why no other attempt followed, where one was asked for: attempts,
	// method, non_replayable, deadline or budget.
	Skip string `json:"skip,omitempty"`
}

// Body is the body of the final response.
type Body struct {
	Bytes int64 `json:"bytes"`
	// Messages of a gRPC response; 0 for HTTP.
	Messages int `json:"messages,omitempty"`
	// Took is the time from the headers to the end.
	Took Millis `json:"tookMs"`
	OK   bool   `json:"ok"`
	// Kind of the failure that cut it, empty for none.
	Kind string `json:"kind,omitempty"`
}

// Millis is a duration that JSON has in milliseconds, to the microsecond.
type Millis time.Duration

// MarshalJSON writes a number such as 12.345.
func (m Millis) MarshalJSON() ([]byte, error) {
	ms := float64(time.Duration(m).Microseconds()) / 1000
	return strconv.AppendFloat(nil, ms, 'f', -1, 64), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (m *Millis) UnmarshalJSON(data []byte) error {
	var ms float64
	if err := json.Unmarshal(data, &ms); err != nil {
		return err
	}
	*m = Millis(ms * float64(time.Millisecond))
	return nil
}

// String rounds for people.
func (m Millis) String() string {
	d := time.Duration(m)
	if d >= 10*time.Millisecond {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
