# make demo         install tagtrace into .venv and run the demo
# make test         install the development tools into .venv, then run the linter, the type checker, make docs and all tests
# make check        install the development tools into .venv, then run the linter and the type checker
# make docs         make a site of docs/ in the folder site/, to read without a network
# make screenshots  make the screenshots of the review page in docs (needs Chromium and chromedriver);
#                   DEMO=FOLDER uses the demo in FOLDER instead of making one
# make bench        compare tagtrace with other libraries, which are installed into .venv-peers (about an hour);
#                   ONLY="pydvl_direct tagtrace_given" and SIZES=20000 run only a part again
# make fault        try every command with malformed input, killed at any moment and on full disks (an hour or more);
#                   RUNS, KILLS and FULL say how often, SEED which draws; a stopped run goes on when it is given again;
#                   the summary is written to the file FAULTS
# make fuzz         try every reader with random files, FILES for each (about an hour); SEED says which; a stopped run goes on
#                   when it is given again; the summary is written to the file FUZZ; then the review page with
#                   100,000 random requests
# make clean        remove everything that the other targets made

PYTHON ?= python3
VENV ?= .venv
PEERS ?= .venv-peers
BIN := $(VENV)/bin
# --use-pep517: a package without a wheel is then built apart; setuptools, which came with torch, could not build it
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 --constraint constraints.txt

RUNS ?= 5000
KILLS ?= 1000
FULL ?= 300
SEED ?= 0
FAULTS ?= fault.json
FILES ?= 1000000
FUZZ ?= fuzz.json

.PHONY: demo test check docs screenshots bench fault fuzz clean

demo: $(VENV)/installed
	$(BIN)/tagtrace demo

test: check docs
	$(BIN)/python -m pytest --numprocesses 2 -rs

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	VIRTUAL_ENV=$(abspath $(VENV)) PATH="$(abspath $(BIN)):$$PATH" basedpyright --verifytypes tagtrace --ignoreexternal

docs: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs --quiet build --strict

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

fault: $(VENV)/installed-dev
	PYTHONPATH=src $(BIN)/python -m tests.fault --runs $(RUNS) --kills $(KILLS) --full $(FULL) --seed $(SEED) --out $(FAULTS)

fuzz: $(VENV)/installed-dev
	PYTHONPATH=src $(BIN)/python -m tests.fuzz --files $(FILES) --seed $(SEED) --out $(FUZZ)
	PYTHONPATH=src $(BIN)/python -m tests.fuzz.page --requests 100000

clean:
	rm -rf $(VENV) $(PEERS) build dist site .pytest_cache .ruff_cache tagtrace-demo tests/review/node_modules
