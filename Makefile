# Lazaret. `make` alone lists the targets.
#
# Everything that is built lands in build/; the privileged half (system
# packages, a user, subordinate ids, device modes) is packaging/setup alone.

SHELL := /bin/sh
.DEFAULT_GOAL := help

B   := build
# The checked Go command: named in full, since it is often not on root's PATH.
GO  := $(shell packaging/setup/find-go)

# Static and reproducible: no cgo, no paths, no build id of the moment. The
# version comes from what the go command records about the checkout, where git
# may be asked about it (another owner's checkout may not).
VCS   := $(shell git status --porcelain >/dev/null 2>&1 && echo auto || echo false)
BUILD := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=$(VCS) -ldflags=-s\ -w

# The gVisor version that packaging/runsc/go.mod pins.
RUNSC_VERSION := $(shell sed -n 's,^.*gvisor.dev/gvisor \(v[^ ]*\).*,\1,p' packaging/runsc/go.mod)

LIBEXEC := $(B)/libexec/lazaret

.PHONY: help
help: ## list the targets
	@echo 'Lazaret: agents in a rootless gVisor sandbox. Targets:'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

.PHONY: go-check
go-check:
	@packaging/setup/find-go --check

.PHONY: build
build: go-check $(LIBEXEC)/runsc ## build lazaret, its helpers and the pinned runsc into build/
	@mkdir -p $(B)/bin $(LIBEXEC)
	$(BUILD) -o $(B)/bin/ ./cmd/lazaret
	$(BUILD) -o $(LIBEXEC)/ ./cmd/lazaret-supervisor ./cmd/lazaret-escalate

# Rebuilt only when the pin changes: it takes the better part of a minute.
$(LIBEXEC)/runsc: packaging/runsc/go.mod packaging/runsc/go.sum | go-check
	@mkdir -p $(LIBEXEC)
	@echo 'building runsc $(RUNSC_VERSION) (about a minute)'
	cd packaging/runsc && CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false \
		-ldflags='-s -w -X gvisor.dev/gvisor/runsc/version.version=$(RUNSC_VERSION)' \
		-o ../../$@.new gvisor.dev/gvisor/runsc
	mv $@.new $@

.PHONY: image
image: go-check ## build the base image into build/image from the machine's apt sources
	@GO='$(GO)' packaging/image/build $(B)/image

# What make test tests, and with which flags of go test.
PKGS      ?= ./...
TESTFLAGS ?=

.PHONY: setup
setup: go-check
	@packaging/setup/setup

.PHONY: demo
demo: go-check ## set this machine up, build, and show Lazaret on a scratch project
	@packaging/setup/setup
	@$(MAKE) --no-print-directory build image
	@packaging/setup/setup
	@packaging/demo/demo '$(CURDIR)/$(B)'

.PHONY: test
test: go-check ## set this machine up, build, and run every test that it allows
	@packaging/setup/setup --test
	@$(MAKE) --no-print-directory build image
	@GO='$(GO)' packaging/test/run $(TESTFLAGS) $(PKGS)

.PHONY: test-long
test-long: go-check ## as test, with the sampled tests run in full
	@packaging/setup/setup --test
	@$(MAKE) --no-print-directory build image
	@GO='$(GO)' LAZARET_TEST_LONG=1 packaging/test/run -timeout 3h $(TESTFLAGS) $(PKGS)

.PHONY: explore
explore: go-check ## visit every state of the protocol's full fixture (minutes, some GiB)
	$(GO) test -count=1 -timeout 60m -tags explore -run TestExplore -v ./protocol

# TLC builds with javac from its public source, tlaplus/tlaplus.
TLCFLAGS ?= -workers auto
.PHONY: tlc
tlc: ## check protocol/Lazaret.tla with TLC: make tlc TLC=tla2tools.jar (or a class path)
	@test -n '$(TLC)' || { echo 'make tlc needs TLC=path/to/tla2tools.jar, or a class path' >&2; exit 2; }
	@mkdir -p '$(B)/tlc'
	@for c in Lazaret LazaretFull; do \
		java -XX:+UseParallelGC -cp '$(TLC)' tlc2.TLC $(TLCFLAGS) -metadir '$(CURDIR)/$(B)/tlc' -config "protocol/$$c.cfg" protocol/Lazaret.tla || exit 1; done

.PHONY: attack
attack: ## run what a hostile program inside would try
	@LAZARET_TEST_VECTORS=all $(MAKE) --no-print-directory test TESTFLAGS='-timeout 3h -run "Attack|Hostile|TestDenied|Whatever|OfASandbox|HostIsInvisible|EscapesAreRefused|SymlinksStay|EnrolmentFrom"'

.PHONY: bench
bench: go-check ## print medians and ratios against bare runsc
	@packaging/setup/setup
	@$(MAKE) --no-print-directory build image
	@CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o $(B)/tools/bench ./packaging/bench
	@packaging/bench/run '$(CURDIR)/$(B)'

# The linter is built once, from its pinned version, outside our module.
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(B)/tools/golangci-lint-$(GOLANGCI_VERSION)

$(GOLANGCI): | go-check
	@mkdir -p $(B)/tools
	@echo 'building golangci-lint $(GOLANGCI_VERSION) (about a minute)'
	@GOBIN='$(CURDIR)/$(B)/tools' CGO_ENABLED=0 $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(B)/tools/golangci-lint $@

.PHONY: lint
lint: go-check $(GOLANGCI) ## vet, lint rules, and the project's tests of itself
	@PATH="$$(dirname '$(GO)'):$$PATH" $(GOLANGCI) run ./...
	@$(GO) test -count=1 ./packaging/lint
	@for f in $$(git ls-files -co --exclude-standard packaging .ci); do \
		case "$$(head -n 1 "$$f")" in '#!/bin/sh') sh -n "$$f" || exit 1 ;; esac; done
	@echo 'govulncheck: not part of this; make vuln asks the public database'

.PHONY: fmt
fmt: go-check $(GOLANGCI) ## format the Go files as lint wants them
	@PATH="$$(dirname '$(GO)'):$$PATH" $(GOLANGCI) fmt ./...

.PHONY: vuln
vuln: go-check ## look the dependencies up in the Go vulnerability database (network)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@latest ./...

.PHONY: clean
clean: ## undo what the other targets made, saying what
	@packaging/setup/clean
