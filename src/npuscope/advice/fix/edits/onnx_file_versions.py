"""older-ir: the version that the file claims, lowered to what its content needs."""

from __future__ import annotations

from npuscope.advice.fix.edits import onnx_edit
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument

_OLDER_IR = 9
_NEWEST_OPSET = 20  # of this IR version
_NEWEST_TYPE = 20  # FLOAT8E5M2FNUZ: the last element type of this IR version


@onnx_edit("older-ir")
def lower_ir_version(document: OnnxDocument, request: Request) -> None:
    """Newer versions added types and remarks; what has neither says the same in the older one."""
    if document.proto.ir_version <= _OLDER_IR:
        raise NotFitting(f"the IR version is {document.proto.ir_version} already")
    if any(entry.data_type > _NEWEST_TYPE for entry in document.graph.initializer):
        raise NotFitting(f"constants have a type that IR version {_OLDER_IR} does not know")
    if document.opset > _NEWEST_OPSET:
        raise NotFitting(f"opset {document.opset} needs a newer IR version")
    if document.proto.functions:
        raise NotFitting("the file defines functions")
    document.proto.ir_version = _OLDER_IR
