package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Log formats.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// NewLogger returns a logger that writes lines of a format, from a level on. It
// leaves out what libraries repeat: a line about the same error is written once
// a minute at most, so that an API server that is away for an hour does not fill
// the log. now is the clock.
func NewLogger(w io.Writer, format string, level slog.Level, now func() time.Time) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler
	switch format {
	case FormatText:
		handler = slog.NewTextHandler(w, options)
	case FormatJSON:
		handler = slog.NewJSONHandler(w, options)
	default:
		return nil, fmt.Errorf("log format %q is not one of %s, %s", format, FormatText, FormatJSON)
	}
	return slog.New(&onceHandler{Handler: handler, seen: &seen{now: now, last: map[string]time.Time{}}}), nil
}

const repeatAfter = time.Minute

// onceHandler drops lines about an error that was told within the last minute,
// and those that only say that the process is ending. It goes by the message and
// the error, not by the other attributes: those often carry an id that makes
// each line a new one.
type onceHandler struct {
	slog.Handler
	seen *seen
}

func (h *onceHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelWarn {
		err := errorOf(record)
		if errors.Is(err, context.Canceled) || err != nil && !h.seen.first(record.Message+"\x00"+err.Error()) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, record)
}

func (h *onceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &onceHandler{Handler: h.Handler.WithAttrs(attrs), seen: h.seen}
}

func (h *onceHandler) WithGroup(name string) slog.Handler {
	return &onceHandler{Handler: h.Handler.WithGroup(name), seen: h.seen}
}

// endingHandler lowers what is logged as an error after the context has ended
// to the level of debugging: a manager that is stopped reports each part of it
// that stops.
type endingHandler struct {
	slog.Handler
	ended context.Context
}

func (h *endingHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelError && h.ended.Err() != nil {
		if !h.Handler.Enabled(ctx, slog.LevelDebug) {
			return nil
		}
		record.Level = slog.LevelDebug
	}
	return h.Handler.Handle(ctx, record)
}

func (h *endingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &endingHandler{h.Handler.WithAttrs(attrs), h.ended}
}

func (h *endingHandler) WithGroup(name string) slog.Handler {
	return &endingHandler{h.Handler.WithGroup(name), h.ended}
}

// errorOf returns the error that a record carries, or nil.
func errorOf(record slog.Record) (found error) {
	record.Attrs(func(attr slog.Attr) bool {
		if err, ok := attr.Value.Any().(error); ok {
			found = err
		}
		return found == nil
	})
	return found
}

// seen remembers when a line was written last.
type seen struct {
	now func() time.Time

	mu   sync.Mutex
	last map[string]time.Time
}

// first reports whether the line is due, and records that it is written.
func (s *seen) first(line string) bool {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for old, at := range s.last {
		if now.Sub(at) >= repeatAfter {
			delete(s.last, old)
		}
	}
	if _, repeated := s.last[line]; repeated {
		return false
	}
	s.last[line] = now
	return true
}
