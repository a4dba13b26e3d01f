"""Records with fields that stay apart, and records as values."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from npuscope.graph.model import DType, Op, Tensor
from npuscope.structs import Apart, kept, replace


class Layer(Apart, frozen=True):
    apart = ("weights", "origin")

    name: str
    weights: np.ndarray
    width: int = 1
    origin: str = ""


class Wide(Layer, frozen=True, kw_only=True):
    rows: int


ONE = Layer("a", np.arange(3), 2, "file 1")


def test_fields_apart_do_not_compare() -> None:
    same = Layer("a", np.arange(9), 2, "file 2")
    assert same == ONE
    assert len({ONE, same}) == 1
    assert replace(ONE, width=3) != ONE


def test_fields_apart_are_not_shown() -> None:
    assert repr(ONE) == "Layer(name='a', width=2)"


def test_records_of_other_classes_differ() -> None:
    assert Wide("a", ONE.weights, 2, rows=1) != ONE
    assert kept(Wide) == ("name", "width", "rows")
    assert kept(Op) == ("kind", "name", "inputs", "outputs", "attrs")


def test_a_copy_keeps_what_stays_apart() -> None:
    copies = replace(ONE, name="b"), pickle.loads(pickle.dumps(ONE))
    for copy in copies:
        assert copy.origin == "file 1"
        np.testing.assert_array_equal(copy.weights, ONE.weights)


def test_records_are_frozen() -> None:
    tensor = Tensor("x", (1,), DType.INT8)
    for record, name in ((ONE, "width"), (ONE, "weights"), (tensor, "name"), (tensor, "new")):
        with pytest.raises(AttributeError):
            setattr(record, name, 0)
    with pytest.raises(TypeError, match="has no field 'colour'"):
        replace(tensor, colour=1)
