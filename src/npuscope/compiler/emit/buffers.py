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
        self.constants: dict[str, Array] = {}

    def activation(self, value: Value, epoch: int) -> Buffer:
        """The buffer that holds the value (or what it is a view of), alive in `epoch`."""
        origin = root(self.lowered, value)
        self._touch(self._of_value(origin, view_of=""), epoch)
        if origin.name != value.name:
            self._touch(self._of_value(value, view_of=origin.name), epoch)
        return self.buffers[origin.name]

    def scratch(self, name: str, shape: tuple[int, int, int], nbits: int, epoch: int) -> Buffer:
        """Working memory of one epoch; it lives on into the next one."""
        size_bytes = shape[0] * shape[1] * shape[2] * nbits // 8
        buffer = Buffer(name, size_bytes, (1, *shape), nbits, shape[2], first=epoch, last=epoch + 1)
        self.buffers[name] = buffer
        return buffer

    def parameter(self, name: str, data: Array, quant_of: Tensor | None = None) -> Buffer:
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
            )
        return self.buffers[name]

    def extend(self, name: str, first: int, last: int) -> None:
        buffer = self.buffers[name]
        self.buffers[name] = replace(
            buffer, first=min(buffer.first, first), last=max(buffer.last, last)
        )

    def _touch(self, buffer: Buffer, epoch: int) -> None:
        known = self.buffers.setdefault(buffer.name, replace(buffer, first=epoch, last=epoch))
        self.extend(known.name, epoch, epoch)

    def _of_value(self, value: Value, view_of: str) -> Buffer:
        tensor = self.graph.tensors.get(value.tensor)
        same_size = tensor is not None and tensor.elements == value.elements
        shape = tensor.shape if tensor is not None and same_size else (1, *value.shape)
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
