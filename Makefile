# icehose: run it, test it, measure it. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

export CGO_ENABLED := 0

GOLANGCI_LINT_VERSION := v2.15.0
TOOLS := $(CURDIR)/.tools
LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)
SEED ?= 1
SEEDS ?= 20
LAKE ?= icehose-demo
FUZZTIME ?= 30s

# The first build compiles Iceberg and Arrow, which takes minutes: show each
# package that is done, and let errors through.
ALIVE := awk '/^[A-Za-z0-9._\/-]+$$/ { n++; printf "\r  %d packages compiled", n; next } { print } END { if (n) printf "\n" }'

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: bin/icehose
bin/icehose:
	@mkdir -p bin
	@echo "building bin/icehose (the first time this takes minutes)"
	@go build -v -trimpath -o bin/icehose ./cmd/icehose 2>&1 | $(ALIVE)

.PHONY: run
run: bin/icehose ## carry a recorded database into a local lake and prove the result
	@./bin/icehose demo --seed $(SEED) --lake $(LAKE)

.PHONY: test
test: ## unit, property and command tests; needs only Go
	@echo "testing (the first time this compiles for minutes)"
	@go build -v ./... 2>&1 | $(ALIVE)
	go test ./...

.PHONY: test-postgres
test-postgres: ## tests that start a private PostgreSQL from the installed server binaries
	go test -tags postgres -timeout 20m ./internal/pgtest/... ./internal/tpcc/... ./internal/dmssim/... ./cmd/icehose/...

.PHONY: test-system
test-system: ## tests that mount small file systems; needs root
	go test -tags system -run 'Disk|ReadOnly' ./cmd/icehose/

.PHONY: check
check: test lint ## test and lint, and that the module files are tidy
	go mod tidy -diff

.PHONY: lint
lint: $(LINT) ## formatting, static checks and the import rules
	$(LINT) config verify
	$(LINT) fmt --diff
	$(LINT) run --timeout 15m --build-tags postgres,system

$(LINT):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv $(TOOLS)/golangci-lint $@

.PHONY: seeds
seeds: bin/icehose ## the demo under SEEDS different deliveries; each must end equal
	@lake=$$(mktemp -d); trap 'rm -rf "$$lake"' EXIT; \
	for seed in $$(seq 1 $(SEEDS)); do \
		./bin/icehose demo --seed $$seed --lake "$$lake/$$seed" >"$$lake/out" 2>&1 || { cat "$$lake/out"; echo "seed $$seed failed"; exit 1; }; \
		echo "seed $$seed: $$(tail -n 1 "$$lake/out")"; rm -rf "$$lake/$$seed"; \
	done

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME
	@grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do \
		grep -oE '^func Fuzz[A-Za-z]+' "$$file" | sed 's/func //' | while read -r target; do \
			echo "fuzz $$target in $$(dirname "$$file")"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" </dev/null; \
		done; \
	done

.PHONY: bench
bench: ## benchmarks of decode, transform and the row hash
	go test -run '^$$' -bench . -benchmem -count 5 ./cdc/... ./transform/... ./internal/canon/... ./reconcile/... ./sink/...

.PHONY: build
build: bin/icehose ## the command line program

.PHONY: golden
golden: ## write every golden file anew; the diff is for a person to read
	go test $$(grep -rl 'flag.Bool("update"' --include='*_test.go' . | xargs -n 1 dirname | sort -u) -update

.PHONY: record
record: ## record testdata/events/tpcc again from a private PostgreSQL
	go run ./internal/tpcc/record -out testdata/events/tpcc
