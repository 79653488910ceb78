# make demo: set up, then plant two small models and probe them. make test: set up, then lint, types and tests.
PYTHON ?= python3
VENV ?= .venv
SAMPLE ?= 20
CAMPAIGN ?= ../shared/faults/campaign.py
DATA ?= ../shared/data
BIN = $(VENV)/bin
export HF_HUB_OFFLINE = 1
export TOKENIZERS_PARALLELISM = false

.PHONY: demo test lint install install-test benchmark mutation faults

# torch 2.13.0 first: a range alone would choose the newest build, with gigabytes of CUDA libraries.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q torch==2.13.0

$(VENV)/.installed: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install -q -e '.[report]'
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
	$(BIN)/oxlint --quiet --deny-warnings src/fathom/report/assets

test: lint
	$(BIN)/python -m pytest

benchmark: install-test
	$(BIN)/python -m pip install -q -e '.[benchmark]'
	$(BIN)/python benchmarks/speed.py

# Two processes of two hours at most; SAMPLE: so many mutants of each module. ONLY=metrics/: of these modules.
mutation: install-test
	$(BIN)/python -m pip install -q -e '.[mutation]'
	$(BIN)/python benchmarks/mutation.py --sample $(SAMPLE) $(if $(ONLY),--only $(ONLY))

# Kills, bad inputs, full disks and races, by the script CAMPAIGN on the data sets DATA, for hours.
# PART=kills,points,inputs,invariance,disk,race; MORE='--seed 7 --slice 1/4': what else the script takes.
faults: install-test
	$(BIN)/python $(CAMPAIGN) --fathom $(BIN)/fathom --data $(DATA) --out faults $(if $(PART),--part $(PART)) $(MORE)
