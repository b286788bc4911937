//go:build race

package grpcclient_test

// forgotten is how many more allocations a call may take where pools forget, as
// those of the race detector do.
const forgotten = 6
