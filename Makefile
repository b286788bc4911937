# The first two targets are what most people want:
#   make demo   the main job, end to end, on a real API server
#   make test   all tests
# Everything is built into bin/, which git ignores.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := $(CURDIR)/bin
# hack/cluster, test/reload and test/oldest depend on other versions of
# Kubernetes and stay outside of the workspace; -trimpath makes the first two
# share the build cache.
OUTSIDE := GOWORK=off
# A result is never taken from the cache: many tests run programs and servers that
# the cache knows nothing of. The time limit ends a hung test. Packages that wait
# for servers more than they compute may overlap.
GOTEST := go test -count=1 -timeout 15m -p 4
# A module for each library that is heavy or sensitive to its version.
CLIENTLIB := $(addprefix ./clientlib/,... grpcclient/... grpcserver/... fasthttpclient/...) ./test/chain/...

.PHONY: help
help: ## Show the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: demo
demo: ## Run the main job end to end on a real API server. KEEP=1 stays up afterwards.
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/demo ./hack/demo
	$(BIN)/demo

# The last two wait for servers most of the time, so they run beside each other.
.PHONY: test
test: check test-clientlib test-oldest ## Run all tests, with the race detector.
	+$(MAKE) --no-print-directory -j2 test-operator test-outside

.PHONY: test-outside
test-outside: test-cluster test-reload test-bench test-httpclients test-fuzz

.PHONY: check
check: ## Check formatting and vet everything that builds quickly.
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "gofmt these files:"; echo "$$unformatted"; exit 1; fi
	go vet ./... $(CLIENTLIB) ./clientlib/kubesource/...

.PHONY: test-clientlib
test-clientlib: ## Test the client library and its adapters.
	$(GOTEST) -race $(CLIENTLIB)

# The package that takes longest begins first.
.PHONY: test-operator
test-operator: ## Test operator, API and tools against a real API server.
test-operator: $(BIN)/cluster
	assets=$$($(BIN)/cluster build etcd kube-apiserver kube-controller-manager kubectl configmap-mounter); \
	KUBEBUILDER_ASSETS=$$assets $(GOTEST) -race ./test/integration ./... ./clientlib/kubesource/...

.PHONY: test-oldest
test-oldest: ## Hold the manifests against the oldest supported API server's own code.
	cd test/oldest && $(OUTSIDE) $(GOTEST) ./...

.PHONY: test-reload
test-reload: ## Test hot reload against the kubelet's own volume writer.
	cd test/reload && $(OUTSIDE) $(GOTEST) -race -trimpath ./...

.PHONY: test-bench
test-bench: ## Test that every client of the benchmarks does its work.
	cd bench && $(OUTSIDE) go vet ./... && $(OUTSIDE) $(GOTEST) ./...

# By number, not by time, so that a busy machine tries as much.
.PHONY: test-fuzz
test-fuzz: ## Fuzz the document parser for a moment.
	go test -run '^$$' -fuzz '^FuzzParse$$' -fuzztime 10000x -timeout 10m ./clientlib/document

.PHONY: test-httpclients
test-httpclients: ## Test libraries that are handed an HTTP client of ours.
	cd test/httpclients && $(OUTSIDE) $(GOTEST) -race ./...

.PHONY: test-cluster
test-cluster: ## Test the local control plane.
test-cluster: $(BIN)/cluster
	$(BIN)/cluster build >/dev/null
	cd hack/cluster && $(OUTSIDE) $(GOTEST) -race -trimpath ./...

# Always asked for: Go knows best whether there is something to do.
.PHONY: $(BIN)/cluster
$(BIN)/cluster:
	cd hack/cluster && $(OUTSIDE) CGO_ENABLED=0 go build -trimpath -o $@ .

.PHONY: cluster
cluster: $(BIN)/cluster ## Start etcd, API server and controller-manager on loopback, until Ctrl-C.
	exec $(BIN)/cluster up

.PHONY: generate
generate: ## Generate deep copies, apply configurations, CRDs and roles.
	go generate ./...

FUZZ := FuzzParse
PACKAGE := ./clientlib/document
.PHONY: fuzz
fuzz: ## Fuzz the document parser for FUZZTIME=10m, or FUZZ=FuzzHeader PACKAGE=./clientlib/deadline.
	go test -run '^$$' -fuzz '^$(FUZZ)$$' -fuzztime $(or $(FUZZTIME),10m) -fuzzminimizetime 20x $(PACKAGE)

.PHONY: bench
bench: $(BIN)/bench ## Measure call path and reload beside peers; ARGS='-only ^stub/ -o raw.txt'.
	$(BIN)/bench $(ARGS)

.PHONY: $(BIN)/bench
$(BIN)/bench:
	cd bench && $(OUTSIDE) go build -o $@ .

.PHONY: scale
scale: $(BIN)/cluster ## Load the operator with ten thousand reports, then with ten thousand policies; exit 1 on a missed bar.
	assets=$$($(BIN)/cluster build etcd kube-apiserver kube-controller-manager kubectl); \
	KUBEBUILDER_ASSETS=$$assets go run ./test/scale/reports; \
	KUBEBUILDER_ASSETS=$$assets go run ./test/scale/policies

# The files are for go tool pprof.
PROFILES := $(BIN)/profiles
.PHONY: profile
profile: profile-client profile-operator ## Profile the hot paths into bin/profiles/.

.PHONY: profile-client
profile-client: $(BIN)/bench
	mkdir -p $(PROFILES)
	for group in stub loopback loopback-h2 grpc reload; do \
		$(BIN)/bench -only "^$$group/(ours, all mech|$$)" -cpuprofile $(PROFILES)/$$group.cpu >/dev/null; \
		$(BIN)/bench -only "^$$group/(ours, all mech|$$)" -rounds 5 -memprofile $(PROFILES)/$$group.allocs >/dev/null; \
	done
	for group in stub-64 loopback-64; do \
		$(BIN)/bench -only "^$$group/ours, all mech" -mutexprofile $(PROFILES)/$$group.mutex -blockprofile $(PROFILES)/$$group.block >/dev/null; \
	done
	go tool pprof -top -nodecount 25 $(BIN)/bench $(PROFILES)/stub.cpu
	@echo "Where callers wait for each other, net/http's own transport apart:"
	for profile in mutex block; do \
		go tool pprof -top -focus 'clientlib/(nethttp|engine)|clientprom.*recorder' $(BIN)/bench $(PROFILES)/stub-64.$$profile; \
		go tool pprof -top -focus 'clientlib/(nethttp|engine)|clientprom.*recorder' -ignore 'net/http\.\(\*(Transport|bodyEOFSignal)' $(BIN)/bench $(PROFILES)/loopback-64.$$profile; \
	done

# The plan and the documents by their benchmarks, the operator as a process under
# load: smaller than the load of ten thousand policies, of the same shape.
.PHONY: profile-operator
profile-operator: $(BIN)/cluster
	mkdir -p $(PROFILES)
	for package in internal/plan clientlib/document; do \
		name=$$(basename $$package); \
		go test -run '^$$' -bench . -o $(PROFILES)/$$name.test -cpuprofile $(PROFILES)/$$name.cpu -memprofile $(PROFILES)/$$name.allocs ./$$package; \
		go tool pprof -top -cum -nodecount 25 $(PROFILES)/$$name.test $(PROFILES)/$$name.cpu; \
	done
	assets=$$($(BIN)/cluster build etcd kube-apiserver kubectl); \
	KUBEBUILDER_ASSETS=$$assets go run ./test/scale/policies -policies 2000 -namespaces 100 -profiles $(PROFILES)

.PHONY: build
build: ## Build manager and kubectl plugin into bin/.
	go build -o $(BIN)/manager ./cmd/manager
	go build -o $(BIN)/kubectl-timeouts ./cmd/kubectl-timeouts

.PHONY: lint
lint: ## Run golangci-lint, which has to be installed.
	golangci-lint run ./...
	cd clientlib && golangci-lint run ./...

.PHONY: clean
clean: ## Delete bin/, the control plane's binaries included.
	rm -rf $(BIN)
