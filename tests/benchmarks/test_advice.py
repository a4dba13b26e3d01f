"""The benchmark of advice: an edit, an option and machine keys of one small network."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from models import save
from models_tflite import TfliteWriter

FILE = Path(__file__).parents[2] / "benchmarks" / "advice.py"


@pytest.fixture(scope="module")
def advice() -> Iterator[ModuleType]:
    """Under another name than the package of tests."""
    spec = spec_from_file_location("advice_benchmark", FILE)
    assert spec is not None and spec.loader is not None
    module = sys.modules["advice_benchmark"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["advice_benchmark"]


def test_promises_are_followed(advice: ModuleType, tmp_path: Path) -> None:
    w = TfliteWriter()
    x, y = w.tensor("x", (1, 16, 16, 8), scale=0.02), w.tensor("y", (1, 16, 16, 8), scale=0.02)
    w.op("RELU", [x], [y])
    end = w.tensor("end", (1, 16, 16, 8), scale=1 / 256, zero_point=-128)
    w.op("SOFTMAX", [y], [end])
    path = save(tmp_path, "model.tflite", w.finish([x], [end]))
    rows = list(advice.promises(path, "4.0"))
    assert {"edit", "key"} <= {row.kind for row in rows}
    followed = [row for row in rows if row.gain_ms is not None]
    assert followed and all(row.came_true for row in followed)
    assert f"of {len([row for row in followed if row.is_timed])} " in advice.summary(rows, 1)
