PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help demo test soak lint format docs dist audit bench bench-large bench-gpu clean
help:            ## what can be made
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## / /' | awk '{c=$$1; $$1=""; printf "  make %-12s%s\n", c, $$0}'

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fastgtn needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)   ## set up, train on the built-in graph, show the result
	$(BIN)/fastgtn demo

test: $(READY) lint   ## linters, types and all tests
	$(BIN)/python -m pytest -n 2

lint: $(READY)   ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## rewrite the code in the project's style
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

docs: $(READY)   ## build the documentation site in site/ (without the network; every warning is an error)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html in a browser"

soak: $(READY)   ## faults and bad inputs for an hour (MINUTES=60); an interrupted soak continues with its counts
	OMP_NUM_THREADS=1 PYTHONPATH=.:tests $(BIN)/python tests/faults/soak.py \
		--minutes $(or $(MINUTES),60) --inputs $(or $(INPUTS),0) --faults $(or $(FAULTS),0)

dist: $(READY)   ## build a wheel and an sdist in dist/, and try the wheel in an empty environment
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	rm -rf dist build
	$(BIN)/python -m build --quiet
	$(BIN)/python release/smoke.py dist/*.whl

audit: $(READY)  ## ask pip-audit about the pinned versions, where its database can be reached
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	$(BIN)/python release/audit.py

bench: $(READY)  ## speed and memory against the other ways to compute the same thing
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.speed

bench-large: $(READY)  ## a graph of 1.1 million nodes and 28 million edges: speed and memory of training
	$(BIN)/python -m benchmarks.large

bench-gpu: $(READY)  ## one hop on a CUDA device: the fused Triton kernel, plain torch, and the processor
	$(BIN)/python -m benchmarks.gpu

clean:           ## remove the environment and the caches
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
