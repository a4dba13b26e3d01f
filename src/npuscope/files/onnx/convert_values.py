"""ONNX ops that compute element by element or along axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from npuscope.errors import ModelError, NotComputed
from npuscope.files.onnx.constants import INTEGER_TYPES, PLAIN_TYPES, REAL_TYPES, TYPE_NAMES, Const
from npuscope.files.onnx.file import Node
from npuscope.files.onnx.fold import axes_of
from npuscope.files.onnx.layout import ADDED, Layout, checked_axis, dropped, plain
from npuscope.files.onnx.task import NodeTask
from npuscope.graph.model import Attrs, DType
from npuscope.ops.elementwise import BinaryAttrs, ModAttrs
from npuscope.ops.functions import (
    ClipAttrs,
    GeluAttrs,
)
from npuscope.ops.norms import (
    BatchNormAttrs,
    GroupNormAttrs,
    InstanceNormAttrs,
    L2NormAttrs,
    LayerNormAttrs,
    SoftmaxAttrs,
)
from npuscope.ops.reduce import ArgAttrs, ReduceAttrs

# --- Element-wise ops ---

Convert = Callable[[NodeTask], None]
_INF = float("inf")
_FLOAT32_MAX = 3.4e38  # some exporters write "no limit" as the largest float32


def unary(kind: str, attrs: Attrs | None = None) -> Convert:
    def convert(task: NodeTask) -> None:
        x = task.value(0)
        task.emit(kind, (x.tensor,), attrs or Attrs(), x.layout, x.via)

    return convert


def function(kind: str, record: Callable[..., Attrs], numbers: Mapping[str, float]) -> Convert:
    """A function whose attributes are numbers, in the record's order with their defaults."""

    def convert(task: NodeTask) -> None:
        stated = (task.node.number(name, usual) for name, usual in numbers.items())
        unary(kind, record(*stated))(task)

    return convert


def gelu(task: NodeTask) -> None:
    approximate = task.node.text("approximate", "none") == "tanh"
    unary("Gelu", GeluAttrs(approximate))(task)


def clip(task: NodeTask) -> None:
    limits = clip_range(task.node, task.reader.constants)
    if limits is None:
        raise NotComputed("the limits must be constants")
    unary("Clip", ClipAttrs(*limits))(task)


def clamp_of(node: Node, constants: dict[str, Const]) -> tuple[float, float] | None:
    """The limits of a clamp node, which the op before it can take over."""
    return clip_range(node, constants) if node.kind in ("Relu", "Clip") else None


def clip_range(node: Node, constants: dict[str, Const]) -> tuple[float, float] | None:
    """(low, high) of a Relu or Clip, None when a limit is computed."""
    if node.kind == "Relu":
        return 0.0, _INF
    # attributes up to opset 10, inputs from then on
    limits = [node.number("min", -_INF), node.number("max", _INF)]
    for index in (1, 2):
        if not node.input(index):
            continue
        const = constants.get(node.input(index))
        if const is None or const.data.size != 1:
            return None
        limits[index - 1] = float(const.real().ravel()[0])
    return _open(limits[0]), _open(limits[1])


def _open(limit: float) -> float:
    if abs(limit) < _FLOAT32_MAX:
        return limit
    return _INF if limit > 0 else -_INF


def binary(kind: str) -> Convert:
    return _broadcasting(kind, BinaryAttrs(), (0, 1))


def comparison(kind: str) -> Convert:
    return _broadcasting(kind, Attrs(), (0, 1), DType.BOOL)


def modulo(task: NodeTask) -> None:
    attrs = ModAttrs(truncated=bool(task.node.integer("fmod", 0)))
    _broadcasting("Mod", attrs, (0, 1))(task)


def power(task: NodeTask) -> None:
    """Squares and roots are ops of their own."""
    exponent = task.constant(1)
    number = float(exponent.real().ravel()[0]) if exponent and exponent.data.size == 1 else 0.0
    kinds = {2.0: "Square", 0.5: "Sqrt"}
    if exponent is not None and exponent.data.ndim <= 1 and number in kinds:
        unary(kinds[number])(task)
    elif exponent is not None and exponent.quant is None:
        # The result has the type of the base, whatever that of the exponent is.
        layout = _common_layout(task, (0, 1))
        base = task.operand(0, layout)
        tensor = task.reader.graph.tensors[base]
        name = task.operand(1, layout)
        data = task.reader.graph.tensors[name].data
        if tensor.quant is None and data is not None and data.dtype != tensor.dtype.numpy:
            stored = task.reader.builder.constant(
                f"{name}_as_{tensor.dtype.value}", data.astype(tensor.dtype.numpy), tensor.dtype
            )
            name = stored.name
        task.emit("Pow", (base, name), BinaryAttrs(), layout, _via(task, (0, 1)))
    else:
        binary("Pow")(task)


def _broadcasting(
    kind: str, attrs: Attrs, places: Sequence[int], dtype: DType | None = None
) -> Convert:
    def convert(task: NodeTask) -> None:
        layout = _common_layout(task, places)
        inputs = tuple(task.operand(index, layout) for index in places)
        task.emit(kind, inputs, attrs, layout, _via(task, places), dtype)

    return convert


def _via(task: NodeTask, places: Sequence[int]) -> tuple[str, ...]:
    via = [task.value(index).via for index in places if task.constant(index) is None]
    return tuple(origin for one in via for origin in one)


def prelu(task: NodeTask) -> None:
    """The slopes broadcast to x, which keeps its storage."""
    x = task.value(0)
    slopes = task.operand(1, x.layout)
    task.emit("PRelu", (x.tensor, slopes), Attrs(), x.layout, x.via)


def where(task: NodeTask) -> None:
    """The result has the type of the values, not of the condition."""
    layout = _common_layout(task, (0, 1, 2))
    inputs = tuple(task.operand(index, layout) for index in (0, 1, 2))
    task.emit("Where", inputs, Attrs(), layout, _via(task, (0, 1, 2)), like=1)


def _common_layout(task: NodeTask, places: Sequence[int]) -> Layout:
    """The storage in which all operands broadcast: that of the operand with most axes. Channel-last
    storage wins over source order, so that a channel-last chain stays channel-last.
    """
    layouts: list[Layout] = []
    ranks: list[int] = []
    for index in places:
        const = task.constant(index)
        if const is not None:
            ranks.append(const.data.ndim)
            continue
        value = task.value(index)
        layouts.append(value.layout)
        ranks.append(len(task.shape(value)))
    rank = max(ranks)
    full = [layout for layout in layouts if sum(axis != ADDED for axis in layout) == rank]
    rearranged = [layout for layout in full if layout != plain(rank)]
    return (rearranged or full or [plain(rank)])[0]


def cast(task: NodeTask) -> None:
    type_name = TYPE_NAMES.get(task.node.integer("to", 0), "")
    x = task.value(0)
    dtype = task.tensor(x).dtype
    if type_name in REAL_TYPES and (dtype.is_float or task.integer):
        task.pass_on(x)
        return
    if type_name == dtype.value:
        task.finish(x)  # integers with their scales stay what they are
        return
    types = {**INTEGER_TYPES, **PLAIN_TYPES, **dict.fromkeys(REAL_TYPES, DType.FLOAT32)}
    if type_name not in types or type_name == "int4":
        raise NotComputed(
            f"a cast to {type_name or 'an unknown type'} is not supported",
            hint="export the model in float32",
        )
    task.emit("Cast", (x.tensor,), Attrs(), x.layout, x.via, types[type_name])


# --- Ops along axes: reductions, softmax, normalizations ---

_ALONG_AXIS_OPSET = 13  # before it, Softmax saw all axes from `axis` on as one


def reduction(kind: str) -> Convert:
    def convert(task: NodeTask) -> None:
        x = task.value(0)
        rank = len(task.shape(x))
        if task.node.input(1) and task.constant(1) is None:
            raise NotComputed("the axes must be constants")
        axes = axes_of(task.node, [None, task.constant(1)])
        if not axes:
            source = () if task.node.integer("noop_with_empty_axes", 0) else tuple(range(rank))
        else:
            source = tuple(sorted({checked_axis(axis, rank) for axis in axes}))
        if not source:
            task.pass_on(x)
            return
        keep = bool(task.node.integer("keepdims", 1))
        stored = tuple(sorted(x.layout.index(axis) for axis in source))
        layout = x.layout if keep else dropped(x.layout, source)
        task.emit(kind, (x.tensor,), ReduceAttrs(stored, keep), layout, x.via)

    return convert


def global_pool(kind: str) -> Convert:
    """GlobalAveragePool and GlobalMaxPool reduce all axes between batch and channels."""

    def convert(task: NodeTask) -> None:
        x = task.channel_last(0)
        axes = tuple(range(1, len(x.layout) - 1))
        task.emit(kind, (x.tensor,), ReduceAttrs(axes, True), x.layout, x.via)

    return convert


def place(kind: str) -> Convert:
    """ArgMax and ArgMin; they compare integers, whose order is that of the real values."""

    def convert(task: NodeTask) -> None:
        x = task.raw_value(0)
        axis = checked_axis(task.node.integer("axis", 0), len(task.shape(x)))
        keep = bool(task.node.integer("keepdims", 1))
        last = bool(task.node.integer("select_last_index", 0))
        attrs = ArgAttrs(x.layout.index(axis), keep, last)
        layout = x.layout if keep else dropped(x.layout, (axis,))
        task.emit(kind, (x.tensor,), attrs, layout, x.via, DType.INT64)

    return convert


def softmax(kind: str) -> Convert:
    def convert(task: NodeTask) -> None:
        x = task.value(0)
        shape = task.shape(x)
        old = task.opset < _ALONG_AXIS_OPSET
        axis = checked_axis(task.node.integer("axis", 1 if old else -1), len(shape))
        if old and any(size != 1 for size in shape[axis + 1 :]):
            raise NotComputed(
                f"{kind} of opset {task.opset} over several axes of {shape} is not supported",
                hint="export with opset 13 or later",
            )
        attrs = SoftmaxAttrs(x.layout.index(axis))
        task.emit(kind, (x.tensor,), attrs, x.layout, x.via)

    return convert


def batch_norm(task: NodeTask) -> None:
    if task.node.integer("training_mode", 0):
        raise NotComputed("BatchNormalization in training mode is not supported")
    x = task.channel_last(0)
    parameters = tuple(task.real_parameter(index).name for index in (1, 2, 3, 4))
    attrs = BatchNormAttrs(task.node.number("epsilon", 1e-5))
    task.emit("BatchNorm", (x.tensor, *parameters), attrs, x.layout, x.via)


def layer_norm(task: NodeTask) -> None:
    if any(task.node.outputs[1:]):
        raise NotComputed("only the first output is supported; mean and deviation are not")
    x = task.in_source_order(0)
    axis = checked_axis(task.node.integer("axis", -1), len(task.shape(x)))
    places = [index for index in (1, 2) if task.node.input(index)]
    parameters = tuple(task.real_parameter(index).name for index in places)
    attrs = LayerNormAttrs(axis, task.node.number("epsilon", 1e-5))
    task.emit("LayerNorm", (x.tensor, *parameters), attrs, x.layout, x.via)


def instance_norm(task: NodeTask) -> None:
    x = task.channel_last(0)
    parameters = tuple(task.real_parameter(index).name for index in (1, 2))
    attrs = InstanceNormAttrs(task.node.number("epsilon", 1e-5))
    task.emit("InstanceNorm", (x.tensor, *parameters), attrs, x.layout, x.via)


def group_norm(task: NodeTask) -> None:
    """Scale and bias are per group up to opset 20, per channel from then on."""
    x = task.channel_last(0)
    groups, channels = task.node.integer("num_groups", 1), (0, *task.tensor(x).shape)[-1]
    parameters = tuple(_per_channel(task, index, channels) for index in (1, 2))
    attrs = GroupNormAttrs(groups, task.node.number("epsilon", 1e-5))
    task.emit("GroupNorm", (x.tensor, *parameters), attrs, x.layout, x.via)


def _per_channel(task: NodeTask, index: int, channels: int) -> str:
    values = task.needed(index).real().ravel()
    if not values.size or channels % values.size:
        raise ModelError(f"{values.size} parameters do not fit {channels} channels")
    repeated = np.repeat(values, channels // values.size)
    const = Const(repeated, "float32", name=task.node.input(index))
    return task.store(const, (task.node.input(index), ("per channel", channels))).name


def lp_normalization(task: NodeTask) -> None:
    if task.node.integer("p", 2) != 2:
        raise NotComputed("only p = 2 is supported", hint="use LpNormalization with p = 2")
    x = task.value(0)
    axis = checked_axis(task.node.integer("axis", -1), len(task.shape(x)))
    # A row of zeros stays one: the smallest float instead of a division by zero.
    attrs = L2NormAttrs(x.layout.index(axis), float(np.finfo(np.float32).tiny))
    task.emit("L2Normalization", (x.tensor,), attrs, x.layout, x.via)
