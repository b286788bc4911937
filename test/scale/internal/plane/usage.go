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

// ServerCPU is the processor time that API server and etcd of the plane have
// taken since their start.
func (p *Plane) ServerCPU() (time.Duration, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	total := time.Duration(0)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !isServer(pid) {
			continue
		}
		usage, err := usageOf(pid)
		if err != nil {
			return 0, err
		}
		total += usage.CPU
	}
	return total, nil
}

// isServer reports whether a process is an API server or etcd that this process
// started.
func isServer(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false // it has ended meanwhile
	}
	_, after, _ := strings.Cut(string(stat), "(")
	name, after, _ := strings.Cut(after, ") ")
	fields := strings.Fields(after)
	if name != "kube-apiserver" && name != "etcd" || len(fields) < 2 {
		return false
	}
	parent, err := strconv.Atoi(fields[1])
	return err == nil && parent == os.Getpid()
}
