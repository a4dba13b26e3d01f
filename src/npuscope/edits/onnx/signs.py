"""signed-activations of an .onnx file: uint8 tensors as int8, in the whole file at once."""

from __future__ import annotations

import numpy as np

from npuscope.edits.onnx.document import OnnxDocument
from npuscope.edits.onnx.steps import Site
from npuscope.edits.records import LOWEST, NotFitting
from npuscope.edits.registry import edit
from npuscope.edits.request import EditRequest
from npuscope.files.file_graph import kinds_having
from npuscope.ops.traits import Trait

_MOVES_OF_TYPES = kinds_having(Trait.MOVES) - {"Pad"}  # it fills in its own zeros


@edit("signed-activations", "onnx")
def signed_activations(document: OnnxDocument, request: EditRequest) -> None:
    """Types must agree wherever integers meet. Values and zero points move by 128, so no result
    changes."""
    sites = [site for site in document.sites() if _is_unsigned(document, site)]
    if not sites:
        raise NotFitting("no tensor is uint8")
    tensors = sorted(_with_moved(document, {site.tensor for site in sites}))
    for tensor in tensors:
        if tensor in document.network_inputs or tensor in document.network_outputs:
            raise NotFitting(f"the uint8 tensor '{tensor}' is an input or output of the network")
        for op in document.foreign(tensor, sites, _MOVES_OF_TYPES):
            raise NotFitting(f"a {document.word(op)} computes on the uint8 tensor '{tensor}'")
    for tensor in tensors:  # weights; all who read them are among the sites
        values = document.values(tensor)
        if values is not None:
            shifted = (values.astype(np.int16) + LOWEST).astype(np.int8)
            document.rewire(tensor, document.add_constant(f"{tensor}_int8", shifted))
    for site in sites:
        zero = document.zero_points(site)
        old = np.zeros((), np.int16) if zero is None else zero.astype(np.int16)
        name = document.add_constant(f"{site.tensor}_zero", (old + LOWEST).astype(np.int8))
        document.set_input(site.node, site.zero_point, name)


def _is_unsigned(document: OnnxDocument, site: Site) -> bool:
    zero = document.zero_points(site)
    if zero is not None:
        return zero.dtype == np.uint8
    values = document.values(site.tensor)
    return site.makes or (values is not None and values.dtype == np.uint8)


def _with_moved(document: OnnxDocument, tensors: set[str]) -> set[str]:
    """And what moves bring to them or make of them, where nobody states a zero point."""
    waiting, group = [*tensors], set(tensors)
    while waiting:
        tensor = waiting.pop()
        maker = document.producer(tensor)
        ops = [*document.readers(tensor), *([maker] if maker is not None else [])]
        for op in (op for op in ops if document.kind(op) in _MOVES_OF_TYPES):
            inputs = document.inputs(op)
            sources = inputs if document.kind(op) == "Concat" else inputs[:1]
            new = {*sources, *document.outputs(op)} - group - {None}
            group |= new
            waiting += new
    return group
