package nethttp

import "testing"

func TestIsEventStream(t *testing.T) {
	for contentType, want := range map[string]bool{
		"":                                      false,
		"text/event-stream":                     true,
		"Text/Event-Stream;charset=utf-8":       true,
		"text/event-stream ; charset=utf-8":     true,
		" \ttext/event-stream":                  true,
		"text/event-stream\t":                   true,
		"text/event-streams":                    false,
		"text/event-strea":                      false,
		"text/event-stream, text/plain":         false,
		"text/plain; charset=utf-8":             false,
		"text/plain;type=\"text/event-stream\"": false,
		"                     ":                 false,
	} {
		if got := isEventStream(contentType); got != want {
			t.Errorf("%q: %t, want %t", contentType, got, want)
		}
	}
}
