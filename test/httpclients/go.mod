module github.com/timeout-operator/timeout-operator/test/httpclients

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/go-resty/resty/v2 v2.17.2
	github.com/prometheus/client_golang v1.25.0
	github.com/timeout-operator/timeout-operator/clientlib v0.0.0
	github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient v0.0.0
	github.com/timeout-operator/timeout-operator/clientlib/grpcclient v0.0.0
	github.com/valyala/fasthttp v1.78.0
	go.uber.org/goleak v1.3.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
	resty.dev/v3 v3.0.0-rc.4
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/molecule-man/go-brrr v1.3.1 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)

replace (
	github.com/timeout-operator/timeout-operator/clientlib => ../../clientlib
	github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient => ../../clientlib/fasthttpclient
	github.com/timeout-operator/timeout-operator/clientlib/grpcclient => ../../clientlib/grpcclient
)
