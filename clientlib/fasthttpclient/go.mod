module github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient

go 1.26.0

require (
	github.com/timeout-operator/timeout-operator/clientlib v0.0.0
	github.com/valyala/fasthttp v1.78.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/molecule-man/go-brrr v1.3.1 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/timeout-operator/timeout-operator/clientlib => ..
