"""What all lowerings share: the graph, the machine and the stages made so far."""

from __future__ import annotations

from math import prod

import numpy as np
from msgspec import Struct, field

from npuscope.compiler.stages import (
    ActivStage,
    ArithStage,
    ConvStage,
    CopyStage,
    Lowered,
    PieceOrder,
    Stage,
    Value,
)
from npuscope.errors import InternalError, ModelError
from npuscope.geometry.tiling import ConvMode, Tiling
from npuscope.graph.limits import check_stages
from npuscope.graph.model import DType, Graph, Op, Quant, Tensor
from npuscope.machine.model import Machine
from npuscope.structs import replace

ZERO = np.zeros(1, np.int64)
SIGN_OFFSET = 128  # between a byte read as unsigned and as signed


class Lowering(Struct):
    graph: Graph
    machine: Machine
    optimization: int
    readers: dict[str, list[Op]]  # of tensors, in execution order
    result: Lowered = field(default_factory=lambda: Lowered([], [], []))
    values: dict[str, Value] = field(default_factory=dict)
    shifted: dict[str, Value] = field(default_factory=dict)
    origins: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of values that stages make
    # By the name of a value: stages that make or read it, tensors that it carries.
    users: dict[str, list[int]] = field(default_factory=dict)
    carried: dict[str, list[str]] = field(default_factory=dict)
    swishes: dict[str, Op] = field(default_factory=dict)  # sigmoids, by the product with their x
    swished: set[str] = field(default_factory=set)  # what these sigmoids make
    tilings: dict[object, Tiling] = field(default_factory=dict)  # by layer and weights

    def emit(self, stage: Stage) -> Value:
        for value in (*stage.inputs, stage.output):
            self.users.setdefault(value.name, []).append(len(self.result.stages))
        self.result.stages.append(stage)
        check_stages(len(self.result.stages), stage.name)
        self.origins.setdefault(stage.output.name, stage.origin)
        return stage.output

    def value(self, tensor_name: str) -> Value:
        """The value that carries a graph tensor."""
        return self.values[tensor_name]

    def operand(
        self, tensor_name: str, origin: tuple[str, ...] = (), gathered: bool = False
    ) -> Value:
        """The tensor in its own bytes and shape, as graph outputs need it; gathered, as software
        does, which cannot read a window."""
        value, tensor = self.values[tensor_name], self.graph.tensor(tensor_name)
        if not value.signed and tensor.dtype is not DType.UINT8:
            value = self.signed(value, origin)
            self.define(tensor_name, value)
        if gathered:
            value = self.gathered(value, origin, own=True)
        # The tensor's name is for its bytes one behind the other, which a window does not have.
        if value.pitch or tensor_name in (value.tensor, value.name):
            return value
        if tensor_name in self.origins:
            raise InternalError(
                "another buffer already has its name", where=f"tensor '{tensor_name}'"
            )
        view = value.named(tensor_name, tensor=tensor_name, quant=tensor.quant, skip=value.skip)
        self.result.views[view.name] = value
        return view

    def constant(self, name: str, tensor: Tensor) -> Value:
        """A constant that is streamed like an activation, under a name of its own."""
        self.result.constants[name] = tensor
        return tensor_value(tensor).named(name)

    def signed(self, value: Value, origin: tuple[str, ...]) -> Value:
        """Unsigned bytes as signed ones: the same numbers, the zero point 128 lower."""
        if value.signed:
            return value
        name = f"{value.name}.signed"
        if name not in self.shifted:
            quant = value.quant and Quant((value.quant.scale,), (value.quant.zero_point - 128,))
            output = value.named(
                name, signed=True, quant=quant, tensor="", batch=0, pitch=0, first=0
            )
            self.shifted[name] = self.flip_sign(value, output, origin)
        return self.shifted[name]

    def image(self, value: Value) -> Value:
        """The value as (1, H, W, C), whatever rank its tensor has."""
        tensor = self.graph.tensors.get(value.tensor)
        if tensor is None or tensor.shape == (1, *value.shape):
            return value
        view = value.named(f"{value.name}.image", tensor="", skip=value.skip)
        self.result.views[view.name] = value
        return view

    def gathered(self, value: Value, origin: tuple[str, ...], own: bool = False) -> Value:
        """The value with its pixels one behind the other, for who cannot read a window; `own`: in a
        buffer of its own."""
        if not value.pitch and not (own and value.skip):
            return value
        name = f"{value.name}.gathered"
        if name not in self.shifted:
            # A tensor that was made inside another one is whole again.
            tensor = value.tensor or (value.name if value.name in self.graph.tensors else "")
            output = value.named(name, tensor=tensor, batch=0, pitch=0, first=0)
            stage = CopyStage(f"{name}.copy", "Identity", (value,), output, origin)
            self.shifted[name] = self.emit(stage)
        return self.gathered(self.shifted[name], origin, own)  # a Concat may hold it by now

    def define(self, tensor_name: str, value: Value) -> None:
        self.values[tensor_name] = value
        self.carried.setdefault(value.name, []).append(tensor_name)

    def relocate(self, moved: dict[str, Value]) -> None:
        """Values that now lie elsewhere, by name, for every stage and tensor."""
        stages = self.result.stages
        for place in {place for name in moved for place in self.users.get(name, [])}:
            stage = stages[place]
            inputs = tuple(moved.get(value.name, value) for value in stage.inputs)
            output = moved.get(stage.output.name, stage.output)
            stages[place] = replace(stage, inputs=inputs, output=output)
        for name, value in moved.items():
            if name in self.shifted:
                self.shifted[name] = value
            for tensor in self.carried.get(name, []):
                if self.values[tensor].name == name:
                    self.values[tensor] = value

    def new_value(self, tensor: Tensor) -> Value:
        return tensor_value(tensor)

    def zero_removed(self, value: Value, reader: str, origin: tuple[str, ...]) -> Value:
        """The value with a zero point of -128 shifted out: unsigned bytes, zero point 0."""
        name = f"{value.name}.sub"
        if name in self.shifted and self.machine.generation.sub_per_reader:
            name = f"{name}.{reader}"
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


def carrier(value: Value, tensor: Tensor) -> Value:
    """The value under the tensor's name, which belongs to the tensor's own bytes: unsigned ones of
    a signed tensor take another."""
    if value.signed is (tensor.dtype is not DType.UINT8):
        return value.named(tensor.name, tensor=tensor.name, skip=value.skip)
    return value.named(f"{tensor.name}.unsigned", tensor="", skip=value.skip)


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
        raise ModelError("the tensor has no quantization", where=f"tensor '{value.name}'")
    return value.quant.scale, value.quant.zero_point


def streamed_frame(context: Lowering, features: Value) -> int:
    """Channels per frame of the convolution that makes the features: what follows may share its
    epoch. Only a convolution with a window and without passes through memory is joined, none in
    builds without an optimization level, none that is cut in pieces [four builds of one network].
    """
    conv = conv_before(context, features)
    if conv is None or context.optimization < 1:
        return 0
    once = conv.tiling.mode is ConvMode.DENSE and conv.tiling.passes == 1
    return conv.tiling.kernels if once and conv.order is PieceOrder.WHOLE else 0


def conv_before(context: Lowering, features: Value) -> ConvStage | None:
    """The convolution that makes the features, if the last stages lead from it to them."""
    for stage in reversed(context.result.stages):
        if stage.output.name != features.name:
            return None
        if isinstance(stage, ConvStage):
            return stage
        rectifies = isinstance(stage, ActivStage) and stage.table is None
        if not rectifies and not isinstance(stage, ArithStage):
            return None
        features = stage.inputs[-1]
    return None


def made_frame(context: Lowering, value: Value, seen: dict[str, int] | None = None) -> int:
    """Channels per frame in which a value is made, through sums and functions; 0 where none is."""
    seen = {} if seen is None else seen
    if value.name not in seen:
        seen[value.name] = 0
        stages = (context.result.stages[place] for place in context.users.get(value.name, ()))
        maker = next((stage for stage in stages if stage.output.name == value.name), None)
        if isinstance(maker, ConvStage):
            seen[value.name] = maker.tiling.kernels
        elif isinstance(maker, ArithStage | ActivStage):
            frames = [made_frame(context, one, seen) for one in maker.inputs]
            seen[value.name] = min((frame for frame in frames if frame), default=0)
    return seen[value.name]


def require_batch_one(tensor: Tensor, op: Op) -> None:
    if len(tensor.shape) == 4 and tensor.shape[0] != 1:
        raise ModelError(
            f"{op.kind} has batch {tensor.shape[0]}; the NPU runs one image at a time",
            where=op.name,
            hint="export the model with batch 1; a batch that the file leaves open counts as 1",
        )
