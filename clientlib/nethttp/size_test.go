package nethttp

import (
	"testing"
	"unsafe"
)

// A call is one allocation, of a size class of Go's allocator: 760 bytes and the
// allocator's own word of eight. One field too many makes it the next class, 128
// bytes more to clear and collect for every call.
func TestACallFitsItsSizeClass(t *testing.T) {
	const class = 768 - 8
	if size := unsafe.Sizeof(flight{}); unsafe.Sizeof(uintptr(0)) == 8 && size > class {
		t.Errorf("a flight has %d bytes, more than %d", size, class)
	} else {
		t.Logf("%d bytes", size)
	}
}
