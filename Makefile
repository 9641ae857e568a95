# make lab opens the course, make test checks it, make build rebuilds notebooks/ from lessons/,
# make html writes them as web pages into site/, make mutants checks the checks (half an hour),
# make bench computes again what takes too long for a lesson (6 minutes).
# Each makes .venv on its first run; a second run starts at once.
PYTHON ?= python3
PY := .venv/bin/python

lab: .venv/installed
	$(PY) -m jupyterlab notebooks $(LAB_FLAGS)

test: .venv/installed
	$(PY) -m pytest

build: .venv/installed
	$(PY) lessons/build.py

html: .venv/installed
	$(PY) lessons/export.py

mutants: .venv/installed
	$(PY) tests/mutants.py

bench: .venv/installed
	$(PY) benchmarks/length_generalisation.py

.venv/installed: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "Python 3.10 to 3.13 is needed: make $(MAKECMDGOALS) PYTHON=python3.12, or another one of yours"; exit 1; }
	$(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install --quiet -r requirements.txt
	touch .venv/installed

.PHONY: lab test build html mutants bench
