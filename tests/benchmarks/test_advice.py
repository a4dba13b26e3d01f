"""The benchmark of advice: an edit, an option and machine keys of one small network."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from models import save
from models_tflite import TfliteWriter

FOLDER = str(Path(__file__).parents[2] / "benchmarks")


@pytest.fixture(scope="module")
def advice() -> Iterator[ModuleType]:
    sys.path.insert(0, FOLDER)
    import advice

    yield advice
    sys.path.remove(FOLDER)


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
