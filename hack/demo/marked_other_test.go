//go:build !linux

package main

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// running is a process of a performance.
type running struct {
	pid  int
	name string
}

// marked returns the processes that were started with a word in their
// environment, such as "DEMO_TEST=d-123", as ps shows it to their owner.
func marked(word string) []running {
	output, err := exec.Command("ps", "-E", "-ww", "-o", "pid=,command=").Output()
	if err != nil {
		return nil
	}
	var found []running
	for line := range strings.Lines(string(output)) {
		fields := strings.Fields(line)
		if len(fields) > 1 && strings.Contains(line, word) {
			pid, _ := strconv.Atoi(fields[0])
			found = append(found, running{pid, filepath.Base(fields[1])})
		}
	}
	return found
}
