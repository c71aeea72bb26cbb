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

