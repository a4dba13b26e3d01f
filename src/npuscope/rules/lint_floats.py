"""Float where the NPU has integers only: whole networks, islands, inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.graph.model import DType, Graph, Op
from npuscope.machine.model import Machine
from npuscope.rules.finding import Hit
from npuscope.rules.lint import lint
from npuscope.rules.queries import (
    CONVERSIONS,
    LAYERS,
    computed,
    hit,
    is_float,
    of_kind,
    shape_text,
    source,
)

_QUANTIZED = (DType.INT8, DType.INT4, DType.UINT8)


@lint("LINT-FLOAT-NETWORK")
def no_layer_is_quantized(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """None of the layers is quantized."""
    layers = list(of_kind(graph, *LAYERS, "MatMul"))
    if _is_float_network(graph):
        yield Hit(source(layers[0]), f"0 of {len(layers)} layers quantized", "int8")


def _is_float_network(graph: Graph) -> bool:
    layers = list(of_kind(graph, *LAYERS, "MatMul"))
    return bool(layers) and all(is_float(graph.first_input(op)) for op in layers)


@lint("LINT-FLOAT-ISLAND")
def float_between_integers(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Some ops compute in float, between a dequantize and a quantize of their own."""
    if _is_float_network(graph):
        return
    for island in _islands(graph):
        kinds = [op.kind for op in island]
        inner = set(kinds) - set(CONVERSIONS)
        if not inner or inner == {"PRelu"}:  # the PReLU rule says more about those
            continue
        names = {name for op in island for name in op.outputs}
        size = sum(graph.tensor(n).size_bytes for n in names if is_float(graph.tensor(n)))
        ops = tuple(name for op in island for name in source(op))
        yield Hit(ops, ", ".join(kinds), "int8", {"epochs": len(island), "bytes": size})


def _islands(graph: Graph) -> list[list[Op]]:
    """Ops that hang together by float tensors, in order of execution."""
    home: dict[str, list[Op]] = {}  # float tensor -> the island it belongs to
    islands: list[list[Op]] = []
    for op in graph.ops:
        floats = [n for n in (*op.inputs, *op.outputs) if n and is_float(graph.tensor(n))]
        if not floats:
            continue
        touched = [home[name] for name in floats if name in home]
        island = touched[0] if touched else []
        if not touched:
            islands.append(island)
        for other in touched[1:]:
            _merge(island, other, islands, home)
        island.append(op)
        home.update(dict.fromkeys(floats, island))
    return islands


def _merge(
    island: list[Op], other: list[Op], islands: list[list[Op]], home: dict[str, list[Op]]
) -> None:
    if other is island:
        return
    island.extend(other)
    islands[:] = [known for known in islands if known is not other]
    home.update({name: island for name, known in home.items() if known is other})


@lint("LINT-FLOAT-INPUT")
def inputs_are_float(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """An input is float32 and is quantized on the CPU."""
    for op in of_kind(graph, "Quantize"):
        tensor = graph.first_input(op)
        if tensor.name in graph.inputs and is_float(tensor):
            yield hit(op, shape_text(tensor.shape), "int8 or uint8", elements=tensor.elements)


@lint("LINT-FLOAT-OUTPUT")
def outputs_are_float(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """An output is float32 and is dequantized on the CPU."""
    for op in of_kind(graph, "Dequantize"):
        tensor = graph.output_tensor(op)
        if tensor.name in graph.outputs:
            yield hit(op, shape_text(tensor.shape), "int8 or uint8", elements=tensor.elements)


@lint("LINT-HYBRID-QUANT")
def only_weights_are_quantized(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Weights are integers but activations are float (dynamic-range quantization)."""
    for op in of_kind(graph, *LAYERS):
        weights = graph.tensor(op.inputs[1])
        if weights.dtype in _QUANTIZED and is_float(graph.first_input(op)):
            yield hit(op, f"weights {weights.dtype.value}, activations float32", "int8 both")


@lint("LINT-UINT8")
def activations_are_unsigned(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Activations inside the network are uint8."""
    border = {*graph.inputs, *graph.outputs}
    inner = [t for t in computed(graph) if t.dtype is DType.UINT8 and t.name not in border]
    if inner:
        ops = [op for op in graph.ops if op.outputs[0] in {t.name for t in inner}]
        yield Hit(source(ops[0]), f"{len(inner)} uint8 tensors", "int8")
