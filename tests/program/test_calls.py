"""Arguments of software calls as the records of their ops."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.errors import TargetError
from npuscope.ops.images import Coordinates, ResizeAttrs, ResizeMode
from npuscope.ops.moves import PadAttrs, SliceAttrs
from npuscope.program.calls import attributes
from npuscope.program.model import Argument, Call


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
