# Two commands matter: `make run` shows natsel at work, `make test` says whether it is sound.
# Both need only git, make and Python 3.11 or newer; the first call makes .venv.

PYTHON ?= python3
TORCH ?=
BIN := .venv/bin
READY := .venv/.ready
BENCH_READY := .bench-venv/.ready
# Bytecode is written even where the environment says otherwise: to compile every library again in each of the many
# processes that tests start takes longer than most tests. Threads that wait leave their core to others, as both cores
# are in use. No test reads logs.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/pytest -n 2 -p no:logging --durations=10

# Real data lie in the folder that NATSEL_DATA names: where it is not set, the one beside the checkout, if there is one.
# natsel itself knows no such place.
ifeq ($(origin NATSEL_DATA),undefined)
NATSEL_DATA := $(shell cd ../shared/data 2>/dev/null && pwd)
endif
export NATSEL_DATA

# What tests make in natsel's cache is gone afterwards, and what a developer has there makes no test pass.
EMPTY_CACHE := empty="$$(mktemp -d)" && export NATSEL_CACHE="$$empty/natsel" && trap 'rm -rf "$$empty"' EXIT

.PHONY: help run test test-portable slow bench clean cpu-torch

help:
	@echo "make run    set up if needed, then show natsel at work"
	@echo "make test   set up if needed, then lint, types, layers, dependencies and the default tests"
	@echo "make test-portable  the default tests as other processors would round"
	@echo "make slow   the tests marked slow, and properties by many more examples"
	@echo "make bench  natsel against its peers, in an environment of their own"
	@echo "make clean  remove environments, caches and builds"

run: $(READY)
	$(BIN)/natsel demo

test: $(READY) cpu-torch
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPY_NUM_WORKERS=2 $(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/deptry src
	@$(EMPTY_CACHE); if [ -z "$$NATSEL_DATA" ]; then $(PYTEST); exit; fi; \
	env -u NATSEL_DATA $(PYTEST) -m "not slow and not needs_data"; without=$$?; \
	echo "The tests that read the data sets in $$NATSEL_DATA"; \
	$(PYTEST) -m "not slow and needs_data" $$(grep -rl --include='*.py' mark.needs_data tests) && exit $$without

# The default tests as other processors would round: products of matrices that add in another order, and kernels without
# vector instructions (docs/numbers.md).
test-portable: $(READY)
	@$(EMPTY_CACHE); env -u NATSEL_DATA PYTHONPATH=tests $(PYTEST) -p other_processor; other=$$?; \
	env -u NATSEL_DATA ATEN_CPU_CAPABILITY=default $(PYTEST) && exit $$other

slow: $(READY)
	$(PYTEST) -m "slow or hypothesis" --hypothesis-profile=many

bench: $(BENCH_READY)
	.bench-venv/bin/natsel bench

clean:
	rm -rf .venv .bench-venv build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find src tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

define CHECK_PYTHON
import sys
if sys.version_info < (3, 11):
    sys.exit("natsel needs Python 3.11 or newer and found %d.%d; install a newer one and call "
             "make PYTHON=python3.12 (or whatever it is called)." % sys.version_info[:2])
endef
export CHECK_PYTHON

# $(call install,environment,extra). uv takes seconds where pip takes minutes, but does not read pip's
# settings, so a wheel folder set up for pip is passed on; pip alone is the way out where uv fails, and there
# torchvision is taken out again (docs/decisions/0002). The stamp remembers whether there was such a folder.
define install
	@$(PYTHON) -c "$$CHECK_PYTHON"
	$(PYTHON) -m venv $(1)
	@links="$${PIP_FIND_LINKS:-$$($(1)/bin/pip config get global.find-links 2>/dev/null)}"; \
	set --; for link in $$links; do set -- "$$@" --find-links "$$link"; done; \
	echo "installing natsel[$(2)] into $(1)"; \
	{ $(1)/bin/pip install -qq uv && \
	  $(1)/bin/uv pip install -q --python $(1)/bin/python "$$@" -c constraints.txt -e '.[$(2)]'; } || \
	{ echo "uv could not install natsel; trying pip, which takes longer"; \
	  $(1)/bin/pip install -q -c constraints.txt -e '.[$(2)]' && \
	  $(1)/bin/pip uninstall -qqy torchvision; } || exit 1; \
	if [ -n "$$links" ]; then echo cpu; else echo any; fi > $(1)/.ready
endef

$(READY): pyproject.toml constraints.txt
	$(call install,.venv,dev)

$(BENCH_READY): pyproject.toml constraints.txt
	$(call install,.bench-venv,bench)

define CHECK_TORCH
import importlib.util, pathlib, runpy, sys
torch = pathlib.Path(importlib.util.find_spec("torch").origin)
cuda = runpy.run_path(str(torch.with_name("version.py")))["cuda"]  # quicker than importing torch
if cuda is not None:
    sys.exit(f"torch: the CPU build was expected and the build for CUDA {cuda} is installed; give pip a find-links "
             "folder with a CPU wheel of the version in constraints.txt for this Python and call make clean test, "
             "or keep the build with make test TORCH=any.")
endef
export CHECK_TORCH

# A CUDA build taken by accident is gigabytes, silently. Only tests ask, and only where there was a wheel folder to
# take the CPU build from; anywhere else any torch will do.
cpu-torch: $(READY)
	@if [ "$(TORCH)" != any ] && [ "$$(cat $(READY))" = cpu ]; then \
		$(BIN)/python -c "$$CHECK_TORCH"; fi
