package main

import (
	"fmt"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// lookupGroup looks calls up in snapshots of 5 and of 5,000 upstreams. The five
// hosts that a program calls again and again are what a lookup meets; all of
// 5,000 in turns also tell what the processor's caches have to do with it.
func lookupGroup(name, title, pattern, host string) *group {
	return &group{
		name: name, title: title, base: "5 upstreams", plain: "5 upstreams",
		open: func() ([]*testCase, func(), error) {
			var cases []*testCase
			for _, c := range []struct {
				name              string
				upstreams, called int
			}{
				{"5 upstreams", 5, 5},
				{"5000 upstreams", 5000, 5},
				{"5000 upstreams, each in turn", 5000, 5000},
			} {
				run, err := lookups(c.upstreams, c.called, pattern, host)
				if err != nil {
					return nil, func() {}, err
				}
				cases = append(cases, &testCase{name: c.name, run: run})
			}
			return cases, func() {}, nil
		},
	}
}

func lookups(upstreams, called int, pattern, host string) (func(int) error, error) {
	doc, err := parse(policies(upstreams, func(i int) string { return fmt.Sprintf(pattern, i) }, `"timeouts":{"total":"10s"}`))
	if err != nil {
		return nil, err
	}
	e := engine.New(engine.Options{})
	e.Swap(doc)
	hosts := make([]string, called)
	for i := range hosts {
		hosts[i] = fmt.Sprintf(host, i*(upstreams/called))
	}
	call := document.Call{Method: "GET", Path: "/v1/orders"}
	return func(n int) error {
		for at := 0; n > 0; n-- {
			if e.Snapshot().Lookup(hosts[at], 8080, call) == nil {
				return fmt.Errorf("no policy for %s", hosts[at])
			}
			if at++; at == len(hosts) {
				at = 0
			}
		}
		return nil
	}, nil
}
