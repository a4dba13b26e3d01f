"""Float where the NPU computes integers only: ops, whole networks, inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.graph.model import FRONT_END, DType, Graph, Op
from npuscope.machine.model import Machine
from npuscope.machine.npu_ops import LAYERS, SUPPORT
from npuscope.ops.unknown import word_of
from npuscope.rulebook import fixes
from npuscope.rulebook.conditions import holds_for
from npuscope.rulebook.finding import Confidence, Hit, Severity
from npuscope.rulebook.queries import (
    CONVERSIONS,
    computed,
    hit,
    is_float,
    is_npu_tensor,
    of_kind,
    shape_text,
    source,
)
from npuscope.rulebook.registry import Refusal, foretells, lint, refuse, wrong_type
from npuscope.shown import counted

# Kinds that a unit computes on bytes. Moves and PReLU have checks of
# their own: they need more than "not float".
_MAPPED = tuple(k for k, row in SUPPORT.items() if row.unit and k not in ("PRelu", "Quantize"))
_INTEGER_FORMS = {k for k, row in SUPPORT.items() if row.lowering} - {"Quantize", "Identity"}
# Types in which quantizers store weights.
_QUANTIZED = (DType.INT8, DType.INT4, DType.UINT8)


@refuse(
    "NA-FLOAT",
    "The op computes in float",
    ops=_MAPPED,
    cause="The NPU has integer units only. An op with a float operand runs on the CPU, between a "
    "dequantize and a quantize that run there too.",
    fixes=(fixes.QUANTIZE_OP, fixes.QUANTIZE),
)
def operands_are_eight_bits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The NPU computes on 8-bit tensors with one scale; this op has another format."""
    # Weights and bias of a layer have rules of their own, with reasons that say more.
    names = (op.inputs[0], op.outputs[0]) if op.kind in LAYERS else (*op.inputs, *op.outputs)
    for name in names:
        tensor = graph.tensor(name)
        if tensor.is_constant:
            continue
        if not is_npu_tensor(tensor):
            return wrong_type(tensor)
    return None


@lint(
    "LINT-FLOAT-NETWORK",
    "The network is not quantized",
    severity=Severity.WARNING,
    confidence=Confidence.DOCUMENTED,
    cause="All layers compute in float32. The NPU has no float unit, so nothing would run on it; "
    "a quantizer without calibration data also writes such a file.",
    fixes=(fixes.QUANTIZE,),
)
def no_layer_is_quantized(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """None of the layers is quantized."""
    layers = list(of_kind(graph, *LAYERS, "MatMul"))
    # What the vendor's front end wrote was quantized: LINT-OE-FILE says where its scales are.
    if is_float_network(graph) and FRONT_END not in graph.notes:
        yield Hit(source(layers[0]), f"0 of {len(layers)} layers quantized", "int8")


def is_float_network(graph: Graph) -> bool:
    layers = list(of_kind(graph, *LAYERS, "MatMul"))
    return bool(layers) and all(is_float(graph.first_input(op)) for op in layers)


def has_float_layers(graph: Graph) -> bool:
    """Some layers compute in float, whatever their weights are."""
    return any(is_float(graph.first_input(op)) for op in of_kind(graph, *LAYERS))


@lint(
    "LINT-FLOAT-ISLAND",
    "Ops left in float",
    severity=Severity.WARNING,
    confidence=Confidence.DOCUMENTED,
    cause="A few ops were not quantized. They run on the CPU, and so do the dequantize before and "
    "the quantize after them: one epoch each, on four times the bytes.",
    fixes=(fixes.QUANTIZE_OP,),
    twins=("NA-FLOAT", "NA-DEQUANTIZE-FLOAT", "NA-QUANTIZE-FLOAT", "NA-OP-SOFTWARE"),
)
def float_between_integers(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Some ops compute in float, between a dequantize and a quantize of their own."""
    if is_float_network(graph):
        return
    for island in _islands(graph):
        kinds = [op.kind for op in island]
        inner = set(kinds) - set(CONVERSIONS)
        if not inner or inner == {"PRelu"}:  # the PReLU rule says more about those
            continue
        names = {name for op in island for name in op.outputs}
        size = sum(graph.tensor(n).size_bytes for n in names if is_float(graph.tensor(n)))
        ops = tuple(name for op in island for name in source(op))
        yield Hit(
            ops, ", ".join(map(word_of, island)), "int8", {"epochs": len(island), "bytes": size}
        )


def _islands(graph: Graph) -> list[list[Op]]:
    """Groups of ops that are connected by float tensors, in order of execution."""
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
    # This op joins two islands that were separate until now.
    island.extend(other)
    islands[:] = [one for one in islands if one is not other]
    home.update({name: island for name, one in home.items() if one is other})


@refuse(
    "NA-QUANTIZE-FLOAT",
    "Float values are quantized on the CPU",
    ops=("Quantize",),
    cause="Converting float32 to int8 is a pass over all elements on the CPU.",
    fixes=(fixes.INTEGER_INPUT, fixes.QUANTIZE_NEIGHBOURS),
)
def quantized_from_integers(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Float values are converted to integers by the CPU."""
    tensor = graph.first_input(op)
    return wrong_type(tensor) if tensor.dtype is DType.FLOAT32 else None


@foretells(
    "NA-QUANTIZE-FLOAT",
    "LINT-FLOAT-INPUT",
    title="Float input",
    cause="The first epoch quantizes the input on the CPU, element by element.",
    fixes=(fixes.INTEGER_INPUT,),
    also=("NA-OP-SOFTWARE",),
)
def inputs_are_float(graph: Graph, op: Op) -> Hit | None:
    """An input is float32 and is quantized on the CPU."""
    tensor = graph.first_input(op)
    if tensor.name not in graph.inputs:
        return None  # a float op reads it, and that has a rule of its own
    return hit(op, shape_text(tensor.shape), "int8 or uint8", elements=tensor.elements)


@refuse(
    "NA-DEQUANTIZE-FLOAT",
    "Results are dequantized on the CPU",
    ops=("Dequantize",),
    cause="The output is float32; each such tensor costs one more pass over all elements on the "
    "CPU.",
    fixes=(fixes.INTEGER_OUTPUT, fixes.QUANTIZE_NEIGHBOURS),
)
def stays_integer(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Integers are converted to float values by the CPU."""
    return wrong_type(graph.output_tensor(op))


@foretells(
    "NA-DEQUANTIZE-FLOAT",
    "LINT-FLOAT-OUTPUT",
    title="Float output",
    cause="Each float output costs one software epoch that dequantizes it.",
    fixes=(fixes.INTEGER_OUTPUT,),
    also=("NA-OP-SOFTWARE",),
)
def outputs_are_float(graph: Graph, op: Op) -> Hit | None:
    """An output is float32 and is dequantized on the CPU."""
    tensor = graph.output_tensor(op)
    if tensor.name not in graph.outputs:
        return None
    return hit(op, shape_text(tensor.shape), "int8 or uint8", elements=tensor.elements)


@foretells(
    "NA-FLOAT",
    "LINT-HYBRID-QUANT",
    title="Only the weights are quantized",
    ops=LAYERS,
    severity=Severity.WARNING,
    cause="Dynamic-range quantization keeps activations in float; the NPU needs both as integers.",
    fixes=(fixes.STATIC_QUANTIZATION,),
)
def only_weights_are_quantized(graph: Graph, op: Op) -> Hit | None:
    """Weights are integers but activations are float (dynamic-range quantization)."""
    weights = graph.tensor(op.inputs[1])
    if weights.dtype not in _QUANTIZED or not is_float(graph.first_input(op)):
        return None
    return hit(op, f"weights {weights.dtype.value}, activations float32", "int8 for both")


@lint(
    "LINT-UINT8",
    "uint8 activations",
    severity=Severity.ERROR,
    stops=True,
    confidence=Confidence.REPORTED,
    cause="The vendor's compiler stops with 'quantized unsigned integer format is not supported'. "
    "onnxruntime quantizes activations to uint8 by default, and the converter of TensorFlow 1 "
    "did. npuscope converts them itself.",
    fixes=(fixes.SIGNED_ACTIVATIONS,),
    until="4.0",
)
def activations_are_unsigned(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Activations inside the network are uint8."""
    # uint8 is allowed at inputs and outputs: the application decides about those.
    border = {*graph.inputs, *graph.outputs}
    inner = [t for t in computed(graph) if t.dtype is DType.UINT8 and t.name not in border]
    if inner:
        first = graph.producers()[inner[0].name]
        yield Hit(source(first), counted(len(inner), "uint8 tensor"), "int8")


# --- When fixes are true ---


@holds_for("quantize-op")
def is_float_among_integers(graph: Graph, op: Op) -> bool:
    """An op on floats that the NPU has a form of, in a network that is quantized: whole numbers
    and a float network need something else."""
    if op.kind not in _INTEGER_FORMS or is_float_network(graph):
        return False
    return any(is_float(graph.tensor(name)) for name in (*op.inputs, *op.outputs) if name)


@holds_for("quantize")
def nothing_is_quantized(graph: Graph, op: Op) -> bool:
    return is_float_network(graph)


@holds_for("quantize-neighbours", *CONVERSIONS)
def neighbour_could_be_integer(graph: Graph, op: Op) -> bool:
    """The op on the float side has a form that the NPU computes."""
    if is_float_network(graph):
        return False
    makers, readers = graph.producers(), graph.consumers()
    if op.kind == "Dequantize":
        return any(reader.kind in _INTEGER_FORMS for reader in readers[op.outputs[0]])
    maker = makers.get(op.inputs[0])
    return maker is not None and maker.kind in _INTEGER_FORMS
