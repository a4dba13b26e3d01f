"""What all lowerings share: the graph, the machine, and the stages made so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np

from npuscope.compiler.stages import ArithStage, Lowered, Stage, Value
from npuscope.errors import ModelError
from npuscope.graph.limits import check_stages
from npuscope.graph.model import DType, Graph, Op, Quant, Tensor
from npuscope.machine.model import Machine

ZERO = np.zeros(1, np.int64)
SIGN_OFFSET = 128  # between a byte read as unsigned and as signed


@dataclass(slots=True)
class Context:
    graph: Graph
    machine: Machine
    optimization: int
    result: Lowered = field(default_factory=lambda: Lowered([], [], []))
    values: dict[str, Value] = field(default_factory=dict)
    shifted: dict[str, Value] = field(default_factory=dict)
    origins: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of values that stages make

    def emit(self, stage: Stage) -> Value:
        self.result.stages.append(stage)
        check_stages(len(self.result.stages), stage.name)
        self.origins.setdefault(stage.output.name, stage.origin)
        return stage.output

    def value(self, tensor_name: str) -> Value:
        """The value that carries a graph tensor."""
        return self.values[tensor_name]

    def operand(self, tensor_name: str, origin: tuple[str, ...] = ()) -> Value:
        """The tensor in its own bytes and shape, as software and graph outputs need it."""
        value, tensor = self.values[tensor_name], self.graph.tensor(tensor_name)
        if not value.signed and tensor.dtype is not DType.UINT8:
            value = self.values[tensor_name] = self.signed(value, origin)
        if value.tensor == tensor_name:
            return value
        view = value.named(tensor_name, tensor=tensor_name, quant=tensor.quant)
        self.result.views[view.name] = value
        return view

    def signed(self, value: Value, origin: tuple[str, ...]) -> Value:
        """Unsigned bytes as signed ones: the same numbers, the zero point 128 lower."""
        if value.signed:
            return value
        name = f"{value.name}.signed"
        if name not in self.shifted:
            quant = value.quant and Quant((value.quant.scale,), (value.quant.zero_point - 128,))
            output = value.named(name, signed=True, quant=quant, tensor="", batch=0)
            self.shifted[name] = self.flip_sign(value, output, origin)
        return self.shifted[name]

    def define(self, tensor_name: str, value: Value) -> None:
        self.values[tensor_name] = value

    def new_value(self, tensor: Tensor) -> Value:
        return tensor_value(tensor)

    def zero_removed(self, value: Value, origin: tuple[str, ...]) -> Value:
        """The value with a zero point of -128 shifted out: unsigned bytes, zero point 0."""
        name = f"{value.name}.sub"
        if name not in self.shifted:
            quant = value.quant and Quant((value.quant.scale,), (0,))
            output = value.named(
                name, signed=False, quant=quant, tensor="", batch=0, pitch=0, first=0
            )
            made_by = self.origins.get(value.name, origin)
            self.shifted[name] = self.flip_sign(value, output, made_by)
        return self.shifted[name]

    def flip_sign(self, value: Value, output: Value, origin: tuple[str, ...]) -> Value:
        """x + 128 in 14-bit fixed point, kept modulo 256: signed becomes unsigned, and back."""
        stage = ArithStage(
            f"{output.name}.zero_off",
            "Sub",
            (value,),
            output,
            origin,
            a=np.array([16384]),
            c=np.array([SIGN_OFFSET * 16384]),
            shift=14,
            wrap=True,
        )
        return self.emit(stage)


def tensor_value(tensor: Tensor) -> Value:
    """A fresh channel-last value for a graph tensor."""
    return Value(
        tensor.name,
        plane_shape(tensor.shape),
        tensor.dtype.bits,
        tensor.dtype is not DType.UINT8,
        tensor.dtype.is_float,
        tensor.quant,
        tensor.name,
    )


def plane_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(H, W, C) of a channel-last shape of any rank; leading axes fold into H."""
    if len(shape) < 2:
        return 1, 1, prod(shape)
    if len(shape) == 2:
        return 1, shape[0], shape[1]
    return prod(shape[:-2]), shape[-2], shape[-1]


def quant_pair(value: Value) -> tuple[float, int]:
    """(scale, zero point) of a value as it is stored."""
    if value.quant is None:
        raise ModelError(f"tensor '{value.name}' has no quantization")
    return value.quant.scale, value.quant.zero_point


def require_batch_one(tensor: Tensor, op: Op) -> None:
    if len(tensor.shape) == 4 and tensor.shape[0] != 1:
        raise ModelError(
            f"{op.kind} has batch {tensor.shape[0]}; the NPU runs one image at a time",
            where=op.name,
            hint="export the model with batch 1, or pin it: --shape NAME=1,...",
        )
