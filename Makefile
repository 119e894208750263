# `make` lists the targets. CI runs these targets and nothing of its own.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
# What was compiled once is not compiled again by each of a thousand processes.
unexport PYTHONDONTWRITEBYTECODE

PYTEST := $(BIN)/pytest -n 2 --dist loadgroup
QUICK := --hypothesis-profile quick -m "not slow and not thorough"

.PHONY: help setup check test test-changed test-ci test-all faults mutants installed qgis-plugin qgis-test demo bench golden docs clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /:/' | awk -F: '{printf "make %-12s %s\n", $$1, $$2}'

setup: $(READY) ## Make .venv with everything for development; quick when nothing changed

$(READY): pyproject.toml scripts/setup.sh scripts/system.sh
	@PYTHON="$(PYTHON)" scripts/setup.sh .venv
	@touch $@

check: $(READY) ## Format, lint and types, without changing a file
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

test: $(READY) ## Run the tests that matter
	$(PYTEST) $(QUICK)

test-changed: $(READY) ## Run those that what changed since SINCE (main) can affect
	@tests=$$($(BIN)/python -m tests.changed $(SINCE)) && $(PYTEST) $(QUICK) $$tests

test-ci: $(READY) ## Run all tests but stress for minutes, with all examples
	$(PYTEST) -m "not slow"

test-all: $(READY) ## Run the slow tests as well
	$(PYTEST)

faults: $(READY) ## Let each file-system call of each command fail, in turn
	$(BIN)/python -m tests.faults

mutants: $(READY) ## Change the code on which everything rests, one thing at a time; do tests notice?
	@$(BIN)/python -m tests.mutants --into .mutants $(MUTANTS)

installed: ## Build the wheel, install it without extras, and use it
	@PYTHON="$(PYTHON)" scripts/installed.sh

qgis-plugin: ## Pack the QGIS plugin into dist/
	@$(PYTHON) scripts/qgis-plugin.py

qgis-test: $(READY) ## Run the plugin's tests in a QGIS without a screen, by the system's Python
	@scripts/system.sh qgis
	QT_QPA_PLATFORM=offscreen /usr/bin/python3 -m unittest discover --verbose -s qgis/tests -t qgis/tests

demo: $(READY) ## See the main job from end to end
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/demo.sh

bench: $(READY) ## Measure what the design promises
	$(BIN)/python -m tests.bench

golden: $(READY) ## Write the expected outputs of golden tests anew; read the diff before committing
	$(BIN)/pytest --update-golden

docs: $(READY) ## Build the documentation into site/
	$(BIN)/pip install --quiet --editable '.[docs]'
	$(BIN)/mkdocs build --strict

clean: ## Remove everything that was made here
	rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist site
	find havasu_vc qgis tests -name __pycache__ -type d -prune -exec rm -rf {} +
