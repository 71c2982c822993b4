# Holdfast: `make help` lists what there is. Every target does its own set-up.

PYTHON ?= python3
# Processes of `make test`: more than the cores of a small machine, because most tests spend their time waiting.
WORKERS ?= 3
export POSTGRES_VERSIONS  # PostgreSQL servers to test on; if empty, the oldest and the newest that are found
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q

.DEFAULT_GOAL := help
.PHONY: help up demo test quick check prove agents bench screenshots lock clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## (.*)/\1|\2/' | awk -F'|' '{printf "  make %-7s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("Holdfast needs Python 3.11 or later; this is %d.%d. Try: make PYTHON=python3.12" % v[:2])'
	@$(PYTHON) -m venv $(VENV) || { echo 'Could not create $(VENV). On Debian and Ubuntu: apt-get install python3-venv'; exit 1; }

$(VENV)/.run: requirements/run.lock pyproject.toml | $(BIN)/python
	@echo 'Setting up $(VENV) from requirements/run.lock …'
	@$(PIP) install --require-hashes -r requirements/run.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.test: requirements/test.lock $(VENV)/.run
	@echo 'Adding what the tests need from requirements/test.lock …'
	@$(PIP) install --require-hashes -r requirements/test.lock
	@touch $@

$(VENV)/.bench: requirements/bench.lock $(VENV)/.run
	@echo 'Adding what the benchmarks need from requirements/bench.lock …'
	@$(PIP) install --require-hashes -r requirements/bench.lock
	@touch $@

up: $(VENV)/.run ## set up and run the daemon on SQLite at 127.0.0.1:4653 (Ctrl-C stops it)
	@exec $(BIN)/holdfast up

demo: $(VENV)/.run ## run a complete example in under a minute, in a temporary home
	@exec $(BIN)/holdfast demo

test: $(VENV)/.test check ## style, types, import law and the whole test suite
	@$(BIN)/python -m compileall -q -f src tests/support
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --maxfail=10 --durations=15

quick: $(VENV)/.test ## the inner loop: package tests on SQLite
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m 'not slow' -k 'not postgres and not sqlite3' \
	  tests/domain tests/store tests/ingress tests/routing tests/egress tests/daemon

check: $(VENV)/.test ## style, types and import law only
	@$(BIN)/ruff check --no-cache . && $(BIN)/ruff format --no-cache --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --config pyproject.toml --no-cache

prove: $(VENV)/.test ## kill, stop and disconnect Holdfast on both stores and account for every event (15 min)
	@exec $(BIN)/holdfast prove

.agents/.done: tests/agents/package.json tests/agents/package-lock.json
	@command -v npm >/dev/null || { echo 'The agent CLIs are programs for Node; install node and npm, 20 or later.'; exit 1; }
	@echo 'Installing the agent CLIs into .agents, about 1.5 GB …'
	@mkdir -p .agents && cp $^ .agents/
	@cd .agents && npm install --no-save --ignore-scripts --no-audit --no-fund
	@touch $@

agents: $(VENV)/.test .agents/.done ## run the real agent CLIs against a model on this machine (downloads 1.5 GB once)
	@AGENT_PROGRAMS=$(CURDIR)/.agents/node_modules $(BIN)/python -m pytest tests/agents

bench: $(VENV)/.bench ## measure beside the peers and the limits of this machine, write docs/proof/numbers.md (40 min; BENCH=--quick)
	@exec $(BIN)/python -m benchmarks $(BENCH)

screenshots: $(VENV)/.test ## take the pictures of the web page that the docs show
	@SCREENSHOTS=$(CURDIR)/docs/operate/images $(BIN)/python -m pytest -q tests/web/test_screens.py -k accessible_and_inside

lock: ## update the lock files (needs uv)
	@for f in run test bench $(patsubst requirements/%.in,%,$(wildcard requirements/bench-*.in)); do \
	  case $$f in bench-oban) v=3.12;; *) v=3.11;; esac; \
	  uv pip compile -q --upgrade --universal --no-strip-extras --python-version $$v --generate-hashes --no-emit-index-url --custom-compile-command 'make lock' requirements/$$f.in -o requirements/$$f.lock; done

clean: ## remove what the other targets created
	@rm -rf $(VENV) .agents .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
