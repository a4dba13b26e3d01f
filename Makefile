# Everything lives in .venv and build/; `make clean` removes both.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)

.PHONY: demo test test-random test-oldest lint format clean

demo: $(VENV)/.installed
	$(BIN)/npuscope demo -o build/demo

# `make test ARGS="tests/cli -x"` runs a part. Idle workers take tests from busy ones.
PYTEST := -m pytest -n $(CORES) --dist worksteal
# Tests start npuscope some thousand times: modules keep their byte code, whatever the caller prefers.
export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.installed-test
	$(BIN)/python $(PYTEST) $(ARGS)

# Another order of tests and of hashes every time; the seeds are printed at the top.
test-random: $(VENV)/.installed-test
	seed=$$(date +%s); echo "PYTHONHASHSEED=$$((seed % 4096))"; \
	PYTHONHASHSEED=$$((seed % 4096)) $(BIN)/python $(PYTEST) -p randomly $(ARGS)

# The suite with the oldest dependencies that pyproject.toml allows, in an environment of its own.
test-oldest:
	$(PYTHON) -m venv build/oldest
	build/oldest/bin/python -m pip install --quiet -e '.[test]' -c tests/oldest.txt
	build/oldest/bin/python $(PYTEST) $(ARGS)

# The suite in a Python without the names that Windows lacks; tests of those names are skipped.
# platformdirs, which comes with the docs, has a plugin that asks a Linux for them.
.PHONY: test-portable
test-portable: $(VENV)/.installed-test
	PYTHONPATH=tests/without_posix $(BIN)/python $(PYTEST) -p no:platformdirs $(ARGS)

# `make fuzz N=2000 TARGET="onnx mpool"`: damaged files of every format, thousands of them.
.PHONY: fuzz
fuzz: $(VENV)/.installed-test
	$(BIN)/python -m tests.fuzz $(TARGET) -n $(or $(N),200)

# `make differential N=500 SEED=1000`: random quantized networks, each judged by two ways to compute.
.PHONY: differential
differential: $(VENV)/.installed-test
	$(BIN)/python -m tests.differential -n $(or $(N),200) --seed $(or $(SEED),0)

# The documentation as a site of plain files, in build/docs.
.PHONY: docs
docs: $(VENV)/.installed-docs
	$(BIN)/python tools/write_reference.py
	$(BIN)/python tools/write_rule_docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build $(VENV)

# `pip install` is repeated only when the project file changed.
$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@ $(VENV)/.installed

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
