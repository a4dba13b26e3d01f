"""cut-tail: the network ends where the NPU's work ends; the rest is for the application."""

from __future__ import annotations

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.frontier import frontier
from npuscope.advice.fix.parts import border_onnx, border_tflite
from npuscope.advice.fix.request import Network, Request
from npuscope.building import build
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.graph.edit.tflite_document import TfliteDocument
from npuscope.profile.run import estimate
from npuscope.text import safe_terminal

_THERE = "the network ends there already"
_UNKNOWN = "no op of the file makes the tensor '{}'"


@onnx_edit("cut-tail")
def cut_onnx(document: OnnxDocument, request: Request) -> None:
    """Outputs become integers where the tensors are quantized."""
    graph = request.network.graph
    found: list[str] = []
    for name in _tensors(request):
        tensor = border_onnx.in_file(document, graph, name)
        if tensor is None:
            raise NotFitting(_UNKNOWN.format(safe_terminal(name)))
        found.append(tensor)
    if found == [entry.name for entry in document.graph.output]:
        raise NotFitting(_THERE)
    border_onnx.set_outputs(document, border_onnx.output_entries(document, graph, found))


@tflite_edit("cut-tail")
def cut_tflite(document: TfliteDocument, request: Request) -> None:
    outputs = []
    for name in _tensors(request):
        found = border_tflite.in_file(document, request.network.graph, name)
        if found is None:
            raise NotFitting(_UNKNOWN.format(safe_terminal(name)))
        outputs.append(found)
    if outputs == document.outputs:
        raise NotFitting(_THERE)
    border_tflite.set_outputs(document, outputs)


def _tensors(request: Request) -> list[str]:
    """Those asked for; without any, those where the NPU's work ends."""
    asked = request.parameters.get("tensors")
    if isinstance(asked, list) and asked:
        return [str(name) for name in asked]
    return _found(request.network)


def _found(network: Network) -> list[str]:
    made = build(network.graph, {"machine": network.machine})
    end = frontier(made, estimate(made.program, made.machine, made.graph))
    if not end.tensors:
        raise NotFitting(end.sentence)
    return [tensor.name for tensor in end.tensors]
