# Two commands do everything on a machine with git, make and Python 3.11 or newer:
#   make demo     a training run that crashes twice, and ends well
#   make test     the tests
# Both make their own virtual environment in .venv first.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
EXTRA ?= tensorflow
NEW_ENOUGH := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
# Tried, not only looked up: a name on the PATH may be a shim that leads nowhere.
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13; do \
	"$$python" -c '$(NEW_ENOUGH)' 2>/dev/null && echo "$$python" && break; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Tests at a time: one more than there are cores, as they also wait; each may take 1 GB.
AT_ONCE ?= $(shell n=$$(nproc); echo $$((n < 4 ? n + 1 : 5)))
# Tests start thousands of processes: where Python is told to write no bytecode, each would
# compile all that it imports of ours anew (half a second).
COMPILED = @$(BIN)/python -m compileall -q supervisor trainers tests
INSTALL := $(PIP) install --quiet --constraint constraints.txt
EDITABLE := --build-constraint constraints.txt --editable '.[$(EXTRA)]'

.PHONY: help demo test test-slow certify certify-jax certify-torch certify-in-place certify-standby certify-oom certify-mutations chaos soak slurm container remote schedulers deb deb-test generated docs pictures lint lint-style lint-mypy lint-pyright lint-imports format constraints clean systemd crashes fuzz matrix oldest gpu

help: ## say what there is
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16
	@for bench in $(filter-out %_trial,$(patsubst tests/bench/%.py,%,$(wildcard tests/bench/[a-z]*.py))); do \
		echo "bench-$${bench//_/-}" | expand -t 16; done; echo bench-remote

$(VENV)/.made: constraints.txt
	@test -n "$(PYTHON)" || { echo "make: Python 3.11, 3.12 or 3.13 is needed, and none" \
		"was found; name one with make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "make: $(PYTHON) cannot make a virtual" \
		"environment; on Debian: apt install python3-venv" >&2; exit 1; }
	$(INSTALL) --upgrade pip
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml
	$(INSTALL) $(EDITABLE) --group test
	$(INSTALL) --target $(VENV)/script-packages --upgrade --group script-packages
	@touch $@

$(VENV)/.lint: $(VENV)/.installed
	$(INSTALL) --group lint --group docs
	@touch $@

$(VENV)/.docs: $(VENV)/.made pyproject.toml
	$(INSTALL) --group docs
	@touch $@

demo: $(VENV)/.installed ## a run that crashes twice, and ends well
	@$(BIN)/python tests/e2e/demo.py $(if $(BUSY),--busy $(BUSY))

# The core first and alone: it must be covered by its own tests, to the last branch.
# Then the rest.
test: $(VENV)/.installed ## the tests; the core with full branch coverage
	$(COMPILED)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q --numprocesses=$(AT_ONCE) tests/unit/core
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --show-missing --fail-under=100
	$(BIN)/python -m pytest --ignore=tests/unit/core -m 'not slow' \
		--numprocesses=$(AT_ONCE) --dist=worksteal --durations=60

# Apart, too: nothing else must see them.
$(VENV)/other-backends $(VENV)/torch-backend $(VENV)/trackers: $(VENV)/.made pyproject.toml
	$(INSTALL) --target $@ --upgrade --group $(@F)
	@touch $@

test-slow: $(VENV)/.installed $(VENV)/other-backends $(VENV)/trackers ## the matrices that make test has samples of
	$(COMPILED)
	$(BIN)/python -m pytest -m slow --numprocesses=2 --durations=15

lint: lint-style lint-mypy lint-pyright lint-imports ## style, types, who may import whom, what is declared

# Each by itself, as types are most of it: make --jobs=2 lint.
lint-style: $(VENV)/.lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check

lint-mypy: $(VENV)/.lint
	$(BIN)/mypy

lint-pyright: $(VENV)/.lint
	$(BIN)/pyright --pythonpath $(BIN)/python

lint-imports: $(VENV)/.lint
	$(BIN)/lint-imports
	$(BIN)/deptry supervisor trainers --extend-exclude trainers/reference
	$(BIN)/deptry supervisor trainers tests grafana docs --non-dev-dependency-groups test,script-packages,bench,docs

format: $(VENV)/.lint ## put the code into shape
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

generated: $(VENV)/.installed ## write what tables say: diagram, metrics, rules, dashboards
	$(if $(RUNBOOKS),RUNBOOKS=$(RUNBOOKS)) $(BIN)/python -m tests.support.generated

docs: $(VENV)/.docs ## build a site from docs/ (20 s); fails on links that lead nowhere
	$(BIN)/python -m sphinx -q -W --keep-going -E -c docs/site -d build/doctrees . build/site
	@echo "the pages are in build/site/index.html"

pictures: $(VENV)/.installed ## draw dashboards (from a real Prometheus) and terminals for docs/ (12 min)
	$(BIN)/python -m tests.support.pictures
	TRAINWARDEN_PICTURES=docs/pictures $(BIN)/python -m pytest -q -m slow \
		tests/e2e/test_terminal_recordings_slow.py

certify: $(VENV)/.installed ## kill every kind of run and compare every bit (30 min)
	$(BIN)/python -m tests.certify.certify $(ONLY)

certify-jax: $(VENV)/.installed $(VENV)/other-backends ## the same for Keras on JAX
	$(BIN)/python -m tests.certify.certify --backend jax $(ONLY)

certify-in-place: $(VENV)/.installed ## lose the loss, go on in the same process, compare every bit
	$(BIN)/python -m tests.certify.certify --in-place $(ONLY)

certify-standby: $(VENV)/.installed ## kill them, and go on in processes that have imported already
	$(BIN)/python -m tests.certify.certify --standby $(ONLY)

# Not for make test-slow, whose tests of PyTorch skip without: where pip finds no build for
# CPUs alone it takes several GB.
certify-torch: $(VENV)/.installed $(VENV)/torch-backend ## the same for Keras on PyTorch
	$(BIN)/python -m tests.certify.certify --backend torch $(ONLY)

certify-oom: $(VENV)/.installed ## unseeded scripts run out of memory and are killed (30 min)
	$(BIN)/python -m tests.certify.out_of_memory $(ONLY)

certify-mutations: $(VENV)/.installed ## forget each part of a snapshot in turn: the proof must see it (20 min)
	$(BIN)/python -m tests.certify.mutations $(ONLY)

# Orbax is measured beside our snapshots where it installs; nothing else sees it.
$(VENV)/orbax: $(VENV)/.made
	-$(INSTALL) --target $@ orbax-checkpoint==0.12.8
	@mkdir -p $@

bench-snapshot: $(VENV)/orbax

# NVRx' launcher is compared where it installs. Its PyTorch is that of torch-backend: what
# pip would bring is for GPUs, and several GB.
$(VENV)/nvrx: $(VENV)/.made
	-$(INSTALL) --target $@ --no-deps nvidia-resiliency-ext==0.4.1 \
		defusedxml nvidia-ml-py packaging psutil pynvml pyyaml
	@mkdir -p $@

# All models and ten kills of each take hours; fewer, say, are
# .venv/bin/python -m tests.bench.restart --kills 2 --only loop,standby small
bench-restart: $(VENV)/orbax $(VENV)/torch-backend $(VENV)/nvrx

chaos: $(VENV)/.installed ## commit every fault, and see it named, answered and survived
	$(BIN)/python -m tests.chaos.chaos $(if $(ONLY),--only $(ONLY)) $(CHAOS)

soak: $(VENV)/.installed ## jobs under random faults: all end, to the bit (needs root)
	$(BIN)/python -m tests.soak.soak $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

slurm: $(VENV)/.installed ## a real Slurm requeues, preempts, cancels, loses its node (needs root)
	$(BIN)/python -m tests.slurm.slurm_trial $(ONLY)

# Azure's interface, from npm: what is without it is skipped.
$(VENV)/azurite: $(VENV)/.made
	-npm install --silent --no-audit --no-fund --omit=dev --ignore-scripts --prefix $@ azurite@3.37.0

remote: $(VENV)/.installed $(VENV)/azurite ## snapshots beyond the machine: lost, killed, measured (needs root)
	$(BIN)/python -m tests.remote.remote_trial $(ONLY)

container: $(VENV)/.installed ## a pod is killed, evicted, and goes on in a fresh one (needs root)
	$(BIN)/python -m tests.kubernetes.pod_trial

deb: $(VENV)/.made ## a Debian package of the program and its service, in dist/
	deploy/debian/build.sh $(abspath $(BIN)/python) dist

deb-test: $(VENV)/.installed ## the package in a fresh Debian: install, upgrade, purge (needs root)
	$(BIN)/python -m pytest -m slow tests/operations/test_debian_package_slow.py

$(VENV)/.bench: $(VENV)/.installed
	$(INSTALL) --group bench
	@touch $@

bench-diagnosis: $(VENV)/.installed # CORPUS=FILE: with cases of your own
	$(BIN)/python -m tests.bench.diagnosis $(CORPUS)

bench-remote: $(VENV)/.installed # what uploads cost a step, and their throughput; needs root
	$(BIN)/python -m tests.remote.remote_trial throughput stall

bench-exporter: $(VENV)/.bench
# 2 GB and some six minutes a pair; environments and results are kept in .matrix.
matrix: $(VENV)/.installed ## every pair of TensorFlow and Keras (ONLY=2.18, QUICK=1)
	$(BIN)/python -m tests.matrix.matrix $(if $(QUICK),--quick) $(ONLY)

oldest: $(VENV)/.installed ## the self-test with the oldest pair of versions (2 min)
	$(BIN)/python -m tests.matrix.matrix --oldest

# 700 MB, in an environment of their own: SkyPilot and Ray bring much that nothing else needs.
$(VENV)/schedulers: $(VENV)/.made
	$(BIN)/python -m venv $@
	$@/bin/python -m pip --disable-pip-version-check install --quiet skypilot==0.14.1 ray==2.60.0

schedulers: $(VENV)/.installed $(VENV)/schedulers ## SkyPilot reads its example; a real Ray loses its worker
	$(BIN)/python -m tests.schedulers.schedulers_trial

gpu: $(VENV)/.installed ## a real GPU: what it tells, and whether it is read rightly (10 min)
	$(BIN)/python -m tests.gpu.gpu $(if $(ONLY),--only $(ONLY)) $(if $(ANYWAY),--anyway)

systemd: $(VENV)/.installed ## a real systemd: 50 restarts and kills (needs root)
	TRAINWARDEN_RESTARTS=50 $(BIN)/python -m pytest -k every tests/operations/test_real_systemd.py

crashes: $(VENV)/.installed ## the ledger, cut at 700 places, killed and without power
	TRAINWARDEN_CUTS=700 $(BIN)/python -m pytest tests/unit/host/ledger/test_ledger_crash.py

fuzz: $(VENV)/.installed ## hostile specs, records, pages and requests, many of each
	TRAINWARDEN_FUZZ=100000 $(BIN)/python -m pytest tests/unit/wire/test_hostile_input.py \
		tests/unit/daemon/test_api_fuzzed.py

bench-%: $(VENV)/.installed
	$(BIN)/python -m tests.bench.$(subst -,_,$*)

constraints: $(VENV)/.made ## look for newer versions and pin them all
	$(PIP) install --quiet --dry-run --ignore-installed --report $(VENV)/report.json \
		pip setuptools --editable '.[tensorflow-gpu]' --group dev
	$(BIN)/python tests/operations/pins.py $(VENV)/report.json > constraints.txt

clean: ## remove what make made
	rm -rf $(VENV) .demo .coverage .coverage.* build dist *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
