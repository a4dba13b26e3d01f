"""Buffers of a program in the making: activations that cross epochs, parameters, scratch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuscope.compiler.schedule import root
from npuscope.compiler.stages import Lowered, Value
from npuscope.graph.model import Graph, Tensor
from npuscope.program.model import Buffer

Array = np.ndarray


class BufferTable:
    """Makes each buffer once, widens its lifetime at every use."""

    def __init__(self, lowered: Lowered, graph: Graph) -> None:
        self.lowered = lowered
        self.graph = graph
        self.buffers: dict[str, Buffer] = {}
        self.lives: dict[str, tuple[int, int]] = {}  # first and last epoch by name
        self.constants: dict[str, Array] = {}

    def activation(self, value: Value, epoch: int) -> Buffer:
        """The buffer that holds the value (or what it is a view of), alive in `epoch`."""
        origin = root(self.lowered, value)
        if origin.name not in self.buffers:
            self.buffers[origin.name] = self._of_value(origin, view_of="")
        if value.name not in self.buffers:
            self.buffers[value.name] = self._of_value(value, view_of=origin.name)
        self._live(origin.name, epoch)
        return self.buffers[origin.name]

    def scratch(self, name: str, shape: tuple[int, int, int], nbits: int, epoch: int) -> Buffer:
        """Working memory of one epoch; it lives on into the next one."""
        size_bytes = shape[0] * shape[1] * shape[2] * nbits // 8
        self.buffers[name] = Buffer(name, size_bytes, (1, *shape), nbits, shape[2])
        self.lives[name] = (epoch, epoch + 1)
        return self.buffers[name]

    def parameter(
        self,
        name: str,
        data: Array,
        quant_of: Tensor | None = None,
        coefficients: bool = False,
    ) -> Buffer:
        """A constant in the weights' pool; bytes are little endian."""
        if name not in self.buffers:
            shape = data.shape or (1,)
            self.constants[name] = np.ascontiguousarray(data)
            self.buffers[name] = Buffer(
                name,
                data.nbytes,
                shape,
                data.dtype.itemsize * 8,
                shape[-1],
                is_param=True,
                is_float=data.dtype.kind == "f",
                signed=data.dtype.kind != "u",
                quant=quant_of.quant if quant_of else None,
                tensor=quant_of.name if quant_of else "",
                coefficients=coefficients,
            )
        return self.buffers[name]

    def coefficients(self, name: str, data: Array) -> Buffer:
        """Vectors and tables that the CPU writes into a unit before an epoch starts."""
        return self.parameter(name, data, coefficients=True)

    def finished(self) -> dict[str, Buffer]:
        """All buffers with their lifetimes; views live as long as what they show."""
        last = max((end for _, end in self.lives.values()), default=0)
        always = (0, last)
        return {
            name: _living(buffer, self.lives.get(buffer.view_of or name, always))
            for name, buffer in self.buffers.items()
        }

    def _live(self, name: str, epoch: int) -> None:
        first, last = self.lives.get(name, (epoch, epoch))
        self.lives[name] = (min(first, epoch), max(last, epoch))

    def _of_value(self, value: Value, view_of: str) -> Buffer:
        tensor = self.graph.tensors.get(value.tensor)
        same_size = tensor is not None and tensor.elements == value.elements
        shape = (tensor.shape or (1,)) if tensor is not None and same_size else (1, *value.shape)
        return Buffer(
            value.name,
            value.size_bytes,
            shape,
            value.nbits,
            value.batch or shape[-1],
            is_float=value.is_float,
            signed=value.signed,
            quant=value.quant,
            tensor=value.tensor,
            view_of=view_of,
        )


def _living(buffer: Buffer, life: tuple[int, int]) -> Buffer:
    return replace(buffer, first=life[0], last=life[1])
