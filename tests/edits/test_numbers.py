"""Steps of new tensors: from ranges, from constants, from what seeded data showed."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import MACHINES
from npuscope.advice.fix.numeric import InputData
from npuscope.advice.fix.workbench import BenchNetwork
from npuscope.edits import NotFitting
from npuscope.edits.numbers import (
    common,
    covered,
    int8_quant,
    reached,
    seen,
    symmetric_steps,
)
from npuscope.graph.model import Graph


@pytest.mark.parametrize(
    ("low", "high"), [(-1, 1), (0, 6), (0.5, 6), (-3, 0), (-3, -1), (-0.01, 100), (0, 0)]
)
def test_a_range_is_covered_and_zero_is_a_step(low: float, high: float) -> None:
    quant = int8_quant(low, high)
    assert -128 <= quant.zero_point <= 127
    least, largest = covered(quant)
    assert least <= low + quant.scale / 2
    assert largest >= high - quant.scale / 2


def test_a_range_without_end() -> None:
    with pytest.raises(NotFitting, match="its range is not finite"):
        int8_quant(0, np.inf)


def test_constants_about_zero() -> None:
    steps, scale = symmetric_steps(np.array([-2.0, 0.5, 1.27], np.float32))
    assert steps.tolist() == [-127, 32, 81]
    assert scale == pytest.approx(2 / 127)
    assert symmetric_steps(np.zeros(2))[1] == 1.0


@pytest.mark.parametrize(
    ("kind", "inputs", "wanted"),
    [
        ("Add", [(-1, 2), (-3, 4)], (-4, 6)),
        ("Sub", [(-1, 2), (-3, 4)], (-5, 5)),
        ("Mul", [(-1, 2), (-3, 4)], (-6, 8)),
        ("Concat", [(-1, 2), (-3, 1)], (-3, 2)),
        ("Abs", [(-4, 2)], (0, 4)),
        ("HardSwish", [(-4, 4)], (-0.375, 4)),
    ],
)
def test_what_ops_can_make(
    kind: str, inputs: list[tuple[float, float]], wanted: tuple[float, float]
) -> None:
    assert reached(kind, inputs, {}) == pytest.approx(wanted, abs=1e-2)


def network(**values: list[float]) -> BenchNetwork:
    arrays = {name: np.array(row) for name, row in values.items()}
    data = InputData((), "three images", is_real=True)
    return BenchNetwork(Graph("net", (), (), (), ()), MACHINES["4.0"], data=data, _values=arrays)


def test_random_numbers_tell_no_ranges() -> None:
    found = network(a=[-1.0, 1.0], out=[-2.0, 3.0])
    found.data = InputData((), "2 random inputs")
    assert found.range("out") is None
    assert seen(found, "out", {}) is None


def test_real_data_count_only_where_operands_filled_their_ranges() -> None:
    found = network(a=[-1.0, 1.0], out=[-2.0, 3.0])
    assert seen(found, "out", {"a": (-1.1, 1.1)}) == pytest.approx((-2.2, 3.3))
    assert seen(found, "out", {"a": (-2, 2)}) is None
    assert seen(found, "absent", {}) is None
    assert common((-1, 5), (-2, 3)) == (-1, 3)
    assert common((-1, 5), None) == (-1, 5)
