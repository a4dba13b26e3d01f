"""Blocks of several ops: normalisation, attention, scores, detection decoders."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.machine.npu_ops import LAYERS
from npuscope.ops.norms import SoftmaxAttrs
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.rulebook import fixes
from npuscope.rulebook.conditions import holds_for, leads_out
from npuscope.rulebook.finding import Confidence, Hit, Severity, Value
from npuscope.rulebook.queries import hit, of_kind, shape_text, source
from npuscope.rulebook.registry import Refusal, foretells, lint, refusal, refuse

# What exporters put between the parts of a norm or of attention: scalings, masks, moves.
_BETWEEN = ("Mul", "Add", "Div", "Reshape", "Transpose", "Quantize", "Dequantize")
# Detection heads: a hundred rows or more, of a few values each. The limits are our choice.
_ANCHORS, _VALUES = 100, 16
# A decoder computes and moves; a tail of one kind alone is an ordinary output.
_ARITHMETIC = ("Sub", "Div", "Mul", "Exp", "Add")
_MOVES = having(Trait.PARTS) | {"Transpose"}
_REFORMS = having(Trait.VIEW, Trait.RESCALING) | {"Transpose"}


@lint(
    "LINT-LAYERNORM",
    "Layer normalisation",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="No unit computes a reciprocal square root: each norm costs about six software epochs.",
    fixes=(fixes.BATCH_NORM,),
    twins=("NA-OP-SOFTWARE", "NA-FLOAT"),
)
def values_are_normalised(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A normalisation over the values of a tensor (LayerNorm, RMSNorm), as one op or written
    out."""
    makers = graph.producers()
    for op in of_kind(graph, "LayerNorm", "Rsqrt", "Div"):
        # A quotient by a root is a norm in pieces; other quotients have a rule of their own.
        by_root = op.kind == "Div" and _behind(makers, op.inputs[1], "Sqrt") is not None
        if op.kind != "Div" or by_root:
            yield hit(op, f"{op.kind}, {graph.output_tensor(op).elements} elements", "BatchNorm")


@lint(
    "LINT-ATTENTION",
    "Attention block",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="Products of two activations, a Softmax and permutations of heads have no unit: most "
    "of an attention block runs on the CPU.",
    fixes=(fixes.REPLACE_BLOCK,),
    twins=("NA-MATMUL-DYNAMIC",),
)
def attention_block(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Attention: a product of computed tensors, a Softmax, and another product."""
    makers = graph.producers()
    for op in of_kind(graph, "MatMul"):
        weights = _behind(makers, op.inputs[0], "Softmax")
        if weights is not None and _behind(makers, weights.inputs[0], "MatMul") is not None:
            yield hit(op, f"{shape_text(graph.first_input(op).shape)} attention", "convolutions")


def _behind(makers: dict[str, Op], name: str, kind: str) -> Op | None:
    """The op of a kind that a tensor comes from, through scalings and moves."""
    op = makers.get(name)
    while op is not None and op.kind != kind and op.kind in _BETWEEN:
        op = makers.get(op.inputs[0])
    return op if op is not None and op.kind == kind else None


@refuse(
    "NA-SOFTMAX",
    "Softmax runs on the CPU",
    ops=("Softmax", "LogSoftmax"),
    cause="No unit computes a Softmax; the vendor's compiler maps it only with an option that no "
    "stock profile sets.",
    fixes=(fixes.DROP_SOFTMAX, fixes.OPTION_EXPAND_SOFTMAX),
)
def softmax_needs_a_sum_of_exponentials(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """A Softmax needs exponentials, their sum and a division: the CPU has an integer kernel."""
    return refusal("$shape", shape=graph.first_input(op).shape)


@foretells(
    "NA-SOFTMAX",
    "LINT-SOFTMAX",
    title="Softmax",
    ops=("Softmax",),  # a LogSoftmax is reported among the ops without a unit
    cause="It runs on the CPU: about 113 cycles per element for one row of scores.",
    also=("NA-OP-SOFTWARE",),
)
def scores_are_normalised(graph: Graph, op: Op) -> Hit | None:
    """A Softmax: it runs on the CPU."""
    tensor = graph.output_tensor(op)
    rows = tensor.elements // tensor.shape[op.attrs_as(SoftmaxAttrs).axis]
    return hit(op, shape_text(tensor.shape), 0, elements=tensor.elements, rows=rows)


@lint(
    "LINT-DECODE-TAIL",
    "Many small ops after the last layer",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="Small ops follow the last layer, such as those that decode boxes from anchors. They run "
    "on the CPU one by one, lose precision in int8, and are faster in the application.",
    fixes=(fixes.DECODE_OUTSIDE,),
    twins=("ADV-TAIL",),
)
def boxes_are_decoded(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Boxes or anchors are decoded after the last layer: many small ops on few values."""
    tail = _tail(graph)
    inner = [op for op in tail if op.kind in (*_ARITHMETIC, *_MOVES)]
    kinds = {op.kind for op in inner}
    if kinds & set(_ARITHMETIC) and kinds & set(_MOVES) and any(_anchors(graph, o) for o in inner):
        ops = tuple(dict.fromkeys(name for op in tail for name in source(op)))
        # Tensors that the tail takes from the rest of the network.
        results = {name for op in tail for name in op.outputs}
        operands = (n for op in tail for n in op.inputs if n and not graph.tensor(n).is_constant)
        frontier = tuple(dict.fromkeys(name for name in operands if name not in results))
        evidence: dict[str, Value] = {"cut_at": [*frontier]}
        yield Hit(ops, f"{len(inner)} ops after the last layer", 0, evidence)


def _tail(graph: Graph) -> list[Op]:
    """Ops that no layer comes after."""
    makers = graph.producers()
    before_layer: set[str] = set()
    tail: list[Op] = []
    for op in reversed(graph.ops):
        if _is_layer(op, makers) or before_layer & set(op.outputs):
            before_layer.update(op.inputs)
        else:
            tail.append(op)
    return tail[::-1]


def _is_layer(op: Op, makers: dict[str, Op]) -> bool:
    """A layer that reads a Softmax is a decoder too: it takes the mean of a distribution."""
    if op.kind not in LAYERS:
        return False
    maker = makers.get(op.inputs[0])
    while maker is not None and maker.kind in _REFORMS:
        maker = makers.get(maker.inputs[0])
    return maker is None or maker.kind != "Softmax"


def _anchors(graph: Graph, op: Op) -> bool:
    """Many rows of a few values each, as decoders have them."""
    shape = sorted(graph.output_tensor(op).shape)
    return len(shape) == 3 and shape[-1] >= _ANCHORS and shape[-2] <= _VALUES


# --- When fixes are true ---


@holds_for("drop-softmax", "Softmax", "LogSoftmax")
def order_without_softmax(graph: Graph, op: Op) -> dict[str, Value] | None:
    """Only where its result leaves the network. A Softmax rises with each of its scores, but every
    row has a divisor of its own."""
    if not leads_out(graph, op):
        return None
    tensor = graph.output_tensor(op)
    rows = tensor.elements // tensor.shape[op.attrs_as(SoftmaxAttrs).axis]
    alone = "the order of the scores stays the same"
    return {"order": alone if rows == 1 else f"{alone} within each of the {rows:,} rows"}


@holds_for("batch-norm", "LayerNorm", "Rsqrt", "Div")
def is_inside(graph: Graph, op: Op) -> bool:
    """A last normalisation makes unit vectors of embeddings: a BatchNorm does something else."""
    return not leads_out(graph, op) and any(
        behind.kind in LAYERS for behind in _all_behind(graph, op)
    )


@holds_for("cut-tail")
def is_behind_the_layers(graph: Graph, op: Op) -> bool:
    """Nothing that is worth the NPU comes after it."""
    makers = graph.producers()
    return not any(_is_layer(behind, makers) for behind in _all_behind(graph, op))


def _all_behind(graph: Graph, op: Op) -> list[Op]:
    """All that depends on an op."""
    tensors, ops = set(op.outputs), []
    for other in graph.ops:
        if tensors.intersection(other.inputs):
            tensors.update(other.outputs)
            ops.append(other)
    return ops
