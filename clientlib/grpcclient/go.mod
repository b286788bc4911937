module github.com/timeout-operator/timeout-operator/clientlib/grpcclient

go 1.26.0

require github.com/timeout-operator/timeout-operator/clientlib v0.0.0

replace github.com/timeout-operator/timeout-operator/clientlib => ..
