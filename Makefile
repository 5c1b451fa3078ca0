# make run        start the page on http://127.0.0.1:7860       make run ARGS=...
# make test       the linter and all tests, browser tests too   make test PYTEST_OPTIONS="tests/test_model.py"
# make train-copy train the copy model from nothing             make train TASK=reverse TRAIN_OPTIONS="--out runs/mine"
# make bench      measure the budgets, as a table               make bench BENCH="decode --json"
# make lint       the linter alone                              make clean   take away all that was set up
#
# Each sets up what it needs first, in .venv, once. PIP_INSTALL_OPTIONS goes to pip: on Linux without a GPU,
#   make run PIP_INSTALL_OPTIONS="--extra-index-url https://download.pytorch.org/whl/cpu"
# fetches the small build of PyTorch, where that index can be reached, in the place of the one for CUDA.

.DELETE_ON_ERROR:
.PHONY: run test train bench lint clean setup setup-dev

VENV := .venv
VENV_PYTHON := $(VENV)/bin/python
PYTHON ?= python3.11 python3.12 python3.10 python3
TASK ?= copy

# Named after what the requirements say, so that changing them installs again and touching them does not.
RUN_STAMP := $(VENV)/.run-$(shell cat requirements.txt | cksum | cut -d ' ' -f 1)
DEV_STAMP := $(VENV)/.dev-$(shell cat requirements.txt requirements-dev.txt | cksum | cut -d ' ' -f 1)
PIP_INSTALL = $(VENV_PYTHON) -m pip install --disable-pip-version-check --no-input $(PIP_INSTALL_OPTIONS)

run: setup
	$(VENV_PYTHON) app.py $(ARGS)

test: setup-dev
	$(VENV_PYTHON) tests/find_chromium.py
	$(VENV_PYTHON) -m ruff check
	$(VENV_PYTHON) -m pytest $(PYTEST_OPTIONS)

bench: setup-dev
	$(VENV_PYTHON) -m benchmarks $(BENCH)

lint: setup-dev
	$(VENV_PYTHON) -m ruff check

train: setup
	$(VENV_PYTHON) -m transformer train $(TASK) $(TRAIN_OPTIONS)

train-%: setup
	$(VENV_PYTHON) -m transformer train $* $(TRAIN_OPTIONS)

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis tests/screenshots
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup: $(RUN_STAMP)

setup-dev: $(DEV_STAMP)

$(RUN_STAMP): | $(VENV_PYTHON)
	$(PIP_INSTALL) -r requirements.txt
	rm -f $(VENV)/.run-*
	touch $@

$(DEV_STAMP): | $(VENV_PYTHON)
	$(PIP_INSTALL) -r requirements-dev.txt
	rm -f $(VENV)/.dev-*
	touch $@

# The first Python that is neither too old nor too new and has its venv module; Debian keeps that in a package.
$(VENV_PYTHON):
	@set -eu; \
	fits() { command -v "$$1" >/dev/null && "$$1" -c \
	    'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; }; \
	for python in $(PYTHON); do if fits "$$python"; then break; fi; python=; done; \
	if [ -z "$$python" ]; then \
	    echo "Python 3.10, 3.11 or 3.12 is needed, none of these is one: $(PYTHON). Set PYTHON=/path/to/python." >&2; \
	    exit 1; \
	fi; \
	if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends \
	        "$$("$$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"; \
	fi; \
	if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null; then \
	    echo "$$python lacks its venv module; on Debian: sudo apt-get install python3-venv." >&2; \
	    exit 1; \
	fi; \
	echo "Setting up $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv --clear $(VENV)
