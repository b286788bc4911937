package figures

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Machine is what a run was measured on, with what else it was doing.
type Machine struct {
	CPU   string    `json:"cpu"`
	Cores int       `json:"cores"`
	Go    string    `json:"go"`
	Load  string    `json:"loadBefore"`
	Start time.Time `json:"start"`
}

// NewMachine asks the operating system.
func NewMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), Start: time.Now().UTC().Truncate(time.Second)}
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(data), " ")
	}
	return m
}

// String names it in one line.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s, load average %s before the run, %s", m.CPU, m.Cores, m.Go, m.Load, m.Start.Format(time.RFC3339))
}
