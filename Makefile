# icehose: run it, test it, measure it. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

export CGO_ENABLED := 0

GOLANGCI_LINT_VERSION := v2.15.0
TOOLS := $(CURDIR)/.tools
LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)
LAMBDA_RIE_VERSION := v0.0.0-20261030222936-bef5c4ba774d
LAMBDA_RIE := $(TOOLS)/aws-lambda-rie-$(LAMBDA_RIE_VERSION)
INTEROP := $(TOOLS)/interop
# A file that make build puts into the Lambda zips, as pipeline.yaml.
PIPELINE ?=
# Where the compiler learns what is hot in the transform.
PGO := bench/transform.pgo
SEED ?= 1
SEEDS ?= 20
LAKE ?= icehose-demo
FUZZTIME ?= 30s

# The first build compiles Iceberg and Arrow, which takes minutes: say how many
# packages are done, and let errors through.
ALIVE := awk '/^[A-Za-z0-9._\/-]+$$/ { if (++n % 25 == 0) { print "  " n " packages compiled"; fflush() } next } { print }'

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: bin/icehose
bin/icehose:
	@mkdir -p bin
	@echo "building bin/icehose (the first time this takes minutes)"
	@go build -v -o bin/icehose ./cmd/icehose 2>&1 | $(ALIVE)

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
	go test -tags postgres -timeout 20m ./internal/pgtest/... ./internal/tpcc/... ./internal/dmssim/... ./catalog/postgres/... ./cmd/icehose/...

.PHONY: test-mariadb
test-mariadb: ## tests that start a private MariaDB from the installed server binaries
	go test -tags mariadb -timeout 20m ./internal/mariadbtest/... ./catalog/mysql/...
	go test -tags mariadb -timeout 20m -run MariaDB ./cmd/icehose/...

.PHONY: aws-test
aws-test: $(LAMBDA_RIE) ## tests that run the Lambda under AWS's emulator of its runtime
	LAMBDA_RIE=$(LAMBDA_RIE) go test -tags aws -count 1 -run 'Emulated|Zips' -bench Init -benchtime 1x ./cmd/transform-lambda/

$(LAMBDA_RIE):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install github.com/aws/aws-lambda-runtime-interface-emulator/cmd/aws-lambda-rie@$(LAMBDA_RIE_VERSION)
	mv $(TOOLS)/aws-lambda-rie $@

.PHONY: interop-sql
interop-sql: $(INTEROP) ## generated SQL and CloudFormation through real parsers, and the SQL fold against the sink's
	$(INTEROP)/bin/python catalog/artifact/interop/parse.py testdata/golden/catalog/*
	$(INTEROP)/bin/cfn-lint -t testdata/golden/catalog/*/cloudformation/tables.yaml
	go test -tags interop -count 1 -run SQLFold ./catalog/artifact/ -args -python $(INTEROP)/bin/python

$(INTEROP): catalog/artifact/interop/requirements.txt
	@mkdir -p $(TOOLS)
	@rm -rf $@
	python3 -m venv $@
	$@/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

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
	$(LINT) run --timeout 15m --build-tags postgres,mariadb,system,aws,interop

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

.PHONY: mutants
mutants: ## hand-made faults in the transform; each must fail its test
	go run ./internal/mutants -write docs/mutants.md

.PHONY: bench-transform
bench-transform: ## the transform against a Python Lambda and base64 alone; needs python3
	@go run -pgo=$(PGO) ./bench

.PHONY: pgo
pgo: ## measure anew what is hot in the transform, for the compiler
	GOMAXPROCS=1 go test -run '^$$' -bench Handle -benchtime 10s -cpuprofile $(CURDIR)/$(PGO) -o /dev/null ./bench

.PHONY: oracle
oracle: ## rows against an independent decoding of the same records; needs python3
	@oracle=$$(mktemp -d); trap 'rm -rf "$$oracle"' EXIT; \
	go build -o "$$oracle/oracle" ./bench/oracle; \
	python3 bench/oracle/oracle.py "$$oracle/oracle" testdata/events/shapes

.PHONY: bench
bench: bench-transform ## benchmarks of decode, transform and the row hash
	go test -run '^$$' -bench . -benchmem -count 5 ./cdc/... ./transform/... ./internal/canon/... ./reconcile/... ./sink/...

.PHONY: build
build: bin/icehose dist/transform-lambda-arm64.zip dist/transform-lambda-amd64.zip ## the command line program and the Lambda zips

# The same source and toolchain give the same bytes.
.PHONY: always
dist/transform-lambda-%.zip: always
	@echo "building $@"
	@bootstrap=$$(mktemp -d); trap 'rm -rf "$$bootstrap"' EXIT; \
	GOOS=linux GOARCH=$* go build -trimpath -buildvcs=false -pgo=$(PGO) -tags lambda.norpc -ldflags '-s -w -buildid=' -o "$$bootstrap/bootstrap" ./cmd/transform-lambda; \
	if [ -n "$(PIPELINE)" ]; then cp "$(PIPELINE)" "$$bootstrap/pipeline.yaml"; set -- "$$bootstrap/pipeline.yaml"; fi; \
	go run ./cmd/transform-lambda/package -out $@ -bootstrap "$$bootstrap/bootstrap" "$$@"

.PHONY: golden
golden: ## write every golden file anew; the diff is for a person to read
	go test $$(grep -rl 'flag.Bool("update"' --include='*_test.go' . | xargs -n 1 dirname | sort -u) -update

.PHONY: record
record: ## record testdata/events/tpcc again from a private PostgreSQL
	go run ./internal/tpcc/record -out testdata/events/tpcc
