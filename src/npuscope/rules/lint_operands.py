"""Element-wise ops and products that no unit computes in the form they have."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.graph.model import DType, Graph, Op
from npuscope.machine.model import Machine
from npuscope.rules.finding import Hit
from npuscope.rules.lint import lint
from npuscope.rules.queries import hit, is_float, live_ops, of_kind, operands, shape_text

# What the operator tables of the vendor list as software.
_SOFTWARE = (
    *("ReduceSum", "ReduceProd", "ReduceMin", "ReduceL2", "ArgMax", "ArgMin"),
    *("Greater", "GreaterEqual", "Less", "LessEqual", "NotEqual", "Where"),
    *("Log", "Pow", "Floor", "Ceil", "Round", "Reciprocal"),
    *("Softplus", "Mish", "LogSoftmax", "Tile"),
    *("InstanceNorm", "GroupNorm", "L2Normalization"),
)


@lint("LINT-SOFTWARE-OP")
def no_unit_computes_it(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """An op that only a software kernel computes."""
    for op in live_ops(graph):
        if op.kind in _SOFTWARE or _needs_two(graph, op):
            yield hit(op, f"{op.kind}, {graph.output_tensor(op).elements} elements", 0)


def _needs_two(graph: Graph, op: Op) -> bool:
    """With a constant a quotient is a product, a minimum or maximum a clamp."""
    if op.kind in ("Min", "Max"):
        return len(operands(graph, op)) == 2
    return op.kind == "Div" and not graph.tensor(op.inputs[1]).is_constant


@lint("LINT-SUB-CONSTANT")
def constant_minus_tensor(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Sub whose left operand is constant (1 - x)."""
    for op in of_kind(graph, "Sub"):
        if graph.first_input(op).is_constant and not is_float(graph.output_tensor(op)):
            yield hit(op, f"constant {shape_text(graph.first_input(op).shape)} - x", "x - constant")


@lint("LINT-NEG")
def sign_is_turned(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Neg of an int8 tensor: reported to give constants."""
    for op in of_kind(graph, "Neg"):
        if graph.first_input(op).dtype in (DType.INT8, DType.UINT8):
            yield hit(op, "Neg of int8", "a sign folded into a layer")


@lint("LINT-PRELU")
def slopes_are_float(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A PReLU whose slopes are float."""
    for op in of_kind(graph, "PRelu"):
        slopes = graph.tensor(op.inputs[1])
        if slopes.dtype is DType.FLOAT32:
            yield hit(op, "float32 slopes", "int8", elements=graph.output_tensor(op).elements)


@lint("LINT-MATMUL-DYNAMIC")
def both_matrices_are_computed(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A product of two computed tensors."""
    for op in of_kind(graph, "MatMul"):
        if len(operands(graph, op)) == 2:
            shapes = " x ".join(shape_text(tensor.shape) for tensor in operands(graph, op))
            yield hit(op, shapes, "one constant operand")


@lint("LINT-BROADCAST")
def operands_broadcast_widely(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Operands broadcast both ways, or along other axes than the channels."""
    for op in of_kind(graph, "Add", "Sub", "Mul"):
        out = graph.output_tensor(op).shape
        shapes = [graph.tensor(name).shape for name in op.inputs[:2]]
        if not is_float(graph.output_tensor(op)) and not _one_way(shapes, out):
            text = " and ".join(shape_text(shape) for shape in shapes)
            elements = graph.output_tensor(op).elements
            yield hit(op, text, "a scalar, or one value per channel", elements=elements)


def _one_way(shapes: list[tuple[int, ...]], out: tuple[int, ...]) -> bool:
    others = [shape for shape in shapes if shape != out]
    return len(others) < 2 and all(_is_vector(shape, out) for shape in others)


def _is_vector(shape: tuple[int, ...], out: tuple[int, ...]) -> bool:
    return all(size == 1 for size in shape[:-1]) and (not shape or shape[-1] in (1, out[-1]))


@lint("LINT-LAYERNORM")
def values_are_normalised(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A normalisation over the values of a tensor (LayerNorm, RMSNorm), whole or in pieces."""
    makers = graph.producers()
    for op in of_kind(graph, "LayerNorm", "Rsqrt", "Div"):
        by_root = op.kind == "Div" and _behind(makers, op.inputs[1], "Sqrt") is not None
        if op.kind != "Div" or by_root:
            yield hit(op, f"{op.kind}, {graph.output_tensor(op).elements} elements", "BatchNorm")


@lint("LINT-ATTENTION")
def attention_block(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Attention: a product of computed tensors, a Softmax, and another product."""
    makers = graph.producers()
    for op in of_kind(graph, "MatMul"):
        weights = _behind(makers, op.inputs[0], "Softmax")
        if weights is not None and _behind(makers, weights.inputs[0], "MatMul") is not None:
            yield hit(op, f"{shape_text(graph.first_input(op).shape)} attention", "convolutions")


_BETWEEN = ("Mul", "Add", "Div", "Reshape", "Transpose", "Quantize", "Dequantize")


def _behind(makers: dict[str, Op], name: str, kind: str) -> Op | None:
    """The op of a kind that a tensor comes from, through scalings and moves."""
    op = makers.get(name)
    while op is not None and op.kind != kind and op.kind in _BETWEEN:
        op = makers.get(op.inputs[0])
    return op if op is not None and op.kind == kind else None
