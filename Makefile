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
# An emulator of AWS with cfn-lint; and a policy checker, which wants
# other versions of the same libraries.
EMULATE := $(TOOLS)/emulate
POLICY := $(TOOLS)/policy
TEMPLATES = $(wildcard cloudformation/*.yaml) $(wildcard testdata/golden/stack/tpcc/*.yaml)
# The environment that make deploy deploys: cloudformation/env/ENV.yaml.
ENV ?=
ENGINES := $(TOOLS)/engines
SPARK_JARS := $(TOOLS)/jars/iceberg-spark-runtime-4.0_2.13-1.10.0.jar $(TOOLS)/jars/sqlite-jdbc-3.54.1.0.jar
# Maven's name of a jar.
artifact = $(if $(findstring iceberg,$(1)),org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0,org.xerial:sqlite-jdbc:3.54.1.0)
# Counts what Spark reads and writes.
COUNTING := $(TOOLS)/counting.jar
# 540 MB of Trino: the server without plugins, and the one for Iceberg.
TRINO_VERSION := 476
TRINO := $(TOOLS)/trino-server-core-$(TRINO_VERSION)
# The Java that runs it, 24 or newer.
TRINO_JAVA ?= $(lastword $(sort $(wildcard /usr/lib/jvm/*-2[4-9]-*/bin/java)))
TRINO_SEEDS ?= 10
COMMA := ,
SPACE := $(subst ,, )
INTEROP_SEEDS ?= 60
MERGE_ROWS ?= 1000000
# A file that make build puts into the Lambda zips, as pipeline.yaml.
PIPELINE ?=
# Where the compiler learns what is hot in the transform.
PGO := bench/transform.pgo
SEED ?= 1
SEEDS ?= 20
LAKE ?= icehose-demo
FUZZTIME ?= 30s
PART ?= 1/4
ROWS ?= 1000000
DURATION ?= 10m

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
	go test -timeout 60m ./...

# The tests that only a build tag brings in, as a pattern: $(1) the tag, $(2) the folder.
tests-of = $(subst $(SPACE),|,$(strip $(shell grep -l '^//go:build $(1)' $(2)/*_test.go | xargs grep -hoE '^func Test[A-Za-z0-9]+' | cut -c 6-)))

.PHONY: test-postgres
test-postgres: ## tests that start a private PostgreSQL from the installed server binaries
	go test -tags postgres -timeout 60m ./internal/pgtest/... ./internal/tpcc/... ./internal/dmssim/... ./catalog/postgres/... ./internal/canon/canonsql/... ./sink/load/postgres/... ./reconcile/postgres/... ./reconcile/heartbeat/... ./reconcile/repair/...
	go test -tags postgres -timeout 60m -run '^($(call tests-of,postgres,cmd/icehose))$$' ./cmd/icehose/

.PHONY: test-mariadb
test-mariadb: ## tests that start a private MariaDB from the installed server binaries
	go test -tags mariadb -timeout 60m ./internal/mariadbtest/... ./catalog/mysql/... ./internal/canon/canonsql/... ./sink/load/mysql/... ./reconcile/mysql/... ./reconcile/heartbeat/...
	go test -tags mariadb -timeout 60m -run '^($(call tests-of,mariadb,cmd/icehose))$$' ./cmd/icehose/

.PHONY: aws-test
aws-test: $(LAMBDA_RIE) $(EMULATE) ## the Lambdas under AWS's emulator of their runtime, and the stacks in an emulator of AWS; needs PostgreSQL
	LAMBDA_RIE=$(LAMBDA_RIE) go test -tags aws -count 1 -timeout 30m -run 'Emulated|Zips' -bench Init -benchtime 1x ./cmd/transform-lambda/
	LAMBDA_RIE=$(LAMBDA_RIE) EMULATE_PYTHON=$(EMULATE)/bin/python go test -tags aws -count 1 -timeout 60m -run Emulated ./cmd/icehose/

.PHONY: lint-stacks
lint-stacks: $(EMULATE) $(POLICY) ## cfn-lint and checkov over the templates, and over those of the recorded TPC-C pipeline
	$(EMULATE)/bin/cfn-lint -t $(TEMPLATES)
	$(EMULATE)/bin/python cloudformation/emulate/check.py $(TEMPLATES)
	$(POLICY)/bin/checkov --framework cloudformation --compact --quiet --skip-download $(foreach template,$(TEMPLATES),-f $(template))
	bash -n cloudformation/deploy.sh

.PHONY: package
package: dist/transform-lambda-arm64.zip dist/reconcile-lambda-arm64.zip dist/merge-lambda-arm64.zip ## the Lambda zips that the stacks deploy

.PHONY: environment
environment:
	@test -n "$(ENV)" || { echo "which environment? ENV=dev is cloudformation/env/dev.yaml" >&2; exit 2; }

.PHONY: deploy
deploy: environment package bin/icehose ## deploy PIPELINE to ENV: make deploy ENV=dev PIPELINE=pipeline.yaml (cloudformation/README.md)
	@PIPELINE="$(or $(PIPELINE),pipeline.yaml)" cloudformation/deploy.sh deploy "$(ENV)"

.PHONY: start stop
start stop: environment bin/icehose ## start or resume the DMS task of ENV; stop it
	@cloudformation/deploy.sh $@ "$(ENV)"

$(LAMBDA_RIE):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install github.com/aws/aws-lambda-runtime-interface-emulator/cmd/aws-lambda-rie@$(LAMBDA_RIE_VERSION)
	mv $(TOOLS)/aws-lambda-rie $@

.PHONY: interop-sql
interop-sql: $(INTEROP) ## generated SQL and CloudFormation through real parsers
	$(INTEROP)/bin/python catalog/artifact/interop/parse.py testdata/golden/catalog/*
	$(INTEROP)/bin/cfn-lint -t testdata/golden/catalog/*/cloudformation/tables.yaml

# Python programs that check ours, each set in an environment of its own. What
# they need in turn is pinned beside them.
PYTHON_SETS := catalog/artifact/interop/requirements.txt interop/requirements.txt cloudformation/emulate/requirements.txt cloudformation/emulate/requirements-policy.txt
$(INTEROP): catalog/artifact/interop/requirements.txt catalog/artifact/interop/constraints.txt
$(ENGINES): interop/requirements.txt interop/constraints.txt
$(EMULATE): cloudformation/emulate/requirements.txt cloudformation/emulate/constraints.txt
$(POLICY): cloudformation/emulate/requirements-policy.txt cloudformation/emulate/constraints-policy.txt
$(INTEROP) $(ENGINES) $(EMULATE) $(POLICY):
	@mkdir -p $(TOOLS)
	@rm -rf $@
	python3 -m venv $@
	$@/bin/pip install --quiet --disable-pip-version-check --retries 10 -r $< -c $(word 2,$^) || { rm -rf $@; exit 1; } # what is half there would be believed made
	@touch $@

.PHONY: pins
pins: ## what the Python programs need, in the versions that are newest today
	@new=$$(mktemp -d); trap 'rm -rf "$$new"' EXIT; \
	for set in $(PYTHON_SETS); do \
		python3 -m venv --clear "$$new"; "$$new/bin/pip" install --quiet --disable-pip-version-check -r "$$set"; \
		"$$new/bin/pip" freeze --disable-pip-version-check >"$${set/requirements/constraints}"; \
	done

.PHONY: interop
interop: $(ENGINES) $(SPARK_JARS) $(COUNTING) ## tables and SQL on Spark, DuckDB and PyIceberg; needs a JDK 17 and Maven
	go test -tags interop -count 1 -timeout 60m -skip Trino ./interop/ -args -python $(ENGINES)/bin/python -jars $(subst $(SPACE),$(COMMA),$(SPARK_JARS)) -counting $(COUNTING) -seeds $(INTEROP_SEEDS)

.PHONY: interop-trino
interop-trino: $(ENGINES) $(TRINO) ## tables as a real Trino reads them, and Athena's statements on it; needs Java 24 and Maven, downloads 540 MB
	go test -tags interop -count 1 -timeout 60m -run Trino -v ./interop/ -args -python $(ENGINES)/bin/python -trino $(TRINO) -java "$(TRINO_JAVA)" -seeds $(TRINO_SEEDS)

$(TRINO): $(SPARK_JARS)
	@test -n "$(TRINO_JAVA)" || { echo "Trino $(TRINO_VERSION) needs Java 24 or newer: set TRINO_JAVA"; exit 1; }
	@rm -rf $@
	cd $(TOOLS) && mvn --quiet --batch-mode dependency:copy -Dartifact=io.trino:trino-server-core:$(TRINO_VERSION):tar.gz -DoutputDirectory=$(TOOLS)
	tar -xzf $@.tar.gz -C $(TOOLS) && rm $@.tar.gz # Maven's unpack leaves hard links empty
	cd $(TOOLS) && mvn --quiet --batch-mode dependency:unpack -Dartifact=io.trino:trino-iceberg:$(TRINO_VERSION):zip -DoutputDirectory=$@/plugin
	mv $@/plugin/trino-iceberg-$(TRINO_VERSION) $@/plugin/iceberg
	cp $(filter %/$(notdir $(lastword $(SPARK_JARS))),$^) $@/plugin/iceberg/
	@touch $@

.PHONY: interop-schemas
interop-schemas: ## schemas of Debian's packages, live and as dumps, discovered and generated; needs both servers
	@schemas=$$(mktemp -d); trap 'rm -rf "$$schemas"' EXIT; chmod 755 "$$schemas"; \
	bash catalog/discover/packages.sh "$$schemas"; \
	go test -tags interop -count 1 -timeout 30m -run Foreign ./catalog/discover/ -args -schemas "$$schemas"

.PHONY: interop-types
interop-types: $(ENGINES) ## every type of PostgreSQL and MariaDB, from the source to what DuckDB and PyIceberg read
	go test -tags postgres,mariadb,interop -count 1 -timeout 30m -run TypesReadIndependently ./cmd/icehose/ -args -python $(ENGINES)/bin/python

.PHONY: bench-merge
bench-merge: $(ENGINES) $(SPARK_JARS) $(COUNTING) ## what every statement over a changelog costs on Spark, for MERGE_ROWS rows, as Markdown; needs a JDK 17 and Maven
	go test -tags interop -count 1 -timeout 12h -run TestCost -v ./interop/ -args -python $(ENGINES)/bin/python -jars $(subst $(SPACE),$(COMMA),$(SPARK_JARS)) -counting $(COUNTING) -rows $(MERGE_ROWS)

$(COUNTING): interop/CountingFileIO.java $(ENGINES) $(SPARK_JARS)
	@classes=$$(mktemp -d); trap 'rm -rf "$$classes"' EXIT; \
	javac --release 17 -Xlint:all,-path,-serial -Werror -cp "$(subst $(SPACE),:,$(SPARK_JARS)):$$(echo $(ENGINES)/lib/python3*/site-packages/pyspark/jars)/*" -d "$$classes" $<; \
	jar --create --file $@ -C "$$classes" .

$(SPARK_JARS):
	@mkdir -p $(@D)
	mvn --quiet --batch-mode dependency:copy -Dartifact=$(call artifact,$(@F)) -DoutputDirectory=$(@D)

.PHONY: test-system
test-system: ## tests that mount small file systems; needs root
	go test -tags system -timeout 30m -run 'Disk|ReadOnly' ./cmd/icehose/

.PHONY: check
check: test lint ## test and lint, and that the module files are tidy
	go mod tidy -diff

.PHONY: lint
lint: $(LINT) ## formatting, static checks and the import rules
	$(LINT) config verify
	$(LINT) fmt --diff
	$(LINT) run --timeout 60m --build-tags postgres,mariadb,system,aws,interop

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

# On a busy machine go test may end with "context deadline exceeded", and no
# input, when the time is up: then it is run again, twice at most.
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do \
		grep -oE '^func Fuzz[A-Za-z]+' "$$file" | sed 's/func //' | while read -r target; do \
			echo "fuzz $$target in $$(dirname "$$file")"; \
			fuzz() { go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" </dev/null; }; \
			late() { grep -q 'context deadline exceeded' "$$log" && ! grep -q 'Failing input' "$$log"; }; \
			fuzz | tee "$$log" || { late && fuzz | tee "$$log"; } || { late && fuzz; } || exit 1; \
		done; \
	done

.PHONY: mutants
mutants: ## hand-made faults in the transform; each must fail its test
	go run ./internal/mutants -write docs/mutants.md

.PHONY: chaos
chaos: ## the sink against a model on real tables, for SEEDS seeds from SEED on
	GOGC=400 go test -count=1 -v -timeout 0 -run '^TestChaos$$' ./sink/iceberg -args -chaos.seed=$(SEED) -chaos.seeds=$(SEEDS)

.PHONY: chaos-memory
chaos-memory: ## the same on tables in memory, ten times as fast
	go test -count=1 -v -timeout 0 -run '^TestChaos$$' ./sink -args -chaos.seed=$(SEED) -chaos.seeds=$(SEEDS)

.PHONY: sink-mutants
sink-mutants: ## bugs of other tools put into the sink; the chaos test must catch each
	go run ./internal/mutants -list internal/sinkmutants -timeout 30m -write docs/sink-mutants.md

.PHONY: sink-mutants-part
sink-mutants-part: ## PART=1/4 of them: every fourth, from the first on
	go run ./internal/mutants -list internal/sinkmutants -timeout 30m -part $(PART)

.PHONY: bench-catalog
bench-catalog: ## discover and generate of 500 tables with 2,000 columns; the target is 5 s
	go test -run '^$$' -bench LargeSchema -benchtime 3x ./catalog/discover/

.PHONY: bench-commits
bench-commits: ## 1,000 commits in a row with maintenance, fewer without: what a commit and a plan cost at the end
	go test -run '^$$' -bench Commits -benchtime 1x -timeout 60m ./sink/iceberg/

.PHONY: bench-load
bench-load: ## a load of a million rows from a private PostgreSQL, beside COPY of them to nowhere
	go test -tags postgres -run '^$$' -bench Load -benchtime 3x -timeout 60m ./sink/load/postgres/

.PHONY: bench-transform
bench-transform: ## the transform against a Python Lambda and base64 alone; needs python3
	@go run -pgo=$(PGO) ./bench

.PHONY: bench-reconcile
bench-reconcile: ## reconcile of ROWS rows beside PostgreSQL hashing them, count(*) and, with RELADIFF=program, reladiff
	@go run ./bench/reconcile -rows $(ROWS) $(if $(RELADIFF),-reladiff $(RELADIFF))

.PHONY: live
live: ## reconcile for DURATION beside writers and a sink that lags
	go test -tags postgres -count 1 -timeout 0 -v -run TestReconcileLive ./cmd/icehose -args -live $(DURATION)

.PHONY: pgo
pgo: ## measure anew what is hot in the transform, for the compiler
	GOMAXPROCS=1 go test -run '^$$' -bench Handle -benchtime 10s -cpuprofile $(CURDIR)/$(PGO) -o /dev/null ./bench

.PHONY: oracle
oracle: ## rows against an independent decoding of the same records; needs python3
	@oracle=$$(mktemp -d); trap 'rm -rf "$$oracle"' EXIT; \
	go build -o "$$oracle/oracle" ./bench/oracle; \
	python3 bench/oracle/oracle.py "$$oracle/oracle" testdata/events/shapes

.PHONY: bench-sink
bench-sink: $(ENGINES) $(SPARK_JARS) ## the sink beside Spark's MERGE INTO and PyIceberg's upsert, a million changes of a million rows; needs Java 17 and Maven
	@go run ./bench/sink -python $(ENGINES)/bin/python -jars $(subst $(SPACE),$(COMMA),$(SPARK_JARS))

.PHONY: bench
bench: bench-transform bench-sink ## benchmarks of decode, transform, sink and the row hash
	go test -run '^$$' -bench . -skip '^BenchmarkCommits$$' -benchmem -count 5 ./cdc/... ./transform/... ./internal/canon/... ./reconcile/... ./sink/...

.PHONY: build
build: bin/icehose $(foreach arch,arm64 amd64,dist/transform-lambda-$(arch).zip dist/reconcile-lambda-$(arch).zip dist/merge-lambda-$(arch).zip) ## the command line program and the Lambda zips

# The same source and toolchain give the same bytes.
# The arguments are the command and more flags of go build.
define lambda-zip
	@echo "building $@"
	@bootstrap=$$(mktemp -d); trap 'rm -rf "$$bootstrap"' EXIT; \
	GOOS=linux GOARCH=$* go build -trimpath -buildvcs=false $(2) -tags lambda.norpc -ldflags '-s -w -buildid=' -o "$$bootstrap/bootstrap" ./cmd/$(1); \
	if [ -n "$(PIPELINE)" ]; then cp "$(PIPELINE)" "$$bootstrap/pipeline.yaml"; set -- "$$bootstrap/pipeline.yaml"; fi; \
	go run ./cmd/transform-lambda/package -out $@ -bootstrap "$$bootstrap/bootstrap" "$$@"
endef

.PHONY: always
dist/transform-lambda-%.zip: always
	$(call lambda-zip,transform-lambda,-pgo=$(PGO))

dist/reconcile-lambda-%.zip: always
	$(call lambda-zip,reconcile-lambda,)

dist/merge-lambda-%.zip: always
	$(call lambda-zip,merge-lambda,)

.PHONY: golden
golden: ## write every golden file anew; the diff is for a person to read
	go test -timeout 60m -run 'Golden|^TestScripts$$|^TestShapes$$|^TestTypesTable$$' $$(grep -rl 'flag.Bool("update"' --include='*_test.go' . | xargs -n 1 dirname | sort -u) -update

.PHONY: record
record: ## record testdata/events/tpcc again from a private PostgreSQL
	go run ./internal/tpcc/record -out testdata/events/tpcc
