package adaptertest

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ServeHTTP does what the request asks for.
func (h *HTTPServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	does := Feature(q.Get("does"))
	seen := Seen{
		Deadline: -1, Connection: r.Context().Value(connectionKey{}).(int),
		Header: strings.Join(r.Header.Values(DeadlineHeader), ", "),
	}
	if ms, err := strconv.ParseInt(r.Header.Get(DeadlineHeader), 10, 64); err == nil {
		seen.Deadline = time.Duration(ms) * time.Millisecond
	}
	index, number := h.note(does, seen)
	if does != Unread {
		body, _ := io.ReadAll(r.Body)
		seen.Body = string(body)
		h.mu.Lock()
		h.seen[index] = seen
		h.mu.Unlock()
	}
	defer func() {
		if r.Context().Err() != nil {
			h.left.Add(1)
		}
	}()
	h.behave(w, r, does, seen, number)
}

// behave does what clienttest.Origin has words for by its words.
func (h *HTTPServer) behave(w http.ResponseWriter, r *http.Request, does Feature, seen Seen, number int) {
	ask := func(path string, set ...string) {
		q := r.URL.Query()
		for i := 0; i < len(set); i += 2 {
			q.Set(set[i], set[i+1])
		}
		asked := r.Clone(r.Context())
		asked.URL.Path, asked.URL.RawQuery, asked.Body = path, q.Encode(), http.NoBody
		h.origin.ServeHTTP(w, asked)
	}
	times, _ := strconv.Atoi(r.URL.Query().Get("times"))
	switch does {
	case Fails:
		if times > 0 && number > times {
			answer(w, seen.Body)
			return
		}
		ask("/status", "code", "503", "times", "0")
	case Refuses:
		ask("/status", "code", "400", "times", "0")
	case Breaks:
		ask("/status", "code", "500", "times", "0")
	case Drips:
		ask("/drip")
	case Streams:
		ask("/events")
	case Resets:
		ask("/rst")
	case Cuts:
		ask("/abort", "n", "8")
	case Garbles:
		ask("/garbage")
	case Redirects:
		if times > 0 {
			ask("/redirect", "n", "1", "to", redirectTarget(r, times-1))
			return
		}
		answer(w, seen.Body)
	case Waits, Unread:
		if h.wait(r) {
			answer(w, seen.Body)
		}
	case Stops:
		h.stop(w, r)
	case Forgets:
		if h.knows(seen.Connection) {
			ask("/reset")
			return
		}
		answer(w, seen.Body)
	default:
		answer(w, seen.Body)
	}
}

// stop sends a part of a body, and its end late.
func (h *HTTPServer) stop(w http.ResponseWriter, r *http.Request) {
	pieces, _ := strconv.Atoi(r.URL.Query().Get("n"))
	w.Header().Set("Content-Type", "application/octet-stream")
	fmt.Fprint(w, strings.Repeat("x", pieces))
	// A client that has gone is found out by the wait.
	_ = http.NewResponseController(w).Flush()
	h.wait(r)
}

// knows reports whether a connection had a request before.
func (h *HTTPServer) knows(connection int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.forgotten[connection]
	h.forgotten[connection] = true
	return known
}

func redirectTarget(r *http.Request, times int) string {
	q := r.URL.Query()
	q.Set("times", strconv.Itoa(times))
	return "/call?" + q.Encode()
}

func answer(w http.ResponseWriter, body string) {
	if body == "" {
		body = "ok"
	}
	fmt.Fprint(w, body)
}

// wait sleeps for the delay that the request asks for, unless its client leaves.
func (h *HTTPServer) wait(r *http.Request) bool {
	delay, _ := time.ParseDuration(r.URL.Query().Get("delay"))
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	case <-h.closing:
		return false
	}
}
