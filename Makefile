# `make check` is what .ci/run does, in this checkout and this environment.
PYTHON ?= .venv/bin/python
BIN := $(dir $(PYTHON))

.PHONY: check test lit lint format types layers wheel clean
check: lint types layers test

test:
	$(PYTHON) -m pytest -q

lit:
	$(PYTHON) -m pytest -q tests/test_lit.py

lint:
	$(BIN)ruff check
	$(BIN)ruff format --check

format:
	$(BIN)ruff check --fix
	$(BIN)ruff format

types:
	$(BIN)pyright --pythonpath $(PYTHON)

layers:
	$(BIN)lint-imports

wheel:
	$(PYTHON) -m pip wheel -q --no-deps -w dist .

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache
