# Everything lives in .venv and build/; `make clean` removes both.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint format clean

demo: $(VENV)/.installed
	$(BIN)/npuscope demo -o build/demo

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest

# `make fuzz N=2000 TARGET="onnx mpool"`: damaged files of every format, thousands of them.
.PHONY: fuzz
fuzz: $(VENV)/.installed-test
	$(BIN)/python -m tests.fuzz $(TARGET) -n $(or $(N),200)

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

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
