module github.com/timeout-operator/timeout-operator/clientlib/grpcclient

go 1.26.0

require (
	github.com/timeout-operator/timeout-operator/clientlib v0.0.0
	go.uber.org/goleak v1.3.0
	golang.org/x/net v0.60.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)

replace github.com/timeout-operator/timeout-operator/clientlib => ..
