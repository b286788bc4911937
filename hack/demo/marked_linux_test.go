package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// running is a process of a performance.
type running struct {
	pid  int
	name string
}

// marked returns the processes that were started with a word in their
// environment, such as "DEMO_TEST=d-123".
func marked(word string) []running {
	var found []running
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		// A process that has ended, but was not waited for, has an empty one.
		environment, err := os.ReadFile(path)
		if err != nil || !slices.Contains(strings.Split(string(environment), "\x00"), word) {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "comm"))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		found = append(found, running{pid, strings.TrimSpace(string(name))})
	}
	return found
}

func TestParseStat(t *testing.T) {
	for text, want := range map[string]process{
		"42 (etcd) S 7 42 42 0 -1":        {pid: 42, parent: 7, name: "etcd"},
		"43 (a (very) odd) name) Z 8 1 1": {pid: 43, parent: 8, name: "a (very) odd) name", ended: true},
		"":                                {},
	} {
		if got := parseStat(text); got != want {
			t.Errorf("parseStat(%q) = %+v, want %+v", text, got, want)
		}
	}
}
