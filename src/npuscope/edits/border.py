"""The network's inputs and outputs: batch-one, drop-input, cut-tail, drop-softmax,
separate-outputs, integer-input, integer-output."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npuscope.edits.document import Document
from npuscope.edits.records import NotFitting, Op, Value
from npuscope.edits.registry import edit
from npuscope.edits.request import EditRequest
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
        raise NotFitting(f"the file is written for batch {other}: export it again with 1")
    raise NotFitting("no batch size in the file is dynamic")


@edit("drop-input")
def drop_input(document: Document, request: EditRequest) -> None:
    """An input that no op reads is removed from the file."""
    inputs = document.network_inputs()
    found = [value for value in inputs if document.name(value) in request.ops]
    if not found:
        raise NotFitting("there is no such input")
    if any(document.readers(value) or document.is_output(value) for value in found):
        raise NotFitting("the input is read")
    if len(found) == len(inputs):
        raise NotFitting("it is the only input")
    document.drop_inputs(found)


@edit("cut-tail")
def cut_tail(document: Document, request: EditRequest) -> None:
    """The network ends where the NPU's work ends, with integers where tensors are quantized; the
    rest is for the application."""
    graph = request.network.graph
    found: list[Value] = []
    for name in _tensors(request):
        tensor = document.in_file(graph, name)
        if tensor is None:
            raise NotFitting(f"no op of the file computes the tensor '{safe_terminal(name)}'")
        found.append(tensor)
    if found == document.network_outputs():
        raise NotFitting("the network already ends there")
    document.set_outputs(found, graph)


def _tensors(request: EditRequest) -> list[str]:
    """Those asked for; without any, those where the NPU's work ends."""
    asked = request.parameters.get("tensors")
    if isinstance(asked, list) and asked:
        return [str(name) for name in asked]
    return request.network.ends()


@edit("drop-softmax")
def drop_softmax(document: Document, request: EditRequest) -> None:
    """The network gives the scores that the last Softmax would normalise: floats where it gave
    floats, else integers with the scale of the scores."""
    found = document.found(request, ("Softmax",))
    if not found:
        raise NotFitting("there is no Softmax")
    softmax = found[0]
    way = _way_out(document, document.outputs(softmax)[0])
    scores = document.as_sent(document.inputs(softmax)[0], way)
    if document.producer(scores) is None:
        raise NotFitting("nothing is computed before the Softmax")
    if document.is_output(scores):
        raise NotFitting("its scores are already an output")
    document.send(softmax, way, scores)


@edit("separate-outputs")
def separate_outputs(document: Document, request: EditRequest) -> None:
    """Parts that a last Concat joins become outputs of their own, as the joint output was."""
    found = document.found(request, ("Concat", "QLinearConcat"))
    if not found:
        raise NotFitting("there is no Concat")
    concat = found[0]
    if document.has_fused(concat):
        raise NotFitting("the Concat has an activation of its own")
    way = _way_out(document, document.outputs(concat)[0])
    parts = document.joined_parts(concat)
    if any(document.producer(part) is None for part in parts):
        raise NotFitting("a part of the Concat is not computed: it is an input or a constant")
    if len(set(parts)) < len(parts) or any(document.is_output(part) for part in parts):
        raise NotFitting("a part of the Concat occurs twice, or is already an output")
    document.send_parts(concat, way, parts, request.network.graph)


def _way_out(document: Document, tensor: Value) -> list[Op]:
    """The conversions between a tensor and the network's output; NotFitting where it does not
    lead there alone."""
    ops: list[Op] = []
    while not document.is_output(tensor):
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
    wanted = str(request.parameters.get("type", ""))
    found = document.convertible(document.network_inputs())
    named = document.found(request, _CONVERSIONS)
    if named:  # a request for the whole border names none
        found = [v for v in found if any(v in document.inputs(op) for op in named)]
    _each(found, lambda tensor: _take_integers(document, tensor, wanted))


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


def _take_integers(document: Document, tensor: Value, wanted: str) -> None:
    readers, name = document.readers(tensor), document.name(tensor)
    others = {document.word(op) for op in readers if document.kind(op) != "Quantize"}
    if others or not readers or document.is_output(tensor):
        who = ", ".join(sorted(others)) or "nobody"
        word = document.spelled(("Quantize",))[0]
        raise NotFitting(f"input '{name}' is read by {who}, not by {word} alone")
    made = [document.outputs(op)[0] for op in readers]
    found = {document.made_steps(op) for op in readers}
    if len(found) > 1 or any(document.is_output(value) for value in made):
        raise NotFitting(f"input '{name}' is quantized in more than one way")
    steps = found.pop()
    if wanted in ("", steps.type):
        document.take_integers(tensor, readers, steps)
    else:
        document.take_shifted(tensor, steps, wanted)


@edit("integer-output")
def integer_output(document: Document, request: EditRequest) -> None:
    """Outputs that a conversion makes become what it reads."""
    found = document.convertible(document.network_outputs())
    named = document.found(request, _CONVERSIONS)
    if named:
        found = [v for v in found if any(v in document.outputs(op) for op in named)]
    _each(found, lambda tensor: _give_integers(document, tensor))


def _give_integers(document: Document, tensor: Value) -> None:
    maker, name = document.producer(tensor), document.name(tensor)
    integers = document.converted(maker) if maker is not None else None
    if maker is None or integers is None:
        who = document.word(maker) if maker is not None else "an input"
        word = document.spelled(("Dequantize",))[0]
        raise NotFitting(f"output '{name}' comes from {who}, not from {word}")
    if document.producer(integers) is None or document.is_output(integers):
        raise NotFitting(f"'{document.name(integers)}' is already an input or output")
    document.give_integers(tensor, maker, integers)
