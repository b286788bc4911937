package plane

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process takes.
type Usage struct {
	// RSS is the resident memory now, PeakRSS the most it ever had, in bytes.
	RSS     int64 `json:"rss"`
	PeakRSS int64 `json:"peakRSS"`
	// CPU is the processor time since its start, user and system.
	CPU time.Duration `json:"cpu"`
}

// clockTick is the unit of /proc/PID/stat: USER_HZ, 100 on every Linux.
const clockTick = time.Second / 100

// Usage asks the operating system, which must be Linux.
func (o *Operator) Usage() (Usage, error) {
	return usageOf(o.command.Process.Pid)
}

func usageOf(pid int) (Usage, error) {
	var u Usage
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib := strings.TrimSuffix(strings.TrimSpace(value), " kB")
		switch name {
		case "VmRSS":
			u.RSS, err = kibibytes(kib)
		case "VmHWM":
			u.PeakRSS, err = kibibytes(kib)
		}
		if err != nil {
			return u, fmt.Errorf("/proc/%d/status: %w", pid, err)
		}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	// The name, in brackets, may have spaces. After it come state and ten
	// numbers, then utime and stime (proc_pid_stat(5)).
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return u, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		u.CPU += time.Duration(ticks) * clockTick
	}
	return u, nil
}

func kibibytes(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n << 10, err
}
