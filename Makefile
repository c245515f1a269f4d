# make demo         install tagtrace into .venv and run the demo
# make test         install the development tools into .venv, then run the linter, the type checker and all tests
# make check        install the development tools into .venv, then run the linter and the type checker
# make screenshots  make the screenshots of the review page in docs (needs Chromium and chromedriver);
#                   DEMO=FOLDER uses the demo in FOLDER instead of making one
# make bench        compare tagtrace with other libraries, which are installed into .venv-peers (about an hour);
#                   ONLY="pydvl_direct tagtrace_given" and SIZES=20000 run only a part again
# make clean        remove everything that the other targets made

PYTHON ?= python3
VENV ?= .venv
PEERS ?= .venv-peers
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test check screenshots bench clean

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

bench: $(VENV)/installed-dev $(PEERS)/installed
	$(BIN)/python benchmarks/peers.py --peers-python $(PEERS)/bin/python $(if $(ONLY),--only $(ONLY)) $(if $(SIZES),--sizes $(SIZES))
	$(BIN)/python benchmarks/plots.py

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable ".[fast,review]"
	touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable ".[dev]"
	touch $@ $(VENV)/installed

$(PEERS)/installed: benchmarks/peers/requirements.txt constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/peers/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) $(PEERS) build dist .pytest_cache .ruff_cache tagtrace-demo tests/review/node_modules
