"""Edits of model files: what a finding offers as a fix, carried out on the user's own file.

In: a file (`open_document`), the id of a fix, an EditRequest (which ops, which parameters, what is
known of the network). Out: the same document, changed, or NotFitting with the reason. A document is
the file graph (`files/file_graph.py`) in the dialect of its format: `document` lists what a dialect
answers, `onnx` and `tflite` are the answers. `places`, `steps` and `views` are what themes share;
the other modules are the edits by theme. `registry` finds an edit by its id.
"""

from npuscope.edits.document import Document
from npuscope.edits.records import NotFitting
from npuscope.edits.registry import apply_edit, edits, formats, has_edit, open_document, whole_bytes
from npuscope.edits.request import EditRequest, NetworkFacts

__all__ = [
    "Document",
    "EditRequest",
    "NetworkFacts",
    "NotFitting",
    "apply_edit",
    "edits",
    "formats",
    "has_edit",
    "open_document",
    "whole_bytes",
]
