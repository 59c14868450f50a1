# Two commands do everything on a fresh machine: `make demo` and `make test`.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SEEDS  ?= 1000
SEED   ?= 0
POWER_SEEDS = $(if $(filter file,$(origin SEEDS)),10000,$(SEEDS))
JOBS   ?= auto

MINUTES ?= 60

COMPILED := compiled

.PHONY: help setup check style types test demo simulate soak power soak-live figures bench wheel compile clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.ready ## the environment for running, developing and testing, in .venv

$(VENV)/.ready: pyproject.toml constraints.txt tools/setup.sh
	PYTHON=$(PYTHON) sh tools/setup.sh $(VENV)
	@touch $@

style: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: setup
	$(BIN)/mypy

check: style types ## lint, types, layers and the fast tests
	$(BIN)/pytest -q -n $(JOBS) -m "not slow"

test: setup ## all tests
	$(BIN)/pytest -q -n $(JOBS)

demo: setup ## brokers as processes, killed while a market trades, and the verdict
	$(BIN)/gapless demo

simulate: setup ## many seeded runs: make simulate ARGS="--order best-effort --seeds 100"
	$(BIN)/gapless simulate $(ARGS)

soak: setup ## long simulation under faults: make soak SEEDS=10000 SEED=0
	$(BIN)/gapless spark simulate --soak --seeds $(SEEDS) --seed $(SEED)

power: setup ## how many random seeds find each known fault: make power SEEDS=10000 SEED=0
	$(BIN)/python -m tools.power --seeds $(POWER_SEEDS) --seed $(SEED)

soak-live: setup ## real brokers under random faults: make soak-live MINUTES=60 SEED=0
	$(BIN)/python -m tools.soak_live --minutes $(MINUTES) --seed $(SEED)

figures: setup ## the papers' figures on Spark, with a report, in ./figures
	$(BIN)/gapless figures --out figures

bench: setup ## every benchmark, each beside what it is compared with
	$(BIN)/python -m benchmarks

wheel: setup ## a wheel in ./dist; compiled, if there is a C compiler
	GAPLESS_COMPILE=$(if $(shell command -v cc),1,0) $(BIN)/hatchling build -t wheel -d dist

compile: $(COMPILED)/.ready ## a compiled copy of gapless: PYTHONPATH=compiled .venv/bin/gapless ...

$(COMPILED)/.ready: $(VENV)/.ready hatch_build.py $(shell find src -name '*.py')
	rm -rf $(COMPILED)
	GAPLESS_COMPILE=1 $(BIN)/hatchling build -t wheel -d $(COMPILED)
	$(BIN)/python -m zipfile -e $(COMPILED)/gapless-*.whl $(COMPILED)
	rm $(COMPILED)/gapless-*.whl
	PYTHONPATH=$(COMPILED) $(BIN)/gapless --version
	@touch $@

clean: ## remove what make made
	rm -rf $(COMPILED) dist $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
