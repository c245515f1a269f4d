# make demo         install tagtrace into .venv and run the demo
# make test         install the development tools into .venv, then run the linter, the type checker and all tests
# make check        install the development tools into .venv, then run the linter and the type checker
# make screenshots  make the screenshots of the review page in docs (needs Chromium and chromedriver);
#                   DEMO=FOLDER uses the demo in FOLDER instead of making one
# make clean        remove everything that the other targets made

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test check screenshots clean

demo: $(VENV)/installed
	$(BIN)/tagtrace demo

test: check
	$(BIN)/python -m pytest --numprocesses 2 -rs

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	VIRTUAL_ENV=$(abspath $(VENV)) PATH="$(abspath $(BIN)):$$PATH" basedpyright --verifytypes tagtrace --ignoreexternal

screenshots: $(VENV)/installed-dev
	$(BIN)/python experiments/screenshots.py $(DEMO)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable ".[fast,review]"
	touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable ".[dev]"
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache tagtrace-demo tests/review/node_modules
