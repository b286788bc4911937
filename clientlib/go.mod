module github.com/timeout-operator/timeout-operator/clientlib

go 1.25.0

require (
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.13.0 // indirect
)
