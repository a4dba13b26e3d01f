"""Functions of one real value in C against numpy, over all magnitudes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from firmware.host_kernels import REAL, assert_same_bits, check, library, one_op
from firmware.seeded_values import SPECIAL, Case, tensor
from npuscope.graph.model import Attrs, DType
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.functions import (
    CeluAttrs,
    EluAttrs,
    GeluAttrs,
    HardSigmoidAttrs,
    LeakyReluAttrs,
    SeluAttrs,
    ShrinkAttrs,
    ThresholdAttrs,
)

CASES: list[tuple[str, Callable[[], Case]]] = []

_ATTRS: dict[str, list[Attrs]] = {
    "Selu": [SeluAttrs(), SeluAttrs(1.5, -0.7)],
    "Celu": [CeluAttrs(), CeluAttrs(0.37)],
    "ThresholdedRelu": [ThresholdAttrs(), ThresholdAttrs(-0.3)],
    "Shrink": [ShrinkAttrs(), ShrinkAttrs(0.2, 0.6)],
    "LeakyRelu": [LeakyReluAttrs(0.1), LeakyReluAttrs(-1.7)],
    "Elu": [EluAttrs(), EluAttrs(0.37)],
    "HardSigmoid": [HardSigmoidAttrs(), HardSigmoidAttrs(1 / 6, -0.0)],
    "Gelu": [GeluAttrs(), GeluAttrs(True)],
}


def any_floats(seed: int, count: int) -> np.ndarray:
    """Any bit patterns, common sizes, multiples of pi / 2, halves, and the special ones."""
    rng = np.random.default_rng(seed)
    anything = rng.integers(0, 2**32, count, np.uint32).view(np.float32)
    common = rng.normal(0, 4, count).astype(np.float32)
    turns = (rng.integers(-(10**6), 10**6, count // 4) * (np.pi / 2)).astype(np.float32)
    halves = (rng.integers(-99, 99, count // 4) / 2).astype(np.float32)
    borders = np.nextafter(np.float32([0.625, 1, 4, 89, -104, -18, 0.125]), np.float32(0))
    found = [anything, common, turns, halves, borders, *[SPECIAL], -borders]
    return np.concatenate(found)


def one_function(kind: str, attrs: Attrs, count: int = 600) -> Case:
    x = any_floats(len(kind), count)
    shape = x.shape
    ends = tensor("x", shape, DType.FLOAT32), tensor("y", shape, DType.FLOAT32)
    return one_op(kind, [ends[0]], [ends[1]], attrs), {"x": x}


def powers(seed: int) -> Case:
    """Every special value to the power of every other, and random pairs."""
    rng = np.random.default_rng(seed)
    line = np.concatenate([SPECIAL, np.float32([-1, 2, -2, 3, -3, 2**24, 2**24 + 2, 1e30, 0.3])])
    bases, exponents = (v.ravel() for v in np.meshgrid(line, line))
    more = np.exp(rng.normal(0, 4, 900)).astype(np.float32), rng.normal(0, 9, 900)
    a = np.concatenate([bases, more[0]])
    b = np.concatenate([exponents, more[1].astype(np.float32)])
    ends = [tensor(name, a.shape, DType.FLOAT32) for name in "aby"]
    return one_op("Pow", ends[:2], ends[2:], BinaryAttrs()), {"a": a, "b": b}


for _kind in REAL:
    for _index, _attrs in enumerate(_ATTRS.get(_kind, [Attrs()])):
        CASES.append((f"{_kind}-{_index}", lambda k=_kind, a=_attrs: one_function(k, a)))
CASES.append(("Pow", lambda: powers(3)))


@pytest.mark.parametrize("make", [make for _, make in CASES], ids=[name for name, _ in CASES])
def test_function_gives_the_same_bits(make: Callable[[], Case]) -> None:
    check(*make())


_CIRCLE = ("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh")


@pytest.mark.parametrize("kind", ["Exp", "Log", "Tanh", "Erf", "Sin", "Cos", *_CIRCLE])
def test_many_values_of_a_function(kind: str) -> None:
    check(*one_function(kind, Attrs(), 40_000))


def test_square_root_by_bits_is_the_nearest() -> None:
    root = library().npuscope_sqrt_by_bits
    root.restype, root.argtypes = ctypes.c_float, [ctypes.c_float]
    x = any_floats(5, 4000)
    with np.errstate(all="ignore"):
        expected = np.sqrt(x)
    assert_same_bits(np.array([root(value) for value in x.tolist()], np.float32), expected)
