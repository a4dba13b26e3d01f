"""What the readers share to build a Graph: names, constants, inferred shapes."""

from __future__ import annotations

from math import prod

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.limits import MAX_ELEMENTS
from npuscope.graph.model import Attrs, DType, Graph, Numerics, Op, Quant, Tensor
from npuscope.ops.kernels.step import Array
from npuscope.ops.row import Shape, Shapes
from npuscope.ops.table import OPS
from npuscope.structs import replace

# --- 4-bit values as files store them: two per byte, the first in the low half ---


def unpack_int4(packed: np.ndarray, count: int) -> np.ndarray:
    """Signed values in an int8 array."""
    low = (packed << 4).astype(np.int8) >> 4
    high = packed.astype(np.int8) >> 4
    return np.stack((low, high), axis=-1).reshape(-1)[:count]


def unpack_uint4(packed: np.ndarray, count: int) -> np.ndarray:
    """Unsigned values in a uint8 array."""
    return np.stack((packed & 15, packed >> 4), axis=-1).reshape(-1)[:count]


# --- A Graph under construction ---


class Builder:
    """A Graph under construction."""

    def __init__(self, name: str, numerics: Numerics) -> None:
        self.graph = Graph(name, (), (), (), (), numerics)
        self._next_number: dict[str, int] = {}
        self._op_names: set[str] = set()

    def unique_name(self, stem: str) -> str:
        """A free tensor name; one counter per stem, so that many equal stems need no search."""
        stem = stem or "tensor"
        name = stem
        while name in self.graph.tensors:
            number = self._next_number.get(stem, 0) + 1
            self._next_number[stem] = number
            name = f"{stem}_{number}"
        return name

    def add(self, tensor: Tensor) -> Tensor:
        """Add a tensor under its own name, or a unique one if that is taken or empty."""
        name = self.unique_name(tensor.name)
        return self.graph.add(tensor if name == tensor.name else replace(tensor, name=name))

    def constant(
        self, stem: str, data: np.ndarray, dtype: DType, quant: Quant | None = None
    ) -> Tensor:
        return self.add(Tensor(stem, data.shape, dtype, quant, data))

    def emit(
        self,
        kind: str,
        inputs: tuple[str, ...],
        attrs: Attrs,
        output: Tensor,
        origin: tuple[str, ...],
        name: str = "",
    ) -> Op:
        """Append an op that makes `output`, a tensor added before."""
        return self.emit_all(kind, inputs, attrs, (output,), origin, name)

    def emit_all(
        self,
        kind: str,
        inputs: tuple[str, ...],
        attrs: Attrs,
        outputs: tuple[Tensor, ...],
        origin: tuple[str, ...],
        name: str = "",
    ) -> Op:
        """The same for an op with several outputs."""
        names = tuple(tensor.name for tensor in outputs)
        op = Op(kind, self._op_name(name or names[0]), inputs, names, attrs, origin)
        self.graph.ops.append(op)
        return op

    def _op_name(self, stem: str) -> str:
        name, number = stem, 0
        while name in self._op_names:
            number = self._next_number.get(f"op {stem}", 0) + 1
            self._next_number[f"op {stem}"] = number
            name = f"{stem}_{number}"
        self._op_names.add(name)
        return name

    def infer(self, kind: str, inputs: tuple[str, ...], attrs: Attrs, where: str) -> Shape:
        """The output shape of an op that is about to be emitted."""
        return self.infer_all(kind, inputs, attrs, where)[0]

    def infer_all(self, kind: str, inputs: tuple[str, ...], attrs: Attrs, where: str) -> Shapes:
        try:
            shapes = OPS[kind].shape(self.graph, Op(kind, "", inputs, ("",), attrs))
        except ModelError as error:
            raise ModelError(error.message, where=error.where or where, hint=error.hint) from None
        for shape in shapes:
            if prod(shape) > MAX_ELEMENTS:
                raise ModelError(f"it gives a tensor of shape {shape}", where=where)
        return shapes


# --- Shape arithmetic, computed while reading ---
#
# Only integers without scales are folded: sizes, axes, indices. Constants of the network's own
# arithmetic stay in the graph; the compiler's passes fold them.

_WHOLE = (DType.INT32, DType.INT64, DType.BOOL)
_MOST_ELEMENTS = 1 << 16  # elements; no shape arithmetic is larger


def fold_last_op(graph: Graph) -> bool:
    """Replace the op that was added last by its result, if that is shape arithmetic."""
    op = graph.ops[-1]
    outputs = [graph.tensors[name] for name in op.outputs]
    if not all(_foldable(graph.tensors[name]) for name in op.inputs):
        return False
    if not all(tensor.elements <= _MOST_ELEMENTS for tensor in outputs):
        return False
    for tensor, value in zip(outputs, _results(graph, op), strict=True):
        if value.shape != tensor.shape:
            raise ModelError(
                f"it gives shape {value.shape}, but the file states {tensor.shape}",
                where=op.origin[0],
            )
        data = value.astype(tensor.dtype.numpy, copy=False)
        graph.tensors[tensor.name] = replace(tensor, data=data)
    graph.ops.pop()
    return True


def _foldable(tensor: Tensor) -> bool:
    plain = tensor.dtype in _WHOLE and tensor.quant is None
    return plain and tensor.is_constant and tensor.elements <= _MOST_ELEMENTS


def _results(graph: Graph, op: Op) -> tuple[Array, ...]:
    """Run the reference kernels, which are imported only for networks that need them here."""
    from npuscope.ops.kernels.table import make_step

    values = [graph.tensors[name].data for name in op.inputs]
    try:
        return make_step(graph, op)([value for value in values if value is not None])
    except (ValueError, IndexError, ZeroDivisionError) as error:
        raise ModelError(f"the constants do not fit: {error}", where=", ".join(op.origin)) from None


def drop_dead(graph: Graph) -> None:
    """Remove ops of which nobody reads a result, and tensors that nobody names."""
    needed = set(graph.outputs)
    live = []
    for op in reversed(graph.ops):
        if needed.intersection(op.outputs):
            live.append(op)
            needed.update(op.inputs)
    graph.ops = live[::-1]
    graph.drop_unused()
