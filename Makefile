# make study   the environment, then the whole study to a finished report
# make test    linters, types, layering and the quick tests
# make docs    the documentation as a site, in docs/_build/html
# make help    the rest

ENV ?= cpu
PYTHON ?=
CONFIG ?=
ARGS ?=
SHELL := /bin/sh
export ARGS
PY := .venv/bin/python
# A process takes up to 3 GB. Who has nothing left takes over half of what the other has.
PROCESSES ?= 2
IN_PARALLEL = --numprocesses $(PROCESSES) --dist worksteal --durations 10
# Snakemake's jobs call `python`: the environment's comes first on PATH.
RUN := PATH="$$(pwd)/.venv/bin:$$PATH"

.PHONY: help arguments study environment test test-all test-nightly lint types style layers security rules-style workflow lock config docs explorer outputs pictures results forecasts clean test-environment torch-cpu
.DEFAULT_GOAL := help

help:
	@echo "make study              make the environment, run the study, write results/<study>/report.html"
	@echo "                        CONFIG=my.yaml         another config file"
	@echo "                        ARGS='--config ...'    further arguments for snakemake"
	@echo "                        ENV=gpu                cpu (default), gpu, torch, jax-tpu or tpu: which packages"
	@echo "                        PYTHON=python3.12      default: the oldest fitting python3.x on PATH"
	@echo "make environment        only make the environment (.venv)"
	@echo "make torch-cpu          add PyTorch's CPU build, where pip is told of an index or a folder that has it"
	@echo "make test               linters, types, layering and the quick tests: minutes, PROCESSES=2 at a time"
	@echo "make test-all           the same with every test that this machine can run in minutes, those of fit/ too"
	@echo "make test-nightly       what takes longest: statistics, rarer faults in whole studies, a cluster"
	@echo "make config             write config/config.yaml and the schema from the typed config"
	@echo "make docs               write the generated pages, build the site into docs/_build/html"
	@echo "make explorer           write the page of well-known models, docs/_build/html/explorer.html"
	@echo "make outputs            run the commands that open the documentation's pages, keep what they print"
	@echo "make pictures           draw the answer and the explorer, docs/images (needs Chromium)"
	@echo "make results            make tables and picture of docs/results from its records and sessions"
	@echo "make forecasts          fit and test the forecasts against published times, write their page"
	@echo "make lock               resolve envs/*.in anew (UPGRADE=1 takes newer versions)"
	@echo "make clean              remove the environment and caches; results stay"

environment:
	@sh envs/install.sh "$(ENV)" "$(PYTHON)"

# Before anything is installed: the shell itself would only say that a string is unterminated.
arguments:
	@(eval "set -- $$ARGS") 2>/dev/null || { echo "ARGS has a quote without its partner: $$ARGS" >&2; exit 2; }
	@[ -z "$(CONFIG)" ] || [ -f "$(CONFIG)" ] || { echo "$(CONFIG): no such file; name a config file by CONFIG=" >&2; exit 2; }

study: arguments environment
	@$(PY) -m whichdevice study $(if $(CONFIG),--configfile "$(CONFIG)") -- $(ARGS)

test-environment:
	@sh envs/install.sh test "$(PYTHON)"

# PyTorch publishes CPU builds apart from the package index: no lock can hold them, and ENV=torch brings CUDA, several GB.
TORCH_CPU := torch==2.13.0+cpu
torch-cpu:
	@[ -x $(PY) ] || sh envs/install.sh "$(ENV)" "$(PYTHON)"
	@$(PY) -m pip install --quiet --disable-pip-version-check "$(TORCH_CPU)" || \
		{ echo "pip finds no $(TORCH_CPU): name PyTorch's CPU index by PIP_EXTRA_INDEX_URL, or take ENV=torch" >&2; exit 1; }

# The checker of types takes as long as all others together.
lint: test-environment
	@$(MAKE) --no-print-directory --jobs $(PROCESSES) types style layers security rules-style workflow

types:
	$(PY) -m mypy
style:
	$(PY) -m ruff check .
layers:
	.venv/bin/lint-imports
security:
	.venv/bin/bandit --quiet --recursive scripts envs --configfile pyproject.toml
rules-style:
	.venv/bin/snakefmt --check --compact-diff Snakefile rules
workflow:
	@$(RUN) snakemake --lint

test: lint
	$(RUN) python -m pytest -m "not slow and not long" $(IN_PARALLEL)

test-all: lint
	$(RUN) python -m pytest -m "not long" $(IN_PARALLEL) tests fit/tests

test-nightly: test-environment
	$(RUN) python -m pytest -m long $(IN_PARALLEL) tests fit/tests

lock: environment
	@sh envs/lock.sh "$$(pwd)/.venv/bin/python"

config: environment
	@$(PY) -m whichdevice config --write config

docs: test-environment
	$(PY) docs/generate.py
	$(PY) -m sphinx -n -W --keep-going -q -b html docs docs/_build/html
	@$(PY) -m whichdevice explorer --html docs/_build/html/explorer.html
	@echo "The site: docs/_build/html/index.html"

explorer: environment
	@mkdir -p docs/_build/html
	$(PY) -m whichdevice explorer --html docs/_build/html/explorer.html

outputs: test-environment
	$(PY) docs/outputs.py
	$(PY) docs/generate.py

pictures: test-environment
	PYTHONPATH=scripts:. $(PY) docs/pictures.py

results: test-environment
	$(PY) docs/records.py tables
	$(PY) docs/scorecard.py
	$(PY) docs/generate.py

clean:
	rm -rf .venv .venv-lock .venv-sky .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis docs/_build

forecasts:
	PYTHONPATH=scripts:. $(PY) -m fit $(ARGS)
