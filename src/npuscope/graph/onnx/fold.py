"""Constant folding: the small chains of shape arithmetic that exporters leave in a model.

One function an op, from (node, inputs) to the output. Only constants with at most one dynamic
source, Shape, are folded; nothing here computes on activations.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.limits import Computed
from npuscope.graph.onnx.constants import Const
from npuscope.graph.onnx.fold_shape import SHAPE_FOLDERS, Folder, Inputs
from npuscope.graph.onnx.fold_values import VALUE_FOLDERS
from npuscope.graph.onnx.nodes import Node

FOLDERS: dict[str, Folder] = {**SHAPE_FOLDERS, **VALUE_FOLDERS}

_NUMERIC_ERRORS = (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError)


class Computing:
    """Computes the constants of one model; what they take is checked before it is taken."""

    def __init__(self, constants: Iterable[Const]) -> None:
        self.computed = Computed(sum(const.data.nbytes for const in constants))

    def fold(self, node: Node, inputs: Inputs) -> Const:
        """The constant that `node` makes."""
        try:
            with np.errstate(all="ignore"):
                result = FOLDERS[node.kind](node, inputs, self.computed.check)
        except _NUMERIC_ERRORS:
            raise ModelError("the constants do not fit this op", where=node.origin) from None
        except ModelError as error:
            error.where = error.where or node.origin
            raise
        self.take(result, inputs)
        return result

    def take(self, result: Const, inputs: Inputs) -> None:
        """A result that is a view of an input takes nothing."""
        known = (const.data for const in inputs if const is not None)
        if not any(np.may_share_memory(result.data, data) for data in known):
            self.computed.take(result.data.nbytes)
