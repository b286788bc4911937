// Command policies loads a control plane of its own with very many policies, runs
// the operator against it, and measures what it takes: from a start with nothing
// rendered, idle, edit by edit, in a burst, through deletions and a restart, and
// with policies that go into the documents of very many clients.
//
//	go run ./test/scale/policies                   10,000 policies in 500 namespaces
//	go run ./test/scale/policies -policies 1000 -namespaces 50
//	go run ./test/scale/policies -o json
//
// Every figure that the operator has to keep to is printed with its bar; the exit
// status is 1 when one is missed. Everything listens on loopback only and is gone
// afterwards.
package main
