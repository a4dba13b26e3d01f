"""What edits at the end of a TFLite network share."""

from __future__ import annotations

from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument
from npuscope.graph.model import Graph

# Ops that change how a value is written, not the value.
_SAME_VALUE = ("QUANTIZE", "DEQUANTIZE")


def set_outputs(document: TfliteDocument, outputs: list[EditTensor]) -> None:
    """Exactly these outputs; ops that only others needed go."""
    document.outputs = outputs
    needed = set(outputs)
    kept: list[EditOp] = []
    waiting = [*outputs]
    makers = {tensor: op for op in document.ops for tensor in op.outputs}
    while waiting:
        op = makers.get(waiting.pop())
        if op is None or op in kept:
            continue
        kept.append(op)
        new = [t for t in op.inputs if t is not None and t not in needed]
        needed.update(new)
        waiting += new
    for op in [op for op in document.ops if op not in kept]:
        document.remove(op)


def in_file(document: TfliteDocument, graph: Graph, name: str) -> EditTensor | None:
    """The file's tensor that a tensor of the Graph stands for."""
    maker = graph.producers().get(name)
    op = document.op(maker.origin[-1]) if maker is not None and maker.origin else None
    if maker is None or op is None:
        made = [t for t in document.tensors if t.name == name]
        return made[0] if len(made) == 1 and document.producer(made[0]) else None
    place = maker.outputs.index(name)
    return op.outputs[place] if place < len(op.outputs) else None


def way_out(document: TfliteDocument, tensor: EditTensor) -> list[EditOp]:
    """The conversions between a tensor and the network's output; NotFitting where it does not
    lead there alone."""
    ops: list[EditOp] = []
    while not document.is_output(tensor):
        readers = document.readers(tensor)
        if len(readers) != 1 or readers[0].kind not in _SAME_VALUE:
            raise NotFitting("its result is used inside the network")
        ops.append(readers[0])
        tensor = readers[0].outputs[0]
    if document.readers(tensor):
        raise NotFitting("its result is used inside the network")
    return ops
