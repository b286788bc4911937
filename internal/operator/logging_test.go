package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func newTestLogger(t *testing.T, now func() time.Time) (*slog.Logger, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	log, err := NewLogger(&out, FormatText, slog.LevelInfo, now)
	if err != nil {
		t.Fatal(err)
	}
	return log, &out
}

func TestRepeatedErrorIsLoggedOnceAMinute(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	log, out := newTestLogger(t, func() time.Time { return now })
	away := errors.New("connection refused")
	say := func() { log.With("id", now.String()).Error("cannot watch", "err", away) }
	for _, step := range []struct {
		after time.Duration
		lines int
	}{{0, 1}, {time.Second, 1}, {58 * time.Second, 1}, {time.Second, 2}, {time.Second, 2}} {
		now = now.Add(step.after)
		say()
		if got := strings.Count(out.String(), "\n"); got != step.lines {
			t.Errorf("at %s: %d lines, want %d", now, got, step.lines)
		}
	}
	out.Reset()
	log.Error("cannot watch", "err", errors.New("something else"))
	log.Warn("without an error", "n", 1)
	log.Warn("without an error", "n", 2)
	log.Info("applied", "err", away)
	log.Info("applied", "err", away)
	if got := strings.Count(out.String(), "\n"); got != 5 {
		t.Errorf("%d lines: %s", got, out)
	}
}

func TestWhatTheEndCutsShortIsNotLogged(t *testing.T) {
	log, out := newTestLogger(t, time.Now)
	log.Error("read the body", "err", fmt.Errorf("reading: %w", context.Canceled))
	ctx, cancel := context.WithCancel(t.Context())
	ending := slog.New(&endingHandler{log.Handler(), ctx}).With("a", 1).WithGroup("g")
	cancel()
	ending.Error("received after the stop", "err", errors.New("lease lost"))
	ending.Info("stopped")
	if got := strings.Count(out.String(), "\n"); got != 1 || !strings.Contains(out.String(), "stopped") {
		t.Errorf("logged %s", out)
	}
}

func TestLogFormats(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger(&out, FormatJSON, slog.LevelWarn, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("no")
	log.Warn("yes")
	if !strings.HasPrefix(out.String(), "{") || strings.Contains(out.String(), "no") {
		t.Errorf("logged %s", out.String())
	}
	if _, err := NewLogger(&out, "xml", slog.LevelInfo, time.Now); err == nil || !strings.Contains(err.Error(), "text, json") {
		t.Errorf("the error is %v", err)
	}
}
