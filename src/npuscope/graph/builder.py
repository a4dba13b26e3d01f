"""What readers share to put a Graph together: unique names, constants, inferred shapes."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.attrs import Attrs
from npuscope.graph.limits import MAX_ELEMENTS
from npuscope.graph.model import DType, Graph, Numerics, Op, Quant, Tensor
from npuscope.graph.ops import OPS
from npuscope.graph.shapes import Shape, Shapes


class Builder:
    """A Graph under construction."""

    def __init__(self, name: str, numerics: Numerics) -> None:
        self.graph = Graph(name, (), (), (), (), numerics)
        self._next_number: dict[str, int] = {}
        self._op_names: set[str] = set()

    def unique_name(self, stem: str) -> str:
        """A free tensor name; counters keep many equal stems from costing a search each."""
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
        made = tuple(tensor.name for tensor in outputs)
        op = Op(kind, self._op_name(name or made[0]), inputs, made, attrs, origin)
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
            shapes = OPS[kind].shapes(self.graph, Op(kind, "", inputs, ("",), attrs))
        except ModelError as error:
            raise ModelError(error.message, where=error.where or where, hint=error.hint) from None
        for shape in shapes:
            if prod(shape) > MAX_ELEMENTS:
                raise ModelError(f"it makes a tensor of shape {shape}", where=where)
        return shapes
