"""The network's inputs and outputs: batch-one, drop-input, cut-tail, drop-softmax,
separate-outputs, integer-input, integer-output."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npuscope.edits.document import Document
from npuscope.edits.places import has_fused, joined_parts, ops_of
from npuscope.edits.records import NotFitting, Op, Value
from npuscope.edits.registry import edit
from npuscope.edits.request import EditRequest
from npuscope.edits.steps import as_sent
from npuscope.text import safe_terminal

_CONVERSIONS = ("Quantize", "Dequantize")
_SAME_VALUE = (*_CONVERSIONS, "Identity")  # they change how a value is written, not the value


@edit("batch-one")
def batch_one(document: Document, request: EditRequest) -> None:
    """A dynamic batch size is written as 1."""
    if document.close_batch():
        return
    graph = request.network.graph
    sizes = {shape[0] for name in graph.inputs if (shape := graph.tensor(name).shape)}
    for other in sorted(sizes - {1}):
        raise NotFitting(f"the file is made for batch {other}: export it again with batch 1")
    raise NotFitting("no batch size in the file is dynamic")


@edit("drop-input")
def drop_input(document: Document, request: EditRequest) -> None:
    """An input that no op reads is removed from the file."""
    inputs = document.network_inputs
    targets = [value for value in inputs if document.name(value) in request.ops]
    if not targets:
        raise NotFitting("the network has no such input")
    if any(document.readers(value) or value in document.network_outputs for value in targets):
        raise NotFitting("the input is read")
    if len(targets) == len(inputs):
        raise NotFitting("it is the only input")
    document.network_inputs = [value for value in inputs if value not in targets]


@edit("cut-tail")
def cut_tail(document: Document, request: EditRequest) -> None:
    """The network ends where the NPU's work ends, with integers where tensors are quantized; the
    rest is for the application."""
    graph = request.network.graph
    ends: list[Value] = []
    tensors = request.parameters.get("tensors")
    names = tensors if isinstance(tensors, list) and tensors else request.network.ends()
    for name in map(str, names):
        tensor = document.in_file(graph, name)
        if tensor is None:
            raise NotFitting(f"no op of the file computes the tensor '{safe_terminal(name)}'")
        ends.append(tensor)
    if ends == document.network_outputs:
        raise NotFitting("the network already ends there")
    try:
        document.set_network_outputs(ends, graph)
    except ValueError as reason:
        raise NotFitting(str(reason)) from reason


@edit("drop-softmax")
def drop_softmax(document: Document, request: EditRequest) -> None:
    """The network gives the scores that the last Softmax would normalise: floats where it gave
    floats, else integers with the scale of the scores."""
    softmax = next(iter(ops_of(document, request, ("Softmax",))), None)
    if softmax is None:
        raise NotFitting("the network has no Softmax")
    way = _way_out(document, document.outputs(softmax)[0])
    scores = as_sent(document, document.inputs(softmax)[0], way)
    if document.producer(scores) is None:
        raise NotFitting("nothing is computed before the Softmax")
    if scores in document.network_outputs:
        raise NotFitting("its scores are already an output")
    document.send(softmax, way, scores)


@edit("separate-outputs")
def separate_outputs(document: Document, request: EditRequest) -> None:
    """Parts that a last Concat joins become outputs of their own, as the joint output was."""
    concat = next(iter(ops_of(document, request, ("Concat", "QLinearConcat"))), None)
    if concat is None:
        raise NotFitting("the network has no Concat")
    if has_fused(document, concat):
        raise NotFitting("the Concat has an activation of its own")
    way = _way_out(document, document.outputs(concat)[0])
    parts = joined_parts(document, concat)
    if any(document.producer(part) is None for part in parts):
        raise NotFitting("a part of the Concat is not computed: it is an input or a constant")
    if len(set(parts)) < len(parts) or any(part in document.network_outputs for part in parts):
        raise NotFitting("a part of the Concat occurs twice, or is already an output")
    try:
        document.send_parts(concat, way, parts, request.network.graph)
    except ValueError as reason:
        raise NotFitting(str(reason)) from reason


def _way_out(document: Document, tensor: Value) -> list[Op]:
    """The conversions between a tensor and the network's output; NotFitting where it does not
    lead there alone."""
    ops: list[Op] = []
    while tensor not in document.network_outputs:
        readers = document.readers(tensor)
        if len(readers) != 1 or document.kind(readers[0]) not in _SAME_VALUE:
            raise NotFitting("its result is used inside the network")
        ops.append(readers[0])
        tensor = document.outputs(readers[0])[0]
    if document.readers(tensor):
        raise NotFitting("its result is used inside the network")
    return ops


@edit("integer-input")
def integer_input(document: Document, request: EditRequest) -> None:
    """Inputs that are quantized at once become what that makes; `type` may ask for uint8."""
    type = str(request.parameters.get("type", ""))
    inputs = convertible(document, document.network_inputs)
    conversions = ops_of(document, request, _CONVERSIONS)
    if conversions:  # a request for the whole border names none
        inputs = [v for v in inputs if any(v in document.inputs(op) for op in conversions)]
    _each(inputs, lambda tensor: _take_integers(document, tensor, type))


def convertible(document: Document, tensors: Sequence[Value]) -> list[Value]:
    """Those of a type that may be converted inside: floats, and bytes of a sign that kernels do
    not mix with the other."""
    types = ("float32",) if document.mixes_signs else ("float32", "uint8")
    computed = [tensor for tensor in tensors if document.values(tensor) is None]
    return [tensor for tensor in computed if document.type(tensor) in types]


def _each(tensors: Sequence[Value], change: Callable[[Value], None]) -> None:
    """All that fit are changed; where none does, the first reason is reported."""
    reasons = []
    for tensor in tensors:
        try:
            change(tensor)
        except NotFitting as reason:
            reasons.append(reason)
    if len(reasons) == len(tensors):
        raise reasons[0] if reasons else NotFitting("nothing is converted at this input or output")


def _take_integers(document: Document, tensor: Value, type: str) -> None:
    readers, name = document.readers(tensor), document.name(tensor)
    others = {document.word(op) for op in readers if document.kind(op) != "Quantize"}
    if others or not readers or tensor in document.network_outputs:
        who = ", ".join(sorted(others)) or "nobody"
        word = document.words("Quantize")[0]
        raise NotFitting(f"input '{name}' is read by {who}, not by {word} alone")
    results = [document.outputs(op)[0] for op in readers]
    steps, *more_steps = {document.made_steps(op) for op in readers}
    if more_steps or any(value in document.network_outputs for value in results):
        raise NotFitting(f"input '{name}' is quantized in more than one way")
    document.take_integers(tensor, readers, steps, type or steps.type)


@edit("integer-output")
def integer_output(document: Document, request: EditRequest) -> None:
    """Outputs that a conversion makes become what it reads."""
    outputs = convertible(document, document.network_outputs)
    conversions = ops_of(document, request, _CONVERSIONS)
    if conversions:
        outputs = [v for v in outputs if any(v in document.outputs(op) for op in conversions)]
    _each(outputs, lambda tensor: _give_integers(document, tensor))


def _give_integers(document: Document, tensor: Value) -> None:
    maker, name = document.producer(tensor), document.name(tensor)
    integers = _converted(document, maker) if maker is not None else None
    if maker is None or integers is None:
        who = document.word(maker) if maker is not None else "an input"
        word = document.words("Dequantize")[0]
        raise NotFitting(f"output '{name}' comes from {who}, not from {word}")
    if document.producer(integers) is None or integers in document.network_outputs:
        raise NotFitting(f"'{document.name(integers)}' is already an input or output")
    document.give_integers(tensor, maker, integers)


def _converted(document: Document, op: Op) -> Value | None:
    """The integers that a conversion reads."""
    kinds = ("Dequantize",) if document.mixes_signs else _CONVERSIONS
    source = document.inputs(op)[0] if document.kind(op) in kinds else None
    if source is None or document.mixes_signs:
        return source
    return source if document.type(source) == "int8" else None
