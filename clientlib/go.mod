module github.com/timeout-operator/timeout-operator/clientlib

go 1.25.0
