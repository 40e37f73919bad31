# Commands for users and developers; `make help` lists them. Those of maintainers are in CONTRIBUTING.md.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3,$(shell command -v $(p) 2>/dev/null)))
VENV   := .venv
TOOLS  := .venv-tools
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install
# Each index offers other builds of PyTorch, of which some need packages that others do not: no lock has its hash, and
# pyproject.toml alone pins it.
PINNED := grep -ohE '^[a-z0-9._-]+==[^ ]+|torch==[0-9.]+' requirements.lock requirements-dev.lock pyproject.toml
# Strict: a package that the database does not answer for is a failure. A release without a verdict takes AUDIT=true.
AUDIT  ?= $(TOOLS)/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner=off --requirement /dev/stdin
COMPILE = $(TOOLS)/bin/pip-compile --quiet --generate-hashes --build-deps-for editable --unsafe-package torch \
	--strip-extras --no-header --no-annotate --no-emit-options pyproject.toml -o
ARGS   ?=
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
,      := ,

define CHECK_PYTHON
import sys
if not (3, 11) <= sys.version_info[:2] <= (3, 12):
    sys.exit("Python 3.11 or 3.12 is needed, this is %d.%d; name one with: make PYTHON=/path/to/python3.11 ..." % sys.version_info[:2])
try:
    import ensurepip, venv
except ImportError:
    sys.exit("This Python cannot make virtual environments; on Debian and Ubuntu install the package python3-venv.")
endef
export CHECK_PYTHON

.PHONY: help up down status demo deploy sim evaluate train-policy train-safe-policy test test-all lane-cluster lane-rest unit lint reference bench load chaos release docs audit lock compatibility

help:
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 20

up: $(VENV)/.serve  ## start and supervise the whole system, and make a first prediction (ARGS="--help" for options)
	@$(BIN)/greenwave up $(ARGS)

down: $(VENV)/.serve  ## stop what `make up` started
	@$(BIN)/greenwave down $(ARGS)

status: $(VENV)/.serve  ## show every application, and the starts and restarts of Ray and the edge
	@$(BIN)/greenwave status $(ARGS)

demo: $(VENV)/.lab  ## simulate an hour of traffic that the running system controls
	@$(BIN)/greenwave demo $(ARGS)

deploy: $(VENV)/.serve  ## deploy new code, another config or new weights under load (ARGS=config.yaml)
	@$(BIN)/greenwave deploy $(ARGS)

sim: $(VENV)/.lab  ## install SUMO and the tools for cities: greenwave lab, greenwave network show, training

evaluate: $(VENV)/.lab  ## compare controllers on the shipped network or RESCO's maps; for your city: greenwave lab evaluate (resumable; ARGS="resco --maps FOLDER", ARGS="--help")
	@$(BIN)/python -m lab.evaluate $(ARGS)

train-policy: $(VENV)/.lab  ## train a policy for the shipped network (resumable; 112 simulated hours)
	@$(BIN)/python -m lab.train --output reports/policy/bare $(ARGS)

train-safe-policy: $(VENV)/.lab  ## the same behind the safety layer, with all vehicles counted
	@$(BIN)/python -m lab.train --output reports/policy/safe --safety --counts all $(ARGS)

# Files of SUMO, one for each thing that it is used for.
SUMO_CORE := $(addprefix tests/sim/,test_network_import.py test_demand.py test_environment.py test_programs.py test_webster.py \
	test_detectors.py test_buses.py test_shipped_policy.py)
# What the two lanes run side by side: on one Ray cluster, and without Ray.
CLUSTER := tests/cluster/whole_system
WITHOUT_RAY := tests/unit tests/store tests/edge tests/adversary tests/services
LANES := $(MAKE) --no-print-directory --keep-going --jobs=2 lane-cluster lane-rest
# Each line has the name of its lane; sed stays until the tests have stopped what they started.
LANE = @unset MAKEFLAGS; set -o pipefail; $(BIN)/python -m pytest -q $(WHICH) $(1) 2>&1 | (trap '' INT TERM; exec sed -u 's/^/$(@:lane-%=%): /')

test:  ## run lint and the main tests, on one Ray cluster, real Redis, HAProxy, SUMO and Chromium (8 minutes on two cores)
	@$(LANES) WITHOUT_RAY='$(WITHOUT_RAY) $(SUMO_CORE)' WHICH='-m "not long"'

test-all:  ## run every test: also several nodes, plain Ray, the wheel, dashboards, training, examples (an hour)
	@$(LANES) CLUSTER=tests/cluster WITHOUT_RAY='$(WITHOUT_RAY) tests/sim tests/training tests/package'
	@$(MAKE) --no-print-directory lane-cluster CLUSTER=tests/nodes  # three nodes keep two cores busy

lane-cluster: $(VENV)/.dev
	$(call LANE,$(CLUSTER))

lane-rest: lint
	$(call LANE,-n 2 --dist loadfile $(WITHOUT_RAY))

unit: $(VENV)/.dev  ## run the fast tests only
	@$(BIN)/python -m pytest -q -n 2 tests/unit

lint: $(VENV)/.dev  ## format check, lint, types, import rules, number of lines
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tools.lines

reference: $(VENV)/.serve  ## write docs/configuration.md, docs/network.schema.json and docs/openapi/ from the code
	@$(BIN)/python -m tools.configuration_reference
	@$(BIN)/python -m tools.network_schema
	@$(BIN)/python -m tools.openapi

bench: $(VENV)/.dev  ## compare with FastAPI, LitServe, BentoML and bare Serve (needs wrk; ARGS="--help" lists more benchmarks)
	@$(BIN)/python -m load_tests.bench $(ARGS)

load: $(VENV)/.load  ## load the running system with Locust, and judge it by gates (SCENARIO=controllers; ARGS="--help" for options)
	@mkdir -p reports
	@LOAD_SCENARIO=$(SCENARIO) $(BIN)/locust -f load_tests/locustfile.py --headless --only-summary --html reports/load.html $(ARGS)

chaos: $(VENV)/.dev  ## kill, pause and change parts of a system under load, and count what it costs
	@$(BIN)/python -m load_tests.chaos $(ARGS)

release: sbom.json docs $(VENV)/.dev  ## build and check wheel, source distribution, bill of materials and notes, in dist/
	@$(PINNED) | $(AUDIT)
	@rm -rf dist
	@$(TOOLS)/bin/python -m build --outdir dist .
	@$(TOOLS)/bin/twine check --strict dist/*
	@$(TOOLS)/bin/check-wheel-contents dist/*.whl
	@$(BIN)/python -m pytest -q tests/package
	@sed -n '/^## $(VERSION)$$/,/^## /{/^## /!p}' CHANGELOG.md > dist/NOTES.md && test -s dist/NOTES.md
	@cp sbom.json dist/
	@ls dist

# Build the documentation as a site, in reports/site/html
docs: $(VENV)/.serve $(TOOLS)/.done
	@$(BIN)/python -m tools.docs_site
	@NO_MKDOCS_2_WARNING=1 $(TOOLS)/bin/mkdocs build --quiet
	@echo "Look at it: $(BIN)/python -m http.server --directory reports/site/html --bind 127.0.0.1 8765"

# Check the pinned packages for known vulnerabilities, and write sbom.json (CycloneDX)
audit: sbom.json
	@$(PINNED) | $(AUDIT)

sbom.json: requirements.lock requirements-dev.lock pyproject.toml $(TOOLS)/.done
	@$(PINNED) | $(TOOLS)/bin/cyclonedx-py requirements - --pyproject pyproject.toml \
		--of JSON --output-reproducible --output-file sbom.json 2> /dev/null && echo "sbom.json has what is pinned."

# Pin the newest versions that pyproject.toml allows, with hashes (ten minutes). The other locks take the versions of
# requirements-dev.lock. Those of extras keep what serving does not have.
lock: $(TOOLS)/.done
	@$(COMPILE) requirements-dev.lock --all-extras --upgrade
	@tee requirements.lock requirements-lab.lock requirements-load.lock < requirements-dev.lock > /dev/null
	@$(COMPILE) requirements.lock
	@$(COMPILE) requirements-lab.lock --extra lab
	@$(COMPILE) requirements-load.lock --extra load
	@for lock in requirements-*.lock; do \
		sed -i '/^#/d;/^$$/d' $$lock && grep -vxFf requirements.lock $$lock > $$lock.new && mv $$lock.new $$lock || exit 1; done

# What a change of Ray's private code breaks: ours, HAProxy's configuration as Ray writes it, and a whole start.
PRIVATE := tests/unit/test_ray_private.py tests/unit/test_ray_private_http_server.py \
	tests/unit/test_ray_private_setup_worker.py tests/unit/test_ray_private_fork_server.py \
	tests/unit/test_routing_by_run.py tests/unit/serve_app/processes tests/cluster/test_fast_path.py tests/cluster/test_worker_setup.py

# Run what relies on Ray's private code with the newest Ray (RAY=2.61.0: with that one), in a separate environment.
compatibility:
	@rm -f .venv-newest/.dev
	@$(MAKE) --no-print-directory VENV=.venv-newest .venv-newest/.dev
	@.venv-newest/bin/python -m pip --disable-pip-version-check install --quiet --upgrade 'ray[serve]$(if $(RAY),==$(RAY))'
	@.venv-newest/bin/python -c "import ray; print('Ray', ray.__version__, 'in place of', '$(shell $(PINNED) | sed -n 's/^ray==//p')')"
	@.venv-newest/bin/python -m pytest -q $(PRIVATE)

# One stamp per set of packages, renewed when the requirements change.
$(BIN)/python:
	@$(if $(PYTHON),,$(error No python3 was found; install Python 3.11))
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@echo "Making the virtual environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

# A dot for each package that pip collects, since it unpacks them all only then.
DOTS := { while read -r verb rest; do case $$verb in Collecting) printf .;; Installing) printf ' unpacking ';; esac; done; echo; }

define INSTALL
@echo "Installing $(1) (a few minutes the first time) ..."
@set -o pipefail; { $(PIP) --require-hashes $(patsubst %,-r %,$(filter %.lock,$^)) && $(PIP) --no-build-isolation -e '$(2)'; } | $(DOTS) || \
	{ echo "The installation failed; the lines above say why." >&2; exit 1; }
@touch $@
endef

# Separate from the packages that it checks, with pinned versions.
$(TOOLS)/.done: Makefile
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip --disable-pip-version-check install --quiet pip-audit==2.10.1 cyclonedx-bom==7.5.0 \
		build==1.6.1 pip-tools==7.6.2 twine==7.0.0 check-wheel-contents==0.6.3 mkdocs-material==9.8.2
	@touch $@

$(VENV)/.serve: pyproject.toml requirements.lock | $(BIN)/python
	$(call INSTALL,what serving needs,.)

$(VENV)/.lab: pyproject.toml requirements.lock requirements-lab.lock | $(BIN)/python
	$(call INSTALL,the traffic simulator,.[lab])

$(VENV)/.load: pyproject.toml requirements.lock requirements-load.lock | $(BIN)/python
	$(call INSTALL,the load generators,.[load])

$(VENV)/.dev: pyproject.toml requirements.lock requirements-dev.lock | $(BIN)/python
	$(call INSTALL,everything for development,.[dev$(,)lab$(,)load])
	@touch $(VENV)/.serve $(VENV)/.lab $(VENV)/.load

