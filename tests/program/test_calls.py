"""Arguments of software calls as the records of their ops."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.errors import TargetError
from npuscope.ops.images import Coordinates, ResizeAttrs, ResizeMode
from npuscope.ops.moves import PadAttrs, SliceAttrs
from npuscope.program.calls import attributes, call_graph
from npuscope.program.model import Argument, Buffer, Call


def record(kernel: str, **args: Argument) -> object:
    return attributes(Call(kernel, ("x",), ("y",), tuple(args.items())))


def test_what_a_file_holds_becomes_the_ops_types() -> None:
    assert record("Slice", starts=(np.int64(1),), sizes=(2,), steps=(1,)) == SliceAttrs(
        (1,), (2,), (1,)
    )
    assert record("Pad", pads=(0, 1, 2, 3)) == PadAttrs(((0, 1), (2, 3)))
    resize = record("Resize", sizes=(4, 6), scales=(2, 3), mode="linear", coordinates="asymmetric")
    wanted = ResizeAttrs((4, 6), (2.0, 3.0), ResizeMode.LINEAR, Coordinates.ASYMMETRIC)
    assert resize == wanted


@pytest.mark.parametrize(
    ("kernel", "args"),
    [
        ("Slice", {"starts": 7, "sizes": (1,), "steps": (1,)}),
        ("Slice", {"starts": ("a",), "sizes": (1,), "steps": (1,)}),
        ("Slice", {"starts": (1.5,), "sizes": (1,), "steps": (1,)}),
        ("Resize", {"sizes": (4,), "scales": (2.0, 2.0), "mode": "linear"}),
        ("Resize", {"sizes": (4, 4), "scales": (2.0, 2.0), "mode": "cubical"}),
        ("Softmax", {"axis": "last", "beta": 1.0}),
        ("NoSuchOp", {}),
    ],
)
def test_other_types_are_refused(kernel: str, args: dict[str, Argument]) -> None:
    with pytest.raises(TargetError):
        record(kernel, **args)


def test_a_scalar_among_the_inputs_leaves_the_result_its_axis() -> None:
    """A buffer has at least one axis, so a scalar index is told by what the op makes of it."""
    call = Call("Gather", ("x", "index"), ("y",), (("axis", 1), ("batch_axes", 0)))
    buffers = {
        "x": Buffer("x", 11, (1, 11), 8, 11, "ram", 0),
        "index": Buffer("index", 4, (1,), 32, 1, "ram", 16, is_param=True),
        "y": Buffer("y", 1, (1,), 8, 1, "ram", 32),
    }
    graph = call_graph(call, buffers, {"index": np.array([3], np.int32)})
    assert graph.tensor("index").shape == ()
    assert graph.tensor("y").shape == (1,)
