# The verbs of this project, for a person and for CI alike. They need Python ≥ 3.11, git and make; the rest is set up here.
#
#   make book        build the site into _build/html         make notebooks   write the .ipynb beside the chapters
#   make serve       look at it in a browser                 make bench       measure pages and kernels
#   make test        lint, types, tests, notebooks, browser  make coverage    what of lib no test reaches
#   make clean       remove what was built

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TORCH := $(shell grep '^torch==' requirements.txt)
BUILD := $(BIN)/jupyter-book build . -W -n --keep-going
PYTEST := $(BIN)/pytest -n logical --maxprocesses 4 --no-loadscope-reorder
TRAINED := tests/claims tests/experiments

.PHONY: book test trained coverage notebooks lint style types bench serve clean chromium

book: $(READY)
	$(BUILD)
ifneq ($(wildcard _config_en.yml),)
	$(BUILD) --config _config_en.yml --toc _toc_en.yml --path-output _build/en
	rm -rf _build/html/en && cp -R _build/en/_build/html _build/html/en
endif
	@echo "The book is in _build/html; 'make serve' shows it at http://127.0.0.1:8000"

# Fast first: what a typo breaks shows in seconds, what needs the built site comes last. The build keeps one core busy; the
# types and the tests that train models, one after the other, the other.
test: style chromium
	$(BIN)/node --test tests/*/*.test.mjs
	$(MAKE) --jobs=2 types book trained
	$(PYTEST) $(TRAINED:%=--ignore=%)

trained: $(READY)
	$(BIN)/pytest $(TRAINED)

# What of lib no test of lib reaches, branches too.
coverage: $(READY)
	$(PYTEST) tests lib --ignore=tests/book --cov=lib --cov-branch --cov-report=term-missing:skip-covered

lint: style types

style: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python -m tools.notebooks --check

types: $(READY)
	$(BIN)/basedpyright

notebooks: $(READY)
	$(BIN)/python -m tools.notebooks

bench: book chromium
	set -e; for script in benchmarks/*.py; do $(BIN)/python -m benchmarks.$$(basename $$script .py); done

serve: book
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

clean:
	rm -rf _build .pytest_cache .ruff_cache

# The stamp is newer than what it was made from, so that a second run starts at once.
$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "This book needs Python 3.11 or newer; '$(PYTHON)' is older or missing. Try: make PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up .venv, which takes a few minutes the first time"
	$(PYTHON) -m venv .venv
	@# Alone and without retries: where this index can't be reached it must not cost ten seconds a package.
	$(BIN)/pip install --no-deps --retries 0 --index-url https://download.pytorch.org/whl/cpu $(TORCH) \
	  || $(BIN)/pip install $(TORCH)
	$(BIN)/pip install -q -r requirements.txt
	$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	touch $@

# Tests and benchmarks look at pages in the system's browser.
chromium:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo="sudo -n"; \
	if command -v apt-get >/dev/null && $$sudo true 2>/dev/null; then \
	  $$sudo apt-get update -q && $$sudo apt-get install -qy chromium; \
	else \
	  echo "Install Chromium or Google Chrome: the browser tests need one on the PATH." >&2; exit 1; \
	fi
