# pave: make demo, make test; make check adds the longer lanes. Nothing here calls a system package manager.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
GO ?= go
export GOFLAGS ?= -buildvcs=false

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)

# The race detector needs cgo and a C compiler; everything else is built without.
HAVE_CC := $(shell command -v $${CC:-cc} >/dev/null 2>&1 && echo 1)
ifeq ($(HAVE_CC),1)
RACE := -race
TEST_CGO := 1
else
RACE :=
TEST_CGO := 0
endif

.PHONY: build demo test check fuzz test-clients generate clean chdb vet staticcheck unit

build: bin/pave

# A binary is rebuilt when any Go or embedded file changed; go's own cache makes that cheap.
.PHONY: bin/pave bin/chserver
bin/pave:
	@[ -e bin/pave ] || echo "first build: compiles SQLite, the ClickHouse driver and OpenTelemetry from source, 2 to 5 minutes on two cores"
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/pave ./cmd/pave

bin/chserver:
	@CGO_ENABLED=0 $(GO) build -o bin/chserver ./ingest/store/clickhouse/chtest/chserver

# make demo [ENGINE=clickhouse] [DSN=clickhouse://...]
ENGINE ?= sqlite
ifeq ($(ENGINE),clickhouse)
ifneq ($(DSN),)
DEMO_ARGS := --clickhouse '$(DSN)'
else
DEMO_NEEDS := chdb bin/chserver
DEMO_ARGS := --chserver bin/chserver
endif
endif
demo: bin/pave $(DEMO_NEEDS)
	@./bin/pave demo $(DEMO_ARGS)

# Fetches the ClickHouse engine as a library, once, into the user's cache; says so when it cannot.
chdb:
	@./ingest/store/clickhouse/chtest/fetch

vet:
	@echo "vet"; $(GO) vet ./... ./.ci/testsum

staticcheck:
	@echo "staticcheck"; $(GO) tool staticcheck ./... ./.ci/testsum

unit: chdb
ifeq ($(HAVE_CC),1)
	@echo "tests, with the race detector"
else
	@echo "tests, WITHOUT the race detector: no C compiler found. To enable it: apt-get install gcc libc6-dev"
endif
	@CGO_ENABLED=$(TEST_CGO) $(GO) test $(RACE) -shuffle=on -timeout 10m -json ./... | $(GO) run ./.ci/testsum

test: vet staticcheck unit

# The longer lanes: generated code is current, each fuzz target for 8 seconds, crashes under load, the demo on both engines.
check: bin/pave
	@./.ci/check

# The fuzz lane, apart from make check: every target for FUZZTIME (two minutes), the OTLP and JSON decoders for
# FUZZTIME_DECODERS (ten).
FUZZTIME ?= 2m
FUZZTIME_DECODERS ?= 10m
fuzz:
	@FUZZTIME=$(FUZZTIME) FUZZTIME_DECODERS=$(FUZZTIME_DECODERS) ./.ci/fuzz

# Real telemetry clients of Node and Python against the receiver; installs them once, into the user's cache.
test-clients:
	@GO="$(GO)" ./ingest/otlp/clients/run

# Builds the web UI into api/web/dist, which is committed, so that only who changes it needs Node (api/web/.nvmrc).
.PHONY: web e2e
web:
	@cd api/web && node check-node.mjs && npm install --no-save --silent && npm run --silent build

# The web UI in a real browser against the real service; says so when there is no chromium.
e2e: bin/pave
	@PAVE_BIN=$(CURDIR)/bin/pave $(GO) test -tags e2e -count=1 ./api/web/e2e

generate:
	@$(GO) generate ./...

clean:
	@rm -rf bin
