//go:build race

package fasthttpclient_test

// pools is how much more a call may allocate than where pools remember.
const pools = 4
