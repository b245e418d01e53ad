PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export MIEN_CACHE ?= $(CURDIR)/$(VENV)/cache

# both workers are busy to the end, and most fixtures are built once
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: demo test test-long test-train faults soak check docs bench format lock bundle clean

demo: $(VENV)/installed
	$(BIN)/mien demo

test: $(VENV)/weights
	$(PYTEST) --ignore tests/training

# a bundle is installed and tried out
test-long: WEIGHTS = 1
test-long: $(VENV)/weights bundle
	$(PYTEST) -m long --ignore tests/training

test-train: $(VENV)/weights $(VENV)/installed-train
	$(PYTEST) tests/training

faults: $(VENV)/installed-dev
	PYTHONPATH=tests $(BIN)/python -m faults

soak: $(VENV)/installed-dev
	PYTHONPATH=tests $(BIN)/python -m faults soak

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/lock.py --check

docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/weights
	$(BIN)/mien bench

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# the newest versions that pyproject.toml allows, with their hashes
lock: $(VENV)/installed-dev
	$(BIN)/python scripts/lock.py

# all that a machine without a network needs; WEIGHTS=1 adds those of the default encoder
bundle: $(VENV)/installed-dev $(if $(WEIGHTS),$(VENV)/weights)
	$(BIN)/python scripts/lock.py --check
	PYTHON=$(BIN)/python bash scripts/bundle.sh dist $(if $(WEIGHTS),$(MIEN_CACHE)/packages)

clean:
	rm -rf $(VENV) build dist site

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/installed

$(VENV)/installed-train: pyproject.toml | $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet --editable '.[train]'
	touch $@

$(VENV)/installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

$(VENV)/weights: | $(VENV)/installed-dev
	$(BIN)/mien weights get
	touch $@
