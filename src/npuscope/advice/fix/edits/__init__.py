"""The edits, by the id of the fix that they carry out: one file a fix, both formats in it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from npuscope.advice.fix.request import Request
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.graph.edit.tflite_document import TfliteDocument

OnnxEdit = Callable[[OnnxDocument, Request], None]
TfliteEdit = Callable[[TfliteDocument, Request], None]

# Files of this folder; each names its fixes with the decorators below.
_FILES: tuple[str, ...] = (
    "onnx_file_versions",
    "onnx_file_bounds",
    "onnx_file_constants",
    "batch_one",
    "drop_input",
    "cut_tail",
    "drop_softmax",
    "separate_outputs",
    "integer_io",
    "narrower_kernel",
    "split_outputs",
    "pad_channels",
    "dense_groups",
    "shuffle_conv",
    "quantize_op_onnx",
    "quantize_op_tflite",
    "quantize_slope",
    "signed_activations",
    "symmetric_weights",
    "zero_point",
    "remove_transposes",
    "remove_reshapes",
    "share_result",
    "pad_conv",
    "stride_instead",
    "gate_form",
    "negate_by_product",
    "move_stride",
    "nearest_resize_onnx",
    "nearest_resize_tflite",
    "plain_nearest",
    "repeat_by_joining",
    "explicit_pad",
    "add_behind",
    "mean_times_n",
    "multiply_instead",
    "constant_slice",
    "expand_operand",
)

_ONNX: dict[str, OnnxEdit] = {}
_TFLITE: dict[str, TfliteEdit] = {}


def onnx_edit(fix: str) -> Callable[[OnnxEdit], OnnxEdit]:
    """The edit changes the document in place, or raises NotFitting before it changed anything."""

    def named(function: OnnxEdit) -> OnnxEdit:
        _ONNX[fix] = function
        return function

    return named


def tflite_edit(fix: str) -> Callable[[TfliteEdit], TfliteEdit]:
    def named(function: TfliteEdit) -> TfliteEdit:
        _TFLITE[fix] = function
        return function

    return named


def formats(fix: str) -> tuple[str, ...]:
    """Kinds of files that the edit is written for; none: a fix that only people can make."""
    _load()
    return tuple(name for name, known in (("ONNX", _ONNX), ("TFLite", _TFLITE)) if fix in known)


def has_edit(fix: str, format: str) -> bool:
    _load()
    return fix in (_ONNX if format == "onnx" else _TFLITE)


def apply_edit(document: OnnxDocument | TfliteDocument, fix: str, request: Request) -> None:
    """Carry out one fix; NotFitting says why it cannot be done here."""
    _load()
    if isinstance(document, OnnxDocument):
        _ONNX[fix](document, request)
    else:
        _TFLITE[fix](document, request)


def _load() -> None:
    for name in _FILES:
        import_module(f"npuscope.advice.fix.edits.{name}")
