# make demo: set up, then plant two small models and probe them. make test: set up, then lint, types and tests.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
export HF_HUB_OFFLINE = 1
export TOKENIZERS_PARALLELISM = false

.PHONY: demo test lint install install-test benchmark

# torch 2.13.0 first: a range alone would choose the newest build, with gigabytes of CUDA libraries.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q torch==2.13.0

$(VENV)/.installed: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install -q -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install -q -e '.[test]'
	touch $@

install: $(VENV)/.installed
install-test: $(VENV)/.installed-test

demo: install
	$(BIN)/fathom demo

lint: install-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest

benchmark: install-test
	$(BIN)/python -m pip install -q -e '.[benchmark]'
	$(BIN)/python benchmarks/speed.py
