# One command per thing a developer does; `make help` lists them.
# Everything is written inside this directory: the environment in .venv, caches in .cache and beside the sources.

SHELL := /bin/sh
BIN := .venv/bin
READY := .venv/.ready
KERNELS := .venv/.kernels
CLASSES := .cache/spark.jsa

# matplotlib would otherwise keep its font cache in the home directory.
export MPLCONFIGDIR := $(CURDIR)/.cache/matplotlib
# Without bytecode every process would compile all sources anew: the tests and the benchmarks start hundreds of them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench bench-match bench-route bench-broker bench-reliable bench-spark bench-statistics bench-order bench-reshape soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(KERNELS) ## make .venv with every pinned dependency, compile the kernels, see to a Java for Spark
	@tools/java.sh

# Made anew only when what it is made from has changed.
$(READY): pyproject.toml tools/constraints.txt tools/setup.sh
	@tools/setup.sh
	@touch $@

# Compiled ahead of time, and anew when a source of theirs has changed.
$(KERNELS): $(READY) $(wildcard src/sluice/match/kernels/*.py)
	@echo "setup: compiling the kernels of the matcher"; $(BIN)/python -m sluice.match.warm
	@touch $@

demo: $(KERNELS) ## watch matching on a live stream of stock quotes (Ctrl-C stops it)
	@$(BIN)/sluice demo

# Every Spark of the tests starts with these; without them it takes twice as long.
$(CLASSES): tests/jvm.py $(READY) | setup
	@echo "test: keeping the classes of Spark"; $(BIN)/python -m tests.jvm 2>/dev/null || echo "test: going on without them"

# For two cores: first what is made once beside types, then tests, three at a time, since many wait for sockets and processes.
test: ## lint, types, doctests, examples in the docs, and all tests
	@$(MAKE) --no-print-directory --jobs=2 $(CLASSES) lint
	$(BIN)/python -m pytest --numprocesses=3 -m "not long"

lint: $(READY) ## ruff (rules and format) and mypy (strict)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: bench-match bench-route bench-broker bench-reliable bench-spark bench-statistics bench-order bench-reshape ## run every benchmark

bench-match: $(KERNELS) ## measure the matcher and its peers; results go to bench/results
	$(BIN)/python -m bench.match

bench-route: $(KERNELS) ## measure routing: changes a second, the simulator, the papers' figures; results go to bench/results
	$(BIN)/python -m bench.route

bench-broker: $(KERNELS) ## measure the broker beside NATS, RabbitMQ and ActiveMQ; results go to bench/results
	@tools/peers.sh
	$(BIN)/python -m bench.broker

bench-reliable: $(KERNELS) ## measure reliable delivery: its cost, and stalls when a broker dies, beside NATS; results go to bench/results
	@tools/peers.sh
	$(BIN)/python -m bench.reliable

bench-spark: $(KERNELS) ## measure the data pipeline on Spark beside Spark's own means; results go to bench/results
	$(BIN)/python -m bench.spark

bench-statistics: $(KERNELS) ## count what travels in vain, with and without statistics; results go to bench/results
	$(BIN)/python -m bench.statistics

bench-order: $(KERNELS) ## measure total order over real processes, and compare algorithms for it; results go to bench/results
	$(BIN)/python -m bench.order

bench-reshape: $(KERNELS) ## compare ways to replace a link of the tree, in virtual time; results go to bench/results
	$(BIN)/python -m bench.reshape

soak: $(KERNELS) ## generated filters against the plain oracle, simulated networks, fuzzed frames, a thousand killed brokers
	$(BIN)/python -m pytest -m long
	$(BIN)/python -m tests.soak
	$(BIN)/sluice simulate --minutes 10
	$(BIN)/sluice simulate --scenario reshape --runs 12000
	$(BIN)/python -m tests.fuzz_frames --minutes 2
	$(BIN)/python -m tests.soak_network --cycles 1000 --report
	$(BIN)/python -m tests.soak_network --cycles 100 --redundant

clean: ## remove everything that setup, tests and runs have made
	rm -rf .venv .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist src/*.egg-info
	rm -rf derby.log metastore_db spark-warehouse
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
