PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export MIEN_CACHE ?= $(CURDIR)/$(VENV)/cache

# both workers are busy to the end, and most fixtures are built once
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: demo test test-long test-train faults soak check docs bench format clean

demo: $(VENV)/installed
	$(BIN)/mien demo

test: $(VENV)/weights
	$(PYTEST) --ignore tests/training

test-long: $(VENV)/weights
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

docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/weights
	$(BIN)/mien bench

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist site

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
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
