package report

import (
	"os"
	"regexp"
	"strings"
)

// readMounts returns the mount table of the process; it fails where the system
// has none, as outside of Linux.
func readMounts() ([]byte, error) { return os.ReadFile("/proc/self/mountinfo") }

// containerFile is what the kubelet mounts into each container for its last
// words (terminationMessagePath): a file of the container's own folder.
var containerFile = regexp.MustCompile(`/pods/[^/]+/containers/([a-z0-9][-a-z0-9]{0,62})/[^/]+$`)

// containerOf reads the name of the container from its mount table, since the
// downward API does not tell it; empty when that does not say, or not clearly.
func containerOf(mounts func() ([]byte, error)) string {
	table, err := mounts()
	if err != nil {
		return ""
	}
	name := ""
	for line := range strings.Lines(string(table)) {
		// The fourth field is which part of its filesystem the mount shows: see
		// proc_pid_mountinfo(5).
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		found := containerFile.FindStringSubmatch(fields[3])
		switch {
		case found == nil:
		case name != "" && name != found[1]:
			return "" // somebody has the folders of others, such as a node's agent
		default:
			name = found[1]
		}
	}
	return name
}

// manager is the field manager of a container. The containers of a pod share its
// report, and the API server keeps apart what each of them says: an apply takes
// back what its own manager said before and no more. A pod that takes over the
// name of another one with several containers is refused for a second owner until
// the garbage collector took the old report away, and then tries again.
func manager(container string) string {
	if container == "" {
		return FieldManager
	}
	return FieldManager + "/" + clip(container, maxLabelLength)
}
