# Everything a user runs. Each target makes .venv first when it is missing and reuses it when it is there.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
SEED ?= 1
SEEDS ?= 5
JOBS ?= 2

# Two cores are the smallest machine: more threads than that only wait for each other. Nothing is downloaded at run time.
export OMP_NUM_THREADS ?= 2
export MKL_NUM_THREADS ?= 2
export TOKENIZERS_PARALLELISM := false
export HF_HUB_OFFLINE := 1
export PYTHONUNBUFFERED := 1

TESTS := $(BIN)/python -m pytest
# Files side by side: these tests wait for processes more than they compute. Those with an engine fill the cores by themselves.
SIDE_BY_SIDE := -n $(JOBS) --dist loadfile

.PHONY: help install agents demo test unit lint bench soak clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: ## make .venv (three to six minutes the first time)
	@deploy/install.sh

demo: install ## start Headrace, let an agent work, learn from its rewards, show that it got better (SEED=1)
	@$(BIN)/headrace demo --seed $(SEED) $(DEMO)

agents: install ## install the agent that wants an environment of its own (Hermes: 140 MB, a minute)
	@deploy/agents/install.sh >/dev/null

lint: install ## ruff, mypy, import rules
	@echo "lint: ruff" && $(BIN)/ruff check .
	@echo "lint: mypy" && $(BIN)/mypy
	@echo "lint: import rules" && $(BIN)/lint-imports

unit: install ## tests without an engine, the quick ones
	@$(TESTS) $(SIDE_BY_SIDE) -m "not engine and not e2e and not slow and not soak" $(PYTEST)

test: lint agents ## lint and every test but the soak
	@deploy/postgres.sh
	@status=0; \
	$(TESTS) $(SIDE_BY_SIDE) -m "not engine and not e2e and not soak" --durations=15 $(PYTEST) || status=$$?; \
	$(TESTS) -m "(engine or e2e) and not soak" --durations=15 $(PYTEST) || status=$$?; \
	exit $$status

soak: install ## the long tests: repeated kill -9 under load
	@$(TESTS) -m soak --durations=15 $(PYTEST)

bench: install ## the demo over SEEDS=5 seeds; one JSON line last, kept in bench/results/
	@$(BIN)/python -m bench.demo --seeds $(SEEDS)

clean: ## remove caches and build output; .venv and your data stay
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -path ./.venv -prune -o -type d -name __pycache__ -print | xargs -r rm -rf
