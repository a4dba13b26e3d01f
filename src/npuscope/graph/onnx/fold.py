"""Constant folding: the small chains of shape arithmetic that exporters leave in a model.

One function an op, from (node, inputs) to the output. Only constants with at most one dynamic
source, Shape, are folded; nothing here computes on activations.
"""

from __future__ import annotations

import numpy as np

from npuscope.errors import FileError, ModelError
from npuscope.graph.onnx.constants import Const
from npuscope.graph.onnx.fold_shape import MAX_ELEMENTS, SHAPE_FOLDERS, Folder, Inputs
from npuscope.graph.onnx.fold_values import VALUE_FOLDERS
from npuscope.graph.onnx.nodes import Node

FOLDERS: dict[str, Folder] = {**SHAPE_FOLDERS, **VALUE_FOLDERS}

_NUMERIC_ERRORS = (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError)


def fold(node: Node, inputs: Inputs) -> Const:
    """The constant that `node` makes."""
    try:
        with np.errstate(all="ignore"):
            result = FOLDERS[node.kind](node, inputs)
    except _NUMERIC_ERRORS:
        raise ModelError("the constants do not fit this op", where=node.origin) from None
    if result.data.size > MAX_ELEMENTS:
        raise FileError(f"a folded constant has {result.data.size} elements", where=node.origin)
    return result
