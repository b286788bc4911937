package main

import "context"

func (r *runner) profileCPU(context.Context, string) (func() error, error) {
	return func() error { return nil }, nil
}
func (r *runner) profileHeap(context.Context) error { return nil }
