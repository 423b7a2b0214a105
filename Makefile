# Every daily command of fastgrad. `make` alone lists them.
# `make demo` and `make test` need Linux, Python 3.11 or 3.12, make and a C compiler; they set up the
# rest in .venv themselves.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV    := .venv
RUN     := $(VENV)/bin/python
PIP     := $(RUN) -m pip install --quiet --disable-pip-version-check
WORKERS ?= 2
# Options for pip, such as an index or a mirror of your own: make test PIP_ARGS='--index-url …'
PIP_ARGS ?=

# One warm kernel cache for all processes of a test run, of the demo and of the benchmarks.
export FASTGRAD_CACHE_DIR ?= $(CURDIR)/.cache/fastgrad

.PHONY: help
help: ## List the commands
	@echo "fastgrad: make COMMAND"
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

# --- Set-up -----------------------------------------------------------------------------------

# The first interpreter that is 3.11 or 3.12 and runs (a version manager's shim may exist and not run).
# Override with make test PYTHON=/path/to/python.
PYTHON ?=

$(RUN):
	@python="$(PYTHON)"; \
	right='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))'; \
	if [ -z "$$python" ]; then \
	  for candidate in python3.12 python3.11 python3; do \
	    if "$$candidate" -c "$$right" >/dev/null 2>&1; then python="$$candidate"; break; fi; \
	  done; \
	fi; \
	if [ -z "$$python" ]; then \
	  echo "fastgrad needs Python 3.11 or 3.12: none of python3.12, python3.11, python3 is one." >&2; \
	  echo "Install one (Debian, Ubuntu: apt-get install python3 python3-venv), or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; \
	  exit 1; \
	fi; \
	if ! "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	  echo "$$python cannot make a virtual environment: its modules venv and ensurepip are missing." >&2; \
	  echo "Install them (Debian, Ubuntu: apt-get install python3-venv)." >&2; \
	  exit 1; \
	fi; \
	echo "Creating $(VENV) with $$("$$python" --version) ($$python)"; \
	"$$python" -m venv $(VENV)

# A stamp for each set of packages: pip runs again only when pyproject.toml changes.
$(VENV)/.installed-demo: pyproject.toml | $(RUN)
	@echo "Installing fastgrad and what the demo needs into $(VENV)"
	@$(PIP) $(PIP_ARGS) --editable '.[demo]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(RUN)
	@echo "Installing fastgrad and its development tools into $(VENV) (about a minute)"
	@$(PIP) $(PIP_ARGS) --editable '.[dev]'
	@touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-peers: pyproject.toml | $(RUN)
	@echo "Installing the other peers of make compare into $(VENV) (3 GB, most of it MindSpore)"
	@$(PIP) $(PIP_ARGS) --editable '.[peers]'
	@touch $@

.PHONY: compiler
compiler:
	@command -v "$${CC:-cc}" >/dev/null || { \
	  echo "fastgrad's tests need a C compiler: '$${CC:-cc}' was not found." >&2; \
	  echo "Install one (Debian, Ubuntu: apt-get install gcc), or name it: make $(MAKECMDGOALS) CC=/path/to/cc" >&2; \
	  exit 1; }

.PHONY: setup
setup: $(VENV)/.installed-dev ## Make .venv with everything for development

.PHONY: peers
peers: $(VENV)/.installed-peers ## Install the other peers of make compare: JAX, MindSpore, HIPS autograd

# --- Commands ---------------------------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/.installed-demo ## Train a denoiser on two photographs: fastgrad beside composed autodiff
	@$(RUN) -m fastgrad.demo

.PHONY: demo-torch
demo-torch: $(VENV)/.installed-dev ## Train a diffusion U-Net in PyTorch: stock beside patched (ARGS='--steps 50')
	@$(RUN) -m fastgrad.demo.unet $(ARGS)

.PHONY: test
# The tests of the runtime fork: in processes of their own, which hold few kernels and no other library's threads.
# Those of PyTorch, too: a worker that has compiled everything holds gigabytes.
test: compiler lint ## Linters, types and all tests (WORKERS=2)
ifeq ($(ARGS),)
	$(RUN) -m pytest -n $(WORKERS) --ignore tests/runtime --ignore tests/pytorch
	$(RUN) -m pytest -n $(WORKERS) tests/pytorch
	$(RUN) -m pytest -n $(WORKERS) tests/runtime
else
	$(RUN) -m pytest -n $(WORKERS) $(ARGS)
endif

.PHONY: lint
lint: $(VENV)/.installed-dev ## ruff check, ruff format --check, mypy
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

.PHONY: bench
bench: $(VENV)/.installed-dev ## pytest-benchmark: fastgrad beside each installed peer (PEERS=)
	$(RUN) -m pytest benchmarks $(if $(PEERS),--peers '$(PEERS)') $(ARGS)

# Saved and compared are fastgrad's own medians. A run on another day sees another machine: for changes
# of a few percent, make compare REPEAT=… interleaves with peers.
BENCH_OWN := -m pytest benchmarks --peers none --benchmark-max-time=1

.PHONY: bench-save
bench-save: $(VENV)/.installed-dev ## Store fastgrad's benchmarks in .benchmarks, by commit or NAME=
	$(RUN) $(BENCH_OWN) $(if $(NAME),--benchmark-save='$(NAME)',--benchmark-autosave) $(ARGS)

.PHONY: bench-diff
bench-diff: $(VENV)/.installed-dev ## A fresh run beside the last one stored; an error if a median is 10 % slower
	@ls .benchmarks/*/*.json >/dev/null 2>&1 || { echo "Nothing is stored yet: make bench-save" >&2; exit 1; }
	$(RUN) $(BENCH_OWN) --benchmark-compare --benchmark-compare-fail=median:10% $(ARGS)

.PHONY: compare
compare: $(VENV)/.installed-dev ## Time, memory, error against peers (OP= SHAPE= DTYPE= PEERS= WORKLOAD= REPEAT= PICTURE= README=1)
	@$(RUN) -m fastgrad.bench.compare \
	  $(foreach name,OP SHAPE DTYPE PEERS WORKLOAD REPEAT JSON MARKDOWN PICTURE,$(call given,$(name))) \
	  $(if $(README),--readme README.md) $(ARGS)

.PHONY: compare-torch
compare-torch: $(VENV)/.installed-dev ## PyTorch's modules beside fastgrad.torch's: time, bytes kept (JSON=, ARGS='--only GELU')
	@$(RUN) -m fastgrad.bench.torch_modules $(call given,JSON) $(ARGS)

# An option by the name of a variable of make, if it was given.
given = $(if $($(1)),--$(shell echo $(1) | tr A-Z a-z) '$($(1))')

.PHONY: exhaustive
exhaustive: $(VENV)/.installed-dev ## All float32 inputs of the vector functions against float64 (OP=)
	@$(RUN) tools/exhaustive.py --workers $(WORKERS) $(foreach op,$(OP),--op '$(op)') $(ARGS)

# The profiling commands take a call by the names that compare has.
profile_options = $(foreach name,OP SHAPE DTYPE,$(call given,$(name))) $(ARGS)

.PHONY: profile
profile: $(VENV)/.installed-dev ## Where the time of a call goes: dispatch, passes, cores (OP= SHAPE= DTYPE=)
	@$(RUN) -m fastgrad.profile time $(profile_options)

.PHONY: profile-asm
profile-asm: $(VENV)/.installed-dev ## The hot loop, annotated, and its vector width (OP= DTYPE=)
	@$(RUN) -m fastgrad.profile assembly $(profile_options)

.PHONY: profile-memory
profile-memory: $(VENV)/.installed-dev ## Bytes kept and peak, beside autodiff (OP= SHAPE= DTYPE=)
	@$(RUN) -m fastgrad.profile memory $(profile_options)

.PHONY: profile-hw
profile-hw: $(VENV)/.installed-dev ## Hardware counters by perf (OP= SHAPE= DTYPE=)
	@$(RUN) -m fastgrad.profile hardware $(profile_options)

.PHONY: stress
stress: $(VENV)/.installed-dev ## Random operators, threads, forks, cache faults (SEED= MINUTES= ARGS=)
	@$(RUN) -m tools.stress $(if $(SEED),--seed '$(SEED)') $(if $(MINUTES),--minutes '$(MINUTES)') $(ARGS)

.PHONY: clean
clean: ## Remove .venv, caches and what the commands wrote, but no saved benchmarks
	rm -rf $(VENV) .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist demo.png demo-torch.png
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
