# make setup   a virtual environment in .venv with everything in it
# make demo    train a tiny model on numbers, score it, translate with it (MODEL=transformer-tiny, …)
# make test    ruff, mypy and the tests: of long sweeps over similar cases, a third
# make test-all     the same, with every case
# make test-lowest   the tests of core, hub, formats and server with the lowest supported dependencies
# make cards   update the cards of the models and the generated parts of the docs
# make docs    build the site from docs/ into site/
# make notebooks   run the notebooks of the site and store what they print
# make screens     what a browser measures on all pages of the site, and pictures of some
# make release-checkpoints   train, score and list the released checkpoints (NAMES="…" for some)
# make verify-release   score the shipped checkpoints again and compare with their cards
# make verify-exports   compare the exports of the released checkpoints, in environments of their own
# make verify-install   test the wheels, an external plugin and the pages' commands in a new environment
#
# PIP_ARGS is passed to every pip install, for instance to use another build of torch or index.
# PYTEST_ARGS is passed to pytest. All tests together run on all cores, each file in one process, as
# its tests share trained models and environments; tests/conftest.py names the files that start first.
# A plain `pytest tests/…` uses one process, so that a single file starts fast and a debugger works.

PYTHON ?= python3
VENV ?= .venv
LOWEST ?= build/lowest
PIP_ARGS ?=
# Three more than the cores, because many tests wait for other processes. nproc counts no core more
# than OMP_NUM_THREADS, which is about the threads of one process.
PROCESSES := $(shell expr $$(OMP_NUM_THREADS= nproc 2>/dev/null || echo 2) + 3)
SWEEPS ?= --sample-sweeps
PYTEST_ARGS ?= --numprocesses $(PROCESSES) --maxprocesses 8 --dist loadfile --no-loadscope-reorder $(SWEEPS)
MODEL ?= rnnsearch-tiny
NAMES ?=
DEMO ?= runs/demo/$(MODEL)
BIN := $(VENV)/bin

# The installation compiles no modules, which takes half of its processor time: what is imported is
# compiled then. The tests start some hundred processes of the zoo: none compiles its modules again.
demo test test-lowest: export PYTHONDONTWRITEBYTECODE =

.PHONY: setup demo test test-all test-lowest cards docs notebooks screens release-checkpoints verify-release verify-install verify-exports clean
setup: $(VENV)/ready

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt $(PIP_ARGS) --editable '.[test]'
	touch $@

demo: setup
	rm -rf $(DEMO) $(DEMO).run
	$(BIN)/zoo train $(MODEL) --data numbers-en-fr --out $(DEMO)
	$(BIN)/zoo eval $(DEMO) --data numbers-en-fr --split test
	$(BIN)/zoo translate $(DEMO) "twenty-one" "four hundred and five" "seven hundred and eighty thousand and ninety-nine"

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPY_NUM_WORKERS=2 $(BIN)/mypy
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-all: SWEEPS =
test-all: test

# Warnings of old versions about newer ones of their own dependencies are no failures.
test-lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/pip install --quiet --no-compile --disable-pip-version-check --constraint constraints-lowest.txt $(PIP_ARGS) --editable '.[test]'
	$(LOWEST)/bin/python -m pytest $(PYTEST_ARGS) -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning tests/hub tests/core tests/interop tests/serving

cards: setup
	$(BIN)/zoo card --all --out cards/models
	$(BIN)/python docs/build.py

docs: setup
	$(BIN)/python docs/build.py
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs site

notebooks: setup
	$(BIN)/python docs/notebooks.py

screens: docs
	$(BIN)/python -m tests.site.pages --out build/screens

release-checkpoints: setup
	$(BIN)/python cards/release.py $(NAMES)

verify-release: setup
	$(BIN)/python cards/release.py --verify $(NAMES)

verify-install: setup
	$(BIN)/python -m tests.external_plugins.verify_install $(PIP_ARGS)

verify-exports: setup
	$(BIN)/python -m tests.campaigns.exports
	$(BIN)/python -m tests.campaigns.exports --logits
	$(BIN)/python -m tests.campaigns.exports --clean build/exports

clean:  # what you have trained in runs/ stays
	rm -rf $(VENV) runs/demo build dist
