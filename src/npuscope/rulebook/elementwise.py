"""Element-wise ops and products in forms that no unit computes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile

import numpy as np

from npuscope.graph.model import DType, Graph, Op, Tensor
from npuscope.machine.model import Machine
from npuscope.machine.npu_ops import BINARY, LAYERS, support
from npuscope.ops.unknown import UNKNOWN, UnknownAttrs, named_form
from npuscope.rulebook import fixes
from npuscope.rulebook.conditions import holds_for, maker_of, only_reader
from npuscope.rulebook.finding import Confidence, Hit, Severity, Value
from npuscope.rulebook.pool import sums_whole_maps
from npuscope.rulebook.queries import (
    CONVERSIONS,
    hit,
    is_float,
    is_npu_tensor,
    live_ops,
    of_kind,
    operands,
    shape_text,
)
from npuscope.rulebook.registry import (
    Refusal,
    Rule,
    RuleKind,
    declare,
    foretells,
    lint,
    refusal,
    refuse,
    wrong_type,
)
from npuscope.shown import counted
from npuscope.structs import replace

# No check of its own: lowering reports it for an op that has no row in its table.
declare(
    __name__,
    Rule(
        "NA-OP-SOFTWARE",
        RuleKind.REFUSE,
        "No unit of the NPU computes this op",
        Severity.WARNING,
        Confidence.DOCUMENTED,
        "The compiler has only a software kernel for this op, so the CPU runs it while the NPU "
        "waits.",
        (fixes.CUT_TAIL, fixes.REPLACE_BLOCK, fixes.CAST_OUTSIDE),
    ),
)


@refuse(
    "NA-OP-UNKNOWN",
    "Unknown op",
    ops=(UNKNOWN,),
    cause="The op, or this form of it, is unknown to npuscope. It counts as CPU work of unknown "
    "cost, so the time of the network is a lower bound.",
    fixes=(fixes.CUT_TAIL, fixes.REPLACE_BLOCK),
)
def unknown_op(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The op, or this form of it, is unknown: it runs on the CPU, at an unknown cost."""
    return refusal("$op", op=named_form(op.attrs_as(UnknownAttrs)))


@lint(
    "LINT-SOFTWARE-OP",
    "An op without a unit",
    severity=Severity.WARNING,
    confidence=Confidence.DOCUMENTED,
    cause="The vendor's operator table lists it as software.",
    fixes=(fixes.MAPPED_FORM, fixes.CUT_TAIL),
    twins=("NA-OP-SOFTWARE", "NA-MAX-LEAKY", "NA-REDUCE-KIND", "NA-DIV", "NA-FLOAT"),
)
def no_unit_computes_it(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """An op that only a software kernel computes."""
    for op in live_ops(graph):
        if support(op.kind).documented or _needs_two(graph, op):
            form = _form(graph, op)
            text = f"{op.kind}, {graph.output_tensor(op).elements} elements"
            yield replace(hit(op, text, 0), fixes={"mapped-form": form} if form else {})


def _form(graph: Graph, op: Op) -> dict[str, Value] | None:
    """What computes the same on the NPU; None for most ops."""
    if op.kind == "ReduceSum" and sums_whole_maps(graph, op):
        return {"form": "a mean times the number of pixels"}
    if op.kind == "Max" and leaky_slopes(graph, op) is not None:
        return {"form": "Max(x, a*x) is a PReLU"}
    if op.kind == "Pow":
        exponent = graph.tensor(op.inputs[1])
        if exponent.data is not None and not exponent.quant and np.all(exponent.data == 2):
            return {"form": "x * x"}
    return None


def _needs_two(graph: Graph, op: Op) -> bool:
    """True unless a constant operand turns a quotient into a product, an extreme into a clamp."""
    if op.kind in ("Min", "Max"):
        return len(operands(graph, op)) == 2
    return op.kind == "Div" and not graph.tensor(op.inputs[1]).is_constant


@refuse(
    "NA-DIV",
    "Division by a computed value",
    ops=("Div",),
    cause="The arithmetic unit has no division; only a constant number becomes a multiplication.",
    fixes=(fixes.MULTIPLY_INSTEAD, fixes.CUT_TAIL, fixes.REPLACE_BLOCK),
)
def divisor_is_constant(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """No unit divides; only a constant number becomes a factor."""
    constant = graph.tensor(op.inputs[1]).is_constant
    return refusal("several divisors" if constant else "a computed divisor")


@lint(
    "LINT-SUB-CONSTANT",
    "Constant minus tensor",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="The vendor's compiler leaves a Sub with a constant on its left to the CPU. A Neg "
    "followed by an Add maps, but gave 127 for every input.",
    fixes=(fixes.NEGATE_BY_PRODUCT, fixes.GATE_FORM, fixes.FOLD_SIGN),
    until="4.0",
)
def constant_minus_tensor(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Sub whose left operand is constant (1 - x)."""
    for op in of_kind(graph, "Sub"):
        if graph.first_input(op).is_constant and not is_float(graph.output_tensor(op)):
            yield hit(op, f"constant {shape_text(graph.first_input(op).shape)} - x", "x - constant")


@lint(
    "LINT-NEG",
    "Neg of an int8 tensor",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="In one build its result was always 127.",
    fixes=(fixes.NEGATE_BY_PRODUCT, fixes.FOLD_SIGN),
    until="4.0",
)
def sign_is_turned(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Neg of an int8 tensor: reported to give constants."""
    for op in of_kind(graph, "Neg"):
        if graph.first_input(op).dtype in (DType.INT8, DType.UINT8):
            yield hit(op, "Neg of int8", "a sign folded into a layer")


@refuse(
    "NA-PRELU-SLOPE",
    "PReLU with float slopes",
    ops=("PRelu",),
    cause="Quantizers often leave the slopes float; then the PReLU runs on the CPU between a "
    "dequantize and a quantize.",
    fixes=(fixes.QUANTIZE_SLOPE, fixes.RELU),
)
def slopes_are_quantized(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """A PReLU maps only with constant, quantized slopes, at most one per channel; otherwise the
    CPU computes it in float."""
    slope, source = graph.tensor(op.inputs[1]), graph.first_input(op)
    if not slope.is_constant or slope.quant is None:
        return refusal("slopes are $type", type=slope.dtype.value)
    if not (is_npu_tensor(source) and is_npu_tensor(graph.output_tensor(op))):
        return wrong_type(source)
    # Slopes are coefficients of the arithmetic unit: one for all, or one per channel.
    limit, channels = machine.arith.max_vector, source.shape[-1]
    if slope.elements not in (1, channels) or slope.elements > limit:
        words = "$slopes slopes for $channels channels"
        return refusal(words, limit, slopes=slope.elements, channels=channels)
    if slope.elements > 1 and slope.shape[-1] != slope.elements:
        return refusal("slopes of shape $shape are not one per channel", shape=slope.shape)
    return None


@foretells(
    "NA-PRELU-SLOPE",
    "LINT-PRELU",
    confidence=Confidence.REPORTED,
    cause="Quantizers leave the slopes float. Each PReLU then becomes three software epochs: 112 "
    "of 165 in one face recogniser.",
    also=("NA-FLOAT", "NA-OP-SOFTWARE"),
)
def slopes_are_float(graph: Graph, op: Op) -> Hit | None:
    """A PReLU whose slopes are float."""
    if graph.tensor(op.inputs[1]).dtype is not DType.FLOAT32:
        return None
    return hit(op, "float32 slopes", "int8", elements=graph.output_tensor(op).elements)


@refuse(
    "NA-MAX-LEAKY",
    "A maximum that is a leaky ReLU",
    ops=("Max",),
    confidence=Confidence.VERIFIED,
    cause="No unit computes the maximum of two tensors, but Max(x, a*x) is a leaky ReLU, which "
    "the NPU computes.",
    fixes=(fixes.SLOPE_INSTEAD, fixes.RELU),
)
def maximum_is_no_leaky_relu(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """No unit computes the maximum of two tensors; this one is a leaky ReLU written as two ops."""
    slopes = leaky_slopes(graph, op)
    if slopes is None:
        return None
    return refusal(f"Max(x, a*x), {counted(slopes.size, 'slope')}", slopes=slopes.size)


def leaky_slopes(graph: Graph, op: Op) -> np.ndarray | None:
    """The slopes where a Max compares a tensor with a product of itself and constants; what was
    quantized anew on the way counts as the tensor itself."""
    makers = graph.producers()
    sides = [_before_quantizing(makers, name) for name in op.inputs[:2]]
    for one, other in (sides, sides[::-1]):
        product = makers.get(one)
        if product is None or product.kind != "Mul":
            continue
        if other in [_before_quantizing(makers, name) for name in product.inputs[:2]]:
            constants = [t for t in map(graph.tensor, product.inputs[:2]) if t.is_constant]
            return constants[0].data if len(constants) == 1 else None
    return None


def _before_quantizing(makers: dict[str, Op], name: str) -> str:
    while name in makers and makers[name].kind in CONVERSIONS:
        name = makers[name].inputs[0]
    return name


@refuse(
    "NA-MATMUL-DYNAMIC",
    "A product of two computed matrices",
    ops=("MatMul",),
    confidence=Confidence.REPORTED,
    cause="MatMul, Gemm and Conv map only with one constant operand: kernels are loaded from "
    "memory that the compiler filled.",
    fixes=(fixes.REPLACE_BLOCK,),
)
def one_operand_is_constant(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """A product of two computed matrices has no constant weights for the units."""
    shapes = [graph.tensor(name).shape for name in op.inputs[:2]]
    return refusal("$left times $right", left=shapes[0], right=shapes[1])


@foretells(
    "NA-MATMUL-DYNAMIC",
    "LINT-MATMUL-DYNAMIC",
    title="Product of two computed tensors",
    cause="Kernels are constants on this NPU; a product of two activations runs on the CPU.",
    also=("NA-OP-SOFTWARE",),
)
def both_matrices_are_computed(graph: Graph, op: Op) -> Hit | None:
    """A product of two computed tensors."""
    factors = operands(graph, op)
    if len(factors) != 2:
        return None  # with a constant the compiler makes a layer of it
    shapes = " x ".join(shape_text(tensor.shape) for tensor in factors)
    return hit(op, shapes, "one constant operand")


@refuse(
    "NA-BROADCAST",
    "Operands that broadcast both ways",
    ops=BINARY,
    cause="The arithmetic unit repeats one operand (a scalar or one value per channel) against a "
    "full one; it cannot repeat both, or other axes.",
    fixes=(fixes.EXPAND_OPERAND,),
)
def operands_broadcast_one_way(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """One operand must have the full shape; the other has it too, or one value per channel, or a
    single value."""
    out, shapes = graph.output_tensor(op).shape, _shapes(graph, op)
    if not _one_way(shapes, out):
        return refusal("$left against $right", left=shapes[0], right=shapes[1])
    # Vectors become coefficients, whatever their type; a map is streamed, in bytes with one scale.
    constants = [t for t in map(graph.tensor, op.inputs[:2]) if t.is_constant]
    if any(not (_is_vector(t.shape, out) or is_streamed_constant(t)) for t in constants):
        return refusal("a float constant of the full shape")
    # Coefficients belong to the unit: what is streamed past them is the computed operand, in full.
    held = any(not is_streamed_constant(tensor) for tensor in constants)
    maps = [t for t in map(graph.tensor, op.inputs[:2]) if not t.is_constant]
    if held and maps and _without_ones(maps[0].shape) != _without_ones(out):
        return refusal("$left against a constant of the full shape", left=maps[0].shape)
    return None


@foretells(
    "NA-BROADCAST",
    "LINT-BROADCAST",
    title="Broadcast along axes other than the channels",
    confidence=Confidence.VERIFIED,
    cause="A scalar or one value per channel is free. Other operands are read again by an "
    "engine, at up to 33 cycles per element, or the op leaves the NPU.",
    also=("NA-BROADCAST-VECTOR", "ADV-BROADCAST"),
)
def operands_broadcast_widely(graph: Graph, op: Op) -> Hit | None:
    """Operands broadcast both ways, or along axes other than the channels."""
    out, shapes = graph.output_tensor(op), _shapes(graph, op)
    if is_float(out) or _one_way(shapes, out.shape):
        return None  # float ops and constants of the full shape have rules of their own
    text = " and ".join(shape_text(shape) for shape in shapes)
    return hit(op, text, "a scalar, or one value per channel", elements=out.elements)


def is_streamed_constant(tensor: Tensor) -> bool:
    """A constant that an engine can read like an activation [code: YOLOv8n at 2.0 and 2.1; a report
    of 4.0, where its float constant alone stays on the CPU]."""
    many = tensor.elements > max(tensor.shape[-1:], default=1)
    whole = tensor.quant is not None and not tensor.quant.per_channel
    return tensor.is_constant and many and tensor.dtype is DType.INT8 and whole


def _shapes(graph: Graph, op: Op) -> list[tuple[int, ...]]:
    return [graph.tensor(name).shape for name in op.inputs[:2]]


def _one_way(shapes: list[tuple[int, ...]], out: tuple[int, ...]) -> bool:
    others = [shape for shape in shapes if _without_ones(shape) != _without_ones(out)]
    return len(others) < 2 and all(_is_vector(shape, out) for shape in others)


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape from the first axis that counts."""
    return tuple(dropwhile(lambda dim: dim == 1, shape))


def _is_vector(shape: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """A scalar, or one value per channel."""
    return all(dim == 1 for dim in shape[:-1]) and (not shape or shape[-1] in (1, out[-1]))


@refuse(
    "NA-BROADCAST-VECTOR",
    "A computed vector is added",
    ops=("Add", "Sub"),
    cause="A vector with one value per channel can be added only if it is constant; one that is "
    "computed at run time can only be multiplied. At 4.0 an Add repeats it in an engine, as a "
    "product does: two networks of 4.0.1 show it on a board. Nothing is known of 3.0, nor of Sub.",
    fixes=(fixes.RESIZE_VECTOR,),
)
def vectors_are_constant(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """A vector that is computed at run time can only be multiplied, not added."""
    out = graph.output_tensor(op).shape
    tensors = [graph.tensor(name) for name in op.inputs[:2]]
    computed = [t for t in tensors if t.shape != out and not t.is_constant]
    if not computed or (machine.generation.adds_vectors and op.kind == "Add"):
        return None
    vector = computed[0]
    return refusal("'$tensor' has shape $shape", tensor=vector.name, shape=vector.shape)


# --- When fixes are true ---


@holds_for("multiply-instead", "Div")
def divisor_is_one_number(graph: Graph, op: Op) -> bool:
    data = graph.tensor(op.inputs[1]).data
    return data is not None and np.unique(data).size == 1 and bool(np.all(data))


@holds_for("expand-operand", *BINARY)
def an_operand_is_smaller(graph: Graph, op: Op) -> bool:
    out = graph.output_tensor(op).shape
    return any(_without_ones(shape) != _without_ones(out) for shape in _shapes(graph, op))


@holds_for("gate-form", "Sub")
def is_part_of_a_gate(graph: Graph, op: Op) -> bool:
    """(1 - z) * n + z * h: a one on the left, then a product, then a sum."""
    one, product = graph.first_input(op), only_reader(graph, op)
    if one.data is None or product is None or product.kind != "Mul":
        return False
    total = only_reader(graph, product)
    real = one.data.astype(np.float64)
    if one.quant is not None and not one.quant.per_channel:
        real = (real - one.quant.zero_point) * one.quant.scale
    return total is not None and total.kind == "Add" and bool(np.allclose(real, 1, atol=1e-3))


@holds_for("fold-sign", "Sub", "Neg")
def a_layer_makes_it(graph: Graph, op: Op) -> bool:
    maker = maker_of(graph, op.inputs[-1])
    return maker is not None and maker.kind in LAYERS and only_reader(graph, maker) is op
