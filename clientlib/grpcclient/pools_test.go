//go:build !race

package grpcclient_test

// forgotten is how many more allocations a call may take where pools forget.
const forgotten = 0
