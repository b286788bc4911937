package clock

import (
	"testing"
	"unsafe"
)

// Who embeds an alarm counts on that, see engine's TestTheSpareTimerIsWrittenInOneLine.
func TestWhatStartAndStopWriteIsCloseTogether(t *testing.T) {
	var a Alarm
	if end := unsafe.Offsetof(a.timeline) + unsafe.Sizeof(a.timeline); end > 40 {
		t.Errorf("it takes %d bytes", end)
	}
}
