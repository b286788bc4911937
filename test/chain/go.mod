module github.com/timeout-operator/timeout-operator/test/chain

go 1.26.0

require (
	github.com/timeout-operator/timeout-operator/clientlib v0.0.0
	github.com/timeout-operator/timeout-operator/clientlib/grpcclient v0.0.0
	github.com/timeout-operator/timeout-operator/clientlib/grpcserver v0.0.0
	go.uber.org/goleak v1.3.0
	google.golang.org/grpc v1.85.0
)

require (
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/timeout-operator/timeout-operator/clientlib => ../../clientlib
	github.com/timeout-operator/timeout-operator/clientlib/grpcclient => ../../clientlib/grpcclient
	github.com/timeout-operator/timeout-operator/clientlib/grpcserver => ../../clientlib/grpcserver
)
