module github.com/timeout-operator/timeout-operator/test/httpclients

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/go-resty/resty/v2 v2.17.2
	github.com/timeout-operator/timeout-operator/clientlib v0.0.0
	go.uber.org/goleak v1.3.0
	google.golang.org/protobuf v1.36.12
	resty.dev/v3 v3.0.0-rc.4
)

require (
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	golang.org/x/net v0.43.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/timeout-operator/timeout-operator/clientlib => ../../clientlib
