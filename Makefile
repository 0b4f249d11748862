# Everything sets itself up: `make demo` and `make test` need only python3 (3.11 to 3.14) and a package index.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Two processes more than cores: tests wait for browsers, servers and databases.
JOBS   ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 2 )))
# -qq: a package's warnings are not news. Byte code is compiled afterwards, on all cores.
PIP    := $(BIN)/python -m pip --disable-pip-version-check install -qq --progress-bar off --no-compile -c constraints.txt
# What is installed has to have a hash that is written down in locks/; they are complete, so that nothing else comes along.
LOCKED := $(PIP) --require-hashes --no-deps -r
# limner itself, from this checkout, built with what the lock has brought.
ITSELF := $(PIP) --no-deps --no-build-isolation -e .
UV     := uv==0.13.7
# Real data beside the checkout, where there is some; tests and proofs that need it say so when it is missing.
DATA   := $(or $(LIMNER_DATA),$(wildcard ../shared/data))
export LIMNER_DATA := $(if $(DATA),$(abspath $(DATA)))
# The documentation theme's notice about its successor.
export NO_MKDOCS_2_WARNING := 1
# Empty means off: hundreds of tests start Python, and without byte code on disk each compiles what it imports again.
export PYTHONDONTWRITEBYTECODE :=

# Those that need a GPU are run by name.
BENCHMARKS := $(filter-out benchmarks/claims.py benchmarks/hardware.py benchmarks/pages.py $(wildcard benchmarks/*_gpu.py),$(wildcard benchmarks/*.py))
PROOFS     := $(wildcard proofs/*.py)

.DEFAULT_GOAL := help
.PHONY: help demo test installed cluster others check quick lint format docs bench proofs oldest lock clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/core.stamp  ## install the light core, evaluate two systems on the built-in world, write the report
	@$(BIN)/limner demo

test:  ## install everything, then lint, types and import contract, beside all tests and docs
	@$(MAKE) --no-print-directory -j3 installed
	@$(MAKE) --no-print-directory -j3 lint cluster others

installed: $(VENV)/dev.stamp $(VENV)/core-only.stamp $(VENV)/s3.stamp $(VENV)/croissant.stamp $(VENV)/mteb.stamp $(VENV)/vision.stamp $(VENV)/browser.stamp $(VENV)/latex.stamp $(VENV)/collected.stamp

# In a process of their own, which has not imported Ray before they set it up; mostly they wait, so they run beside the others.
cluster: $(VENV)/dev.stamp
	@$(BIN)/python -m pytest -q tests/cluster >$(VENV)/cluster.log 2>&1; \
	  status=$$?; echo "limner: the tests of the cluster:"; cat $(VENV)/cluster.log; exit $$status

# worksteal: neighbouring tests stay in one process, so that what a file's tests share (a model, a server) is made once.
others: $(VENV)/dev.stamp
	@echo "limner: running the tests"
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --ignore=tests/cluster

check: $(VENV)/dev.stamp  ## before every commit: style, types, import contract and the quick tests, side by side
	@$(MAKE) --no-print-directory -j2 lint quick

# Without what starts processes, browsers or clusters, and without slow files: tests/conftest.py says which those are.
quick: $(VENV)/dev.stamp  ## the quick tests
	@$(BIN)/python -m pytest -q -p no:cacheprovider --quick tests

lint: $(VENV)/dev.stamp  ## style, types and the import contract
	@echo "limner: checking style, types and imports"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "limner: run 'make format'" >&2; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache >$(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }

format: $(VENV)/dev.stamp  ## put the code in shape
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

docs: $(VENV)/dev.stamp  ## build the documentation into site/, with the evidence and all claims
	@$(BIN)/mkdocs build --strict --quiet
	@echo "limner: the documentation is in site/index.html"

bench: $(VENV)/dev.stamp  ## run every benchmark in full (QUICK=1: a minute's version) and save the claims
	@$(call run_each,$(BENCHMARKS))

proofs: $(VENV)/dev.stamp  ## recompute every published figure (QUICK=1: a minute's version) and save the claims
	@$(call run_each,$(PROOFS))

# The lowest versions of what opens a stranger's model; the test runs itself again with them in front.
oldest: $(VENV)/oldest.stamp  ## read hostile model folders with the lowest allowed versions (Python 3.11 or 3.12)
	@$(BIN)/python -m pytest -q -p no:cacheprovider -m long tests/security/test_model_folders.py

lock: $(VENV)/made.stamp  ## write locks/ anew from constraints.txt: hashes of every file of every pin
	@$(PYTHON) -m venv --clear $(VENV)/lock && $(VENV)/lock/bin/python -m pip install -qq --no-deps $(UV)
	@$(call locked,core)
	@$(call locked,dev,--group dev)
	@$(call locked_aside,s3)
	@$(call locked_aside,croissant)
	@$(call locked_aside,mteb)
	@$(call locked_aside,oldest)

clean:  ## remove the virtual environment and everything built
	rm -rf $(VENV) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks proofs -name __pycache__ -type d -prune -exec rm -rf {} +

# A quick run proves little, so it is shown but not saved.
# torch is left out: it comes as one of several builds (CPU, CUDA), from whatever index has the right one.
locked = printf 'editables\nhatchling\npip\n' | $(VENV)/lock/bin/uv --quiet --config-file locks/uv.toml pip compile pyproject.toml - $(2) \
  -c constraints.txt --universal --python-version 3.11 --generate-hashes --no-emit-package torch --no-annotate --no-header -o locks/$(1).txt

# A group that names all its packages itself.
locked_aside = $(VENV)/lock/bin/uv --quiet pip compile --group $(1) --no-deps $(if $(filter oldest,$(1)),,-c constraints.txt) --universal --python-version 3.11 \
  --generate-hashes --no-annotate --no-header -o locks/$(1).txt

run_each = for script in $(1); do echo "limner: $$script"; $(BIN)/python $$script $(if $(QUICK),--quick,--save) || exit 1; done

$(VENV)/made.stamp:
	@command -v $(PYTHON) >/dev/null || { echo "limner needs Python 3.11, 3.12, 3.13 or 3.14, but there is no '$(PYTHON)'." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null || { \
	  echo "limner needs Python 3.11, 3.12, 3.13 or 3.14, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Install one and name it: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' has no venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "limner: making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/core.stamp: pyproject.toml locks/core.txt $(VENV)/made.stamp
	@echo "limner: installing the core (numpy, scipy, numba, scikit-learn, ...)"
	@$(LOCKED) locks/core.txt
	@$(ITSELF)
	@$(compile)
	@touch $@

# A fresh environment gets everything in one go; the core's stamp comes with it, so a demo afterwards installs nothing.
# torch comes last and without a hash, since every index has a build of its own; by then all it needs is there.
$(VENV)/packages.stamp: pyproject.toml constraints.txt locks/dev.txt $(VENV)/made.stamp
	@echo "limner: installing the core and everything the tests use (about a minute; torch is among it)"
	@$(LOCKED) locks/dev.txt
	@touch $@

$(VENV)/dev.stamp: $(VENV)/packages.stamp
	@$(PIP) torch
	@$(ITSELF)
	@$(BIN)/python -m pip --disable-pip-version-check check
	@$(compile)
	@touch $(VENV)/core.stamp $@

# Some packages ship templates that end in .py and are not Python: those do not matter. A fifth is left out that hardly
# anything imports: the hundreds of models of transformers, Ray's learning, compilers of torch.
compile = $(BIN)/python -m compileall -q -j 0 -x '/(tests?|testing|models|_inductor|rllib|serve|tune|pip|mypy)/' $(VENV)/lib >/dev/null 2>&1 || true

# An environment of its own with the core and no extra: a test runs every command in it.
$(VENV)/core-only.stamp: pyproject.toml locks/core.txt $(VENV)/made.stamp
	@$(PYTHON) -m venv --clear $(VENV)/core-only
	@$(subst $(BIN),$(VENV)/core-only/bin,$(LOCKED)) locks/core.txt
	@$(subst $(BIN),$(VENV)/core-only/bin,$(ITSELF))
	@touch $@

# The server of the tests of object storage, mlcroissant and mteb: each in a folder of its own, which the tests add to their path.
$(VENV)/s3.stamp $(VENV)/croissant.stamp $(VENV)/mteb.stamp: $(VENV)/%.stamp: locks/%.txt $(VENV)/packages.stamp
	@$(LOCKED) locks/$*.txt --target $(VENV)/$* --upgrade --no-build-isolation
	@touch $@

# With these, their own versions apply and not those of constraints.txt.
$(VENV)/oldest.stamp: locks/oldest.txt $(VENV)/dev.stamp
	@$(BIN)/python -m pip --disable-pip-version-check install -qq --require-hashes --no-deps -r locks/oldest.txt --target $(VENV)/oldest --upgrade
	@touch $@

# Byte code of the tests, and the constants that Hypothesis draws from, are made once, beside torch: otherwise each process
# of the tests makes them for itself. What cannot be imported yet does not matter.
$(VENV)/collected.stamp: $(VENV)/packages.stamp
	@$(BIN)/python -m pytest --collect-only -qq -p no:cacheprovider --ignore=tests/cluster >/dev/null 2>&1 || true
	@touch $@

# open_clip and timm import torchvision, whose build must fit that of torch.
$(VENV)/vision.stamp: $(VENV)/dev.stamp
	@$(PIP) --group vision
	@$(BIN)/python -c 'import torchvision' 2>/dev/null || { \
	  echo "limner: torchvision does not load with the torch installed; the tests of open_clip and timm will be skipped"; \
	  $(BIN)/python -m pip uninstall -qq -y torchvision timm open_clip_torch; }
	@touch $@

# The tests of the HTML report drive a real browser, and LaTeX tables are compiled. Without the programs those tests are
# skipped and say so.
$(VENV)/browser.stamp: $(VENV)/made.stamp
	@$(call debian,Chromium,chromium chromium-browser google-chrome,chromium,the browser tests)

# After the browser: apt-get refuses to run twice at a time.
$(VENV)/latex.stamp: $(VENV)/made.stamp | $(VENV)/browser.stamp
	@$(call debian,LaTeX,pdflatex,texlive-latex-base texlive-latex-recommended,the test that compiles tables)

# Installs Debian packages: $(call debian,name,programs of which one is enough,packages,what is skipped without them)
debian = for program in $(2); do if command -v $$program >/dev/null; then touch $@; exit 0; fi; done; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo="sudo -n"; \
	if ! command -v apt-get >/dev/null || ! $$sudo true 2>/dev/null; then \
	  echo "limner: no $(1), and no apt-get with root rights to install it; $(4) will be skipped"; exit 0; fi; \
	echo "limner: installing $(1) for $(4)"; \
	export DEBIAN_FRONTEND=noninteractive; \
	if { $$sudo apt-get update && $$sudo apt-get install -y --no-install-recommends $(3); } >$(@:.stamp=.log) 2>&1; \
	then touch $@; else echo "limner: $(1) did not install ($(@:.stamp=.log)); $(4) will be skipped"; fi
