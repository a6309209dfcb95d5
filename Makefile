# Everything runs inside .venv, which is created on first use and updated whenever pyproject.toml
# or requirements.lock change. Choose the interpreter with `make PYTHON=python3.12 ...`.

PYTHON ?= python3
EVENTIDE_KILLS ?= 40
EVENTIDE_DRIVER_KILLS ?= 200
EVENTIDE_MARK_KILLS ?= 50
EVENTIDE_SINK_KILLS ?= 100
EVENTIDE_RESCALE_KILLS ?= 30

VENV := .venv
RUN := $(VENV)/bin/python
UV := $(VENV)/bin/uv
READY := $(VENV)/.ready
LOCK := requirements.lock
SPARK_TESTS := tests/spark
COSMIC_RAY := .cache/cosmic-ray/bin/cosmic-ray

# uv does not read pip's configuration, but an index or a mirror that pip is configured with applies to uv too.
PIP_INDEX = $(RUN) -m pip config get :env:.index-url 2>/dev/null || $(RUN) -m pip config get global.index-url 2>/dev/null
INSTALL_INTO = index=$$($(PIP_INDEX)); export UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$${index:-$$UV_INDEX_URL}}"; \
          [ -n "$$UV_DEFAULT_INDEX" ] || unset UV_DEFAULT_INDEX; \
          $(UV) pip install --system-certs --python
INSTALL = $(INSTALL_INTO) $(RUN)

# Hundreds of processes import the same modules. Without compiled modules, an import takes four times as long.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo examples test test-all test-install lint format check bench soak chaos mutants docs build lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## Run the demonstration
	@$(VENV)/bin/eventide demo

examples: $(READY) ## Run the five example jobs, and the two example projects that need no servers
	@for job in examples/*.py; do echo "$$job"; $(RUN) $$job || exit 1; done
	@cd examples; for project in devices files_to_delta; do \
	  echo "examples/$$project"; $(CURDIR)/$(RUN) -m $$project || exit 1; done

test: $(READY) ## Run the tests that a change needs (about 7 minutes on two cores)
	@$(RUN) -m pytest -n 2 --dist worksteal -rfEs -m 'not long' --ignore=$(SPARK_TESTS)
	@echo "Tests on Spark, which needs both cores:"
	@$(RUN) -m pytest -n 2 --dist worksteal -rfEs -m 'not long' $(SPARK_TESTS)

test-all: test ## Run all tests: also long histories, faults, clusters, examples and Kafka
	@echo "Long tests:"
	@EVENTIDE_HISTORIES=$${EVENTIDE_HISTORIES:-400} $(RUN) -m pytest -n 2 --dist worksteal -rfEs -m long --ignore=$(SPARK_TESTS)
	@EVENTIDE_HISTORIES=$${EVENTIDE_HISTORIES:-400} $(RUN) -m pytest -n 2 --dist loadfile --durations=5 -rfEs -m long $(SPARK_TESTS)

test-install: build ## Install the wheel into empty environments without caches, and run the demonstration there
	@.ci/install dist/*.whl

lint: $(READY) ## Run ruff and mypy
	@echo "ruff check"; $(RUN) -m ruff check .
	@echo "mypy"; $(RUN) -m mypy

format: $(READY) ## Format the code, and fix what ruff can fix
	@$(RUN) -m ruff check --fix-only .
	@$(RUN) -m ruff format .

check: $(READY) ## Lint, check the format and the types, run the doctests
	@echo "ruff check"; $(RUN) -m ruff check .
	@echo "ruff format"; $(RUN) -m ruff format --check .
	@echo "mypy"; $(RUN) -m mypy
	@echo "doctests"; $(RUN) -m pytest src

bench: $(READY) ## Run all benchmarks and print the table
	@$(RUN) -m bench

soak: export EVENTIDE_HISTORIES ?= 100000
soak: $(READY) ## Run the oracle over many random histories
	@$(RUN) -m pytest tests/oracle -n 2 --dist worksteal

chaos: $(READY) ## Kill drivers, executors, databases, writers and readers many times, and compare the sink
	@EVENTIDE_KILLS=$(EVENTIDE_KILLS) $(RUN) -m pytest tests/spark/test_faults.py
	@EVENTIDE_KILLS=$(EVENTIDE_KILLS) $(RUN) -m pytest -rP tests/spark/test_staging_faults.py
	@EVENTIDE_RESCALE_KILLS=$(EVENTIDE_RESCALE_KILLS) $(RUN) -m pytest tests/spark/test_rescale_kills.py
	@EVENTIDE_DRIVER_KILLS=$(EVENTIDE_DRIVER_KILLS) $(RUN) -m pytest tests/driver/test_kills.py
	@EVENTIDE_MARK_KILLS=$(EVENTIDE_MARK_KILLS) $(RUN) -m pytest tests/marks/test_crashes.py
	@EVENTIDE_SINK_KILLS=$(EVENTIDE_SINK_KILLS) $(RUN) -m pytest -rP tests/sinks/test_staging_kills.py

mutants: $(READY) $(COSMIC_RAY) ## Change the core at random places and print how many changes the tests notice
	@$(RUN) .ci/mutants.py $(CURDIR)/$(COSMIC_RAY)

docs: $(READY) ## Build the documentation into site/
	@$(RUN) -m zensical build --strict --config-file mkdocs.yml

build: $(READY) ## Build the wheel and the source archive into dist/
	@rm -rf dist
	@$(RUN) -m hatchling build

lock: $(UV) ## Resolve all dependencies again and write requirements.lock
	@$(UV) pip compile --quiet --universal --generate-hashes --no-header --no-annotate --upgrade \
	   --all-extras --group dev --group docs --output-file $(LOCK) pyproject.toml

clean: ## Remove build results and caches, but keep .venv
	@rm -rf build dist site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(READY): pyproject.toml $(LOCK) | $(UV)
	@echo "Installing Eventide, Spark and the development tools into $(VENV) (about 700 MB)"
	@$(INSTALL) --requirement $(LOCK)
	@$(INSTALL) --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# An environment of its own: nothing else needs it.
$(COSMIC_RAY): | $(UV)
	@$(RUN) -m venv --clear .cache/cosmic-ray
	@$(INSTALL_INTO) .cache/cosmic-ray/bin/python --quiet 'cosmic-ray>=8.7,<9'

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Eventide needs Python 3.11 or newer, but '$(PYTHON)' is not." \
	       "Name another one: make PYTHON=python3.12" >&2; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'
