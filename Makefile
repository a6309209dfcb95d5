# Everything runs inside .venv, which is made on first use and brought up to date whenever
# pyproject.toml or constraints.txt change. Choose the interpreter with `make PYTHON=python3.12 ...`.

PYTHON ?= python3
EVENTIDE_HISTORIES ?= 100000
EVENTIDE_KILLS ?= 40
EVENTIDE_MARK_KILLS ?= 50

VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
PIP := $(RUN) -m pip --quiet --disable-pip-version-check
ON_SPARK := tests/spark
PINNED := --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo examples test check bench soak chaos docs pins clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## Run the demonstration
	@$(VENV)/bin/eventide demo

examples: $(READY) ## Run the five example jobs
	@for job in examples/*.py; do echo "$$job"; $(RUN) $$job || exit 1; done

test: $(READY) ## Run all tests and doctests
	@$(RUN) -m pytest -n 2 --dist worksteal -rs $(ON_SPARK:%=--ignore=%)
	@echo "On Spark, which needs both cores for itself:"; $(RUN) -m pytest --durations=5 -rs $(ON_SPARK)

check: $(READY) ## Lint, check the format and the types, run the doctests
	@echo "ruff check"; $(RUN) -m ruff check .
	@echo "ruff format"; $(RUN) -m ruff format --check .
	@echo "mypy"; $(RUN) -m mypy
	@echo "doctests"; $(RUN) -m pytest src

bench: $(READY) ## Run all benchmarks and print the table
	@$(RUN) -m bench

soak: $(READY) ## Run the oracle over many random histories
	@EVENTIDE_HISTORIES=$(EVENTIDE_HISTORIES) $(RUN) -m pytest tests/oracle -n 2 --dist worksteal

chaos: $(READY) ## Kill drivers, workers, writers and readers many times, and compare the sink
	@EVENTIDE_KILLS=$(EVENTIDE_KILLS) $(RUN) -m pytest tests/spark/test_faults.py
	@EVENTIDE_MARK_KILLS=$(EVENTIDE_MARK_KILLS) $(RUN) -m pytest tests/marks/test_killed.py

docs: $(DOCS_READY) ## Build the documentation into site/
	@$(RUN) -m zensical build --strict --config-file mkdocs.yml

pins: $(DOCS_READY) ## Write the installed versions to constraints.txt
	@$(RUN) -m pip --disable-pip-version-check freeze --all --exclude-editable --exclude setuptools > constraints.txt
	@touch $(READY) $(DOCS_READY)

clean: ## Remove what was built and cached, but keep .venv
	@rm -rf build dist site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Eventide needs Python 3.11 or newer, but '$(PYTHON)' is not." \
	       "Name another one: make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(RUN) || { echo "Making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing Eventide and its tools into $(VENV)"
	@$(PIP) install $(PINNED) --upgrade pip hatchling editables
	@$(PIP) install $(PINNED) --no-build-isolation --editable '.[all]' --group dev
	@touch $@

$(DOCS_READY): $(READY)
	@echo "Installing the documentation tools into $(VENV)"
	@$(PIP) install $(PINNED) --group docs
	@touch $@
