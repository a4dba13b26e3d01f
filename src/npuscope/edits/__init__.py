"""Edits of model files: what a finding offers as a fix, carried out on the user's own file.

In: a file (`open_document`), the id of a fix, an EditRequest (which ops, which parameters, what is
known of the network). Out: the same document, changed, or NotFitting with the reason. `document`
and `records` are the neutral document, `onnx` and `tflite` implement it; the other modules are the
edits by theme and what several of them share. `registry` finds an edit by its id.
"""

from npuscope.edits.document import Document
from npuscope.edits.records import NotFitting
from npuscope.edits.registry import apply_edit, edits, formats, has_edit, open_document, whole_bytes
from npuscope.edits.request import EditRequest, Network

__all__ = [
    "Document",
    "EditRequest",
    "Network",
    "NotFitting",
    "apply_edit",
    "edits",
    "formats",
    "has_edit",
    "open_document",
    "whole_bytes",
]
