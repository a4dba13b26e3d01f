"""The layer table of a report, from a Graph."""

from __future__ import annotations

from npuscope.graph.model import Graph, Op, Tensor
from npuscope.ops.table import macs, total_macs
from npuscope.text import safe_terminal

# Labels by rank, as tensors are channel-last.
_LABELS = {1: "b", 2: "bc", 3: "bwc", 4: "bhwc"}
_HEADS = ("m_id", "layer (original)", "oshape", "param/size", "macc", "connected to")
_RIGHT = (False, False, False, False, True, True)
_LONGEST = 40


def layer_lines(graph: Graph) -> list[str]:
    """One row a layer with a ruler between, further inputs on lines of their own."""
    blocks = [_input_block(graph, name) for name in graph.inputs]
    blocks += [_op_block(graph, op, i) for i, op in enumerate(graph.ops)]
    cells = [_HEADS, *(row for block in blocks for row in block)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADS))]
    ruler = " ".join("-" * width for width in widths)
    lines = [ruler, _line(_HEADS, widths), ruler]
    for block in blocks:
        lines += [*(_line(row, widths) for row in block), ruler]
    weights = sum(t.size_bytes for t in _weights(graph))
    return [*lines, f"model: macc={total_macs(graph):,} weights={weights:,} activations=-- io=--"]


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    pairs = zip(row, widths, _RIGHT, strict=True)
    return " ".join(f"{c:>{w}}" if right else f"{c:<{w}}" for c, w, right in pairs).rstrip()


def _input_block(graph: Graph, name: str) -> list[tuple[str, ...]]:
    return [("0", f"{_short(name)} ()", _shape(graph.tensor(name)), "", "", "")]


def _op_block(graph: Graph, op: Op, index: int) -> list[tuple[str, ...]]:
    constants = [t for t in graph.input_tensors(op) if t is not None and t.is_constant]
    params, size = sum(t.elements for t in constants), sum(t.size_bytes for t in constants)
    inputs = [_short(n) for n in op.inputs if n and not graph.tensor(n).is_constant]
    original = op.origin[0].partition(":")[0] if op.origin else op.kind
    work = macs(graph, op)
    first = (
        str(index),
        f"{_short(op.outputs[0])} ({_word(original)})",
        _shape(graph.output_tensor(op)),
        f"{params:,}/{size:,}" if params else "",
        f"{work:,}" if work else "",
        inputs[0] if inputs else "",
    )
    return [first, *(("", "", "", "", "", name) for name in inputs[1:])]


def _weights(graph: Graph) -> list[Tensor]:
    """Constants that ops read, each once."""
    names = dict.fromkeys(name for op in graph.ops for name in op.inputs if name)
    return [graph.tensor(name) for name in names if graph.tensor(name).is_constant]


def _shape(tensor: Tensor) -> str:
    labels = _LABELS.get(len(tensor.shape), "d" * len(tensor.shape))
    return "[" + ",".join(f"{k}:{d}" for k, d in zip(labels, tensor.shape, strict=True)) + "]"


def _short(name: str) -> str:
    """One word that fits a column: the table is split at blanks and brackets."""
    word = _word(name)
    return word if len(word) <= _LONGEST else f"{word[:18]}..{word[-20:]}"


def _word(name: str) -> str:
    text = safe_terminal(name)
    return "".join(c if c not in " \t[]()|" else "_" for c in text) or "_"
