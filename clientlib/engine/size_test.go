package engine

import (
	"testing"
	"unsafe"
)

// What every call writes of the spare timer is in one line of the processor's cache,
// which has to be fetched when another core made the last call. The other half of
// this is clock's TestWhatStartAndStopWriteIsCloseTogether.
func TestTheSpareTimerIsWrittenInOneLine(t *testing.T) {
	const line, alarms = 64, 40
	var timer scopeTimer
	if size := unsafe.Sizeof(timer); size%line != 0 && unsafe.Sizeof(uintptr(0)) == 8 {
		t.Errorf("%d bytes: only a size of whole lines begins with one", size)
	}
	if at := unsafe.Offsetof(timer.alarm); at > line-alarms {
		t.Errorf("the alarm begins at %d, which leaves less than %d bytes of the line", at, alarms)
	}
}
