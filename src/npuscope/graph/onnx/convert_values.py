"""Ops that compute on values one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npuscope.errors import ModelError
from npuscope.graph.attrs import (
    Attrs,
    BinaryAttrs,
    ClipAttrs,
    EluAttrs,
    GeluAttrs,
    HardSigmoidAttrs,
    LeakyReluAttrs,
)
from npuscope.graph.model import DType
from npuscope.graph.onnx.constants import INTEGER_TYPES, PLAIN_TYPES, Const
from npuscope.graph.onnx.layout import ADDED, Layout, plain
from npuscope.graph.onnx.nodes import Node
from npuscope.graph.onnx.task import Task
from npuscope.graph.onnx.tensors import TYPE_NAMES

Convert = Callable[[Task], None]
_INF = float("inf")
_FLOAT32_MAX = 3.4e38  # exporters write "no limit" as the largest float32


def unary(kind: str, attrs: Attrs | None = None) -> Convert:
    def convert(task: Task) -> None:
        x = task.value(0)
        task.emit(kind, (x.tensor,), attrs or Attrs(), x.layout, x.via)

    return convert


def leaky_relu(task: Task) -> None:
    unary("LeakyRelu", LeakyReluAttrs(task.node.number("alpha", 0.01)))(task)


def elu(task: Task) -> None:
    unary("Elu", EluAttrs(task.node.number("alpha", 1.0)))(task)


def hard_sigmoid(task: Task) -> None:
    alpha, beta = task.node.number("alpha", 0.2), task.node.number("beta", 0.5)
    unary("HardSigmoid", HardSigmoidAttrs(alpha, beta))(task)


def gelu(task: Task) -> None:
    approximate = task.node.text("approximate", "none") == "tanh"
    unary("Gelu", GeluAttrs(approximate))(task)


def clip(task: Task) -> None:
    limits = clip_range(task.node, task.reader.constants)
    if limits is None:
        raise ModelError("the limits must be constants")
    unary("Clip", ClipAttrs(*limits))(task)


def clamp_of(node: Node, constants: dict[str, Const]) -> tuple[float, float] | None:
    """The limits of a node that is a clamp, which the op before it can take over."""
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


def power(task: Task) -> None:
    """Squares and roots are ops of their own."""
    exponent = task.constant(1)
    number = float(exponent.real().ravel()[0]) if exponent and exponent.data.size == 1 else 0.0
    kinds = {2.0: "Square", 0.5: "Sqrt"}
    if exponent is not None and exponent.data.ndim <= 1 and number in kinds:
        unary(kinds[number])(task)
    else:
        binary("Pow")(task)


def _broadcasting(
    kind: str, attrs: Attrs, places: Sequence[int], dtype: DType | None = None
) -> Convert:
    def convert(task: Task) -> None:
        layout = _common_layout(task, places)
        inputs = tuple(task.operand(index, layout) for index in places)
        task.emit(kind, inputs, attrs, layout, _via(task, places), dtype)

    return convert


def _via(task: Task, places: Sequence[int]) -> tuple[str, ...]:
    via = [task.value(index).via for index in places if task.constant(index) is None]
    return tuple(origin for one in via for origin in one)


def prelu(task: Task) -> None:
    """The slopes broadcast to x, which keeps its storage."""
    x = task.value(0)
    slopes = task.operand(1, x.layout)
    task.emit("PRelu", (x.tensor, slopes), Attrs(), x.layout, x.via)


def where(task: Task) -> None:
    """The result has the type of the values, not of the condition."""
    layout = _common_layout(task, (0, 1, 2))
    inputs = tuple(task.operand(index, layout) for index in (0, 1, 2))
    task.emit("Where", inputs, Attrs(), layout, _via(task, (0, 1, 2)), like=1)


def _common_layout(task: Task, places: Sequence[int]) -> Layout:
    """The storage all operands broadcast in: that of the operand with most axes.

    A rearranged one wins over one in source order, so a channel-last chain stays one.
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


def cast(task: Task) -> None:
    wanted = TYPE_NAMES.get(task.node.integer("to", 0), "")
    x = task.value(0)
    held = task.tensor(x).dtype
    if wanted == "float32" and (held.is_float or task.integer):
        task.pass_on(x)
        return
    types = {**INTEGER_TYPES, **PLAIN_TYPES, "float32": DType.FLOAT32}
    if wanted not in types or wanted == "int4":
        raise ModelError(
            f"a cast to {wanted or 'an unknown type'} is not supported",
            hint="export the model in float32",
        )
    task.emit("Cast", (x.tensor,), Attrs(), x.layout, x.via, types[wanted])
