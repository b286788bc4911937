package build

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOldGo(t *testing.T) {
	tests := []struct {
		have, want string
		old        bool
	}{
		{"go1.26.0", "1.26.0", false},
		{"go1.26.8", "1.26.0", false},
		{"go1.27rc1", "1.26.0", false},
		{"go1.26.8 X:nocoverageredesign", "1.26.0", false},
		{"devel go1.28-abc", "1.26.0", false},
		{"go1.25.9", "1.26.0", true},
		{"go1.26rc1", "1.26.0", true},
	}
	for _, tt := range tests {
		if err := oldGo(tt.have, tt.want); (err != nil) != tt.old {
			t.Errorf("%s for %s: %v, want old %v", tt.have, tt.want, err, tt.old)
		}
	}
}

func TestExplain(t *testing.T) {
	base := errors.New("exit status 1")
	tests := []struct{ output, want string }{
		{"go: go.mod requires go >= 1.26.0 (running go 1.24.1; GOTOOLCHAIN=local)\n", "this Go is too old"},
		{"verifying k8s.io/api@v0.37.2: checksum mismatch\n", "restore both from git"},
		{"go: module lookup disabled by GOPROXY=off\n", "set GOPROXY"},
		{"k8s.io/api/core/v1: compile: signal: killed\n", "lack of memory"},
		{"", "build x: exit status 1"},
		{"1\n2\n3\n4\n5\n6\nlast\n", "go said:\n3\n4\n5\n6\nlast"},
	}
	for _, tt := range tests {
		got := explain("build x", tt.output, base).Error()
		if !strings.HasPrefix(got, "build x: ") || !strings.Contains(got, tt.want) {
			t.Errorf("%q is explained as %q, want %q in it", tt.output, got, tt.want)
		}
	}
}

func TestDiskCheckAddsUpFoldersOfOneDisk(t *testing.T) {
	tc := toolchain{GOCACHE: "/home/cache", GOMODCACHE: "/home/mod", GOTMPDIR: "/tmp"}
	pending := []target{{name: "small", bytes: 10}, {name: "large", bytes: 100_000_000}}
	all := needs(pending, 1000, tc, "/home/bin") // 1.5 GB cache, 0.2 GB binaries on /home; 0.2 GB on /tmp
	disks := func(home, tmp uint64) func(string) (disk, error) {
		return func(folder string) (disk, error) {
			if strings.HasPrefix(folder, "/home/") {
				return disk{1, home}, nil
			}
			return disk{2, tmp}, nil
		}
	}
	if err := checkDisk(all, disks(2e9, 1e9)); err != nil {
		t.Errorf("enough: %v", err)
	}
	err := checkDisk(all, disks(18e8, 1e9))
	want := "not enough free disk: 1.9 GB needed, 1.8 GB free, for build cache in /home/cache and binaries in /home/bin"
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line that begins with %q", err, want)
	}
	if err := checkDisk(all, disks(2e9, 1e8)); err == nil || !strings.Contains(err.Error(), "linking in /tmp") {
		t.Errorf("error %v, want one that names /tmp", err)
	}
}

func TestStatDiskOfAFolderThatIsNotThereYet(t *testing.T) {
	here := t.TempDir()
	a, errA := statDisk(here)
	b, errB := statDisk(here + "/not/there")
	if errA != nil || errB != nil || a.device != b.device || b.free == 0 {
		t.Errorf("%+v, %v and %+v, %v; want the same disk", a, errA, b, errB)
	}
}

func TestModulesNeedNoDiskOnceTheyAreThere(t *testing.T) {
	tc := toolchain{GOMODCACHE: t.TempDir()}
	if got := moduleNeeds(tc, "v1.37.2"); len(got) != 1 || got[0].folder != tc.GOMODCACHE {
		t.Errorf("needs %v, want one in the module cache", got)
	}
}

func TestPace(t *testing.T) {
	tests := []struct {
		name    string
		p       pace
		elapsed time.Duration
		percent int
		left    time.Duration
	}{
		{"start: the measured pace", pace{0, 2740, 0, 4}, 0, 0, 380 * time.Second},
		{"little done: still the measured pace", pace{100, 1000, 0, 1}, 100 * time.Second, 9, 123 * time.Second},
		{"half done: its own pace", pace{500, 1000, 0, 1}, 100 * time.Second, 47, 106 * time.Second},
		{"all compiled, one to link", pace{1000, 1000, 3, 4}, 218 * time.Second, 96, 6 * time.Second},
		{"more announced than expected", pace{1100, 1000, 0, 1}, 100 * time.Second, 95, 6 * time.Second},
		{"nothing to compile", pace{0, 0, 1, 2}, 7 * time.Second, 50, 6 * time.Second},
		{"never a hundred before the end", pace{1000, 1000, 1, 1}, 7 * time.Second, 99, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.p.percent(); got != tt.percent {
				t.Errorf("%d%%, want %d%%", got, tt.percent)
			}
			if got := tt.p.left(tt.elapsed); got != tt.left {
				t.Errorf("%s left, want %s", got, tt.left)
			}
		})
	}
}

func TestTickerPrintsALineEveryTenSecondsAndInPlaceOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var plain, terminal bytes.Buffer
		say := func(elapsed time.Duration) string { return elapsed.String() }
		stopPlain, stopTerminal := ticker(&plain, false, say), ticker(&terminal, true, say)
		<-time.After(25500 * time.Millisecond) // by the clock of synctest
		stopPlain()
		stopTerminal()
		if got := plain.String(); got != "10s\n20s\n" {
			t.Errorf("plain %q", got)
		}
		if got := terminal.String(); strings.Count(got, "\r\x1b[K") != 26 || strings.Contains(got, "\n") || !strings.HasSuffix(got, "25s\r\x1b[K") {
			t.Errorf("terminal %q", got)
		}
	})
}

func TestReadPackagesTellsPackagesFromWhatGoSays(t *testing.T) {
	output := "go: downloading k8s.io/api v0.37.2\ninternal/abi\nk8s.io/api/core/v1\n# k8s.io/x\nx.go:1:2: undefined: y\n"
	announced := 0
	said := readPackages(strings.NewReader(output), func() { announced++ })
	if announced != 2 || said != "# k8s.io/x\nx.go:1:2: undefined: y\n" {
		t.Errorf("%d packages and %q", announced, said)
	}
}
