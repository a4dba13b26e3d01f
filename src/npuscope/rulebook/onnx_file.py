"""An ONNX file as stored: what the vendor's front end rejects and our reader accepts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npuscope.files.onnx.listed import OnnxFile, OnnxNode
from npuscope.machine.model import Machine
from npuscope.rulebook import fixes
from npuscope.rulebook.finding import Confidence, Hit, Severity
from npuscope.rulebook.registry import lint_file

CONSTANT_MOVES = ("Unsqueeze", "Squeeze", "Reshape", "Gather")  # they pass a constant on unchanged
_SENTINEL = 2**31 - 1  # exporters write the largest int32 or int64 for "to the end"


def _hit(node: OnnxNode, value: str, limit: str) -> Hit:
    return Hit((node.name,), value, limit)


@lint_file(
    "LINT-OPSET",
    "Opset too new",
    severity=Severity.ERROR,
    stops=True,
    confidence=Confidence.REPORTED,
    cause="The vendor's front end reads opsets up to 20.",
    fixes=(fixes.OLDER_OPSET,),
    until="4.0",
)
def opset_is_new(file: OnnxFile, machine: Machine) -> Iterator[Hit]:
    """The opset is newer than the vendor's front end reads (4-bit weights need it)."""
    # 4-bit types came with opset 21: such a file cannot be older.
    newest = machine.generation.newest_opset
    if newest and file.opset > newest and not file.four_bits:
        yield Hit((), file.opset, newest)


@lint_file(
    "LINT-IR-VERSION",
    "IR version too new",
    severity=Severity.ERROR,
    stops=True,
    confidence=Confidence.REPORTED,
    cause="The ONNX checker of the 2.x tools stops at IR version 9.",
    fixes=(fixes.OLDER_IR,),
    until="2.2",
)
def ir_version_is_new(file: OnnxFile, machine: Machine) -> Iterator[Hit]:
    """The file's IR version is newer than the checker of the 2.x tools."""
    newest = machine.generation.newest_ir_version
    if newest and file.ir_version > newest:
        yield Hit((), file.ir_version, newest)


@lint_file(
    "LINT-PAD-EMPTY-INPUT",
    "Pad with an empty input",
    severity=Severity.ERROR,
    stops=True,
    confidence=Confidence.REPORTED,
    cause="The vendor's compiler 4.0.1 crashes (signo 11) on Pad(data, pads, '').",
    fixes=(fixes.STRIP_EMPTY_INPUT,),
    since="4.0",
    until="4.0",
)
def pad_has_an_empty_input(file: OnnxFile, machine: Machine) -> Iterator[Hit]:
    """A Pad names an empty optional input."""
    for node in file.nodes:
        if node.kind == "Pad" and "" in node.inputs:
            yield _hit(node, "empty optional input", "no input")


@lint_file(
    "LINT-SLICE-BOUNDS",
    "Slice with open-ended bounds",
    severity=Severity.INFO,
    confidence=Confidence.REPORTED,
    cause="The vendor's shape engine was seen to take negative ends and the largest integer "
    "literally: 'Error in computation of shapes'.",
    fixes=(fixes.PLAIN_BOUNDS,),
    until="4.0",
)
def slice_has_sentinels(file: OnnxFile, machine: Machine) -> Iterator[Hit]:
    """A Slice ends at a negative index or at 'the largest number'."""
    for node in file.nodes:
        ends = file.small.get(node.inputs[2]) if len(node.inputs) > 2 else None
        if node.kind != "Slice" or ends is None:
            continue
        if np.any((ends < 0) | (ends >= _SENTINEL)):
            yield _hit(node, f"ends {ends.ravel().tolist()}", "0 to the size of the axis")


@lint_file(
    "LINT-CLIP-BOUNDS",
    "Clip with quantized or int64 bounds",
    severity=Severity.ERROR,
    stops=True,
    confidence=Confidence.REPORTED,
    cause="The vendor's front end stops: 'None has type NoneType' for bounds after a "
    "DequantizeLinear, 'Scale type of 0 is int' for int64 ones.",
    fixes=(fixes.FOLD_BOUNDS,),
    until="4.0",
)
def clip_bounds_are_not_plain(file: OnnxFile, machine: Machine) -> Iterator[Hit]:
    """Bounds of a Clip come through a DequantizeLinear, or are int64."""
    makers = file.producers()
    for node in file.nodes:
        if node.kind != "Clip":
            continue
        bounds = [name for name in node.inputs[1:] if name]
        if any(name in makers and makers[name].kind == "DequantizeLinear" for name in bounds):
            yield _hit(node, "bounds after DequantizeLinear", "float initializers")
        elif any(name in file.small and file.small[name].dtype == np.int64 for name in bounds):
            yield _hit(node, "int64 bounds", "float initializers")


@lint_file(
    "LINT-ALLOWZERO",
    "Shapes are computed at run time",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="Reshapes with allowzero and Shape subgraphs come from the dynamo exporter or from "
    "traced chunks; the vendor's import rejects them.",
    fixes=(fixes.STATIC_EXPORT,),
    until="4.0",
)
def reshape_allows_zero(file: OnnxFile, machine: Machine) -> Iterator[Hit]:
    """A Reshape with allowzero, or a Shape op: shapes are computed at run time."""
    for node in file.nodes:
        if node.kind == "Reshape" and node.numbers.get("allowzero"):
            yield _hit(node, "allowzero = 1", "allowzero = 0")
        elif node.kind == "Shape":
            yield _hit(node, "shape computed at run time", "a constant shape")


@lint_file(
    "LINT-EINSUM",
    "Einsum",
    severity=Severity.ERROR,
    stops=True,
    confidence=Confidence.REPORTED,
    cause="The vendor's shape engine stops with 'Error in computation of shapes'.",
    fixes=(fixes.MATMUL_FORM,),
    until="4.0",
)
def einsum(file: OnnxFile, machine: Machine) -> Iterator[Hit]:
    """An Einsum: the vendor's shape engine stops at it."""
    for node in file.nodes:
        if node.kind == "Einsum":
            yield _hit(node, "Einsum", "MatMul")


@lint_file(
    "LINT-INPUT-FORM",
    "Input of one axis, or of int64",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="Inputs of rank 1 stop the shape engine; the vendor's validation feeds int64 indices "
    "with random numbers of the full range.",
    fixes=(fixes.INPUT_FORM,),
    until="4.0",
)
def inputs_have_an_odd_form(file: OnnxFile, machine: Machine) -> Iterator[Hit]:
    """An input of one axis, or of int64 numbers."""
    for tensor in file.inputs:
        if tensor.rank == 1:
            yield Hit((tensor.name,), "1 axis", "2 axes: [1, N]")
        if tensor.is_int64:
            yield Hit((tensor.name,), "int64", "numbers that a random test input may have")


@lint_file(
    "LINT-CONSTANT-DQ",
    "A constant after a DequantizeLinear",
    severity=Severity.ERROR,
    stops=True,
    confidence=Confidence.REPORTED,
    cause="Constants other than weights must be plain: the front end stops with E010, "
    "non-numerical constant.",
    fixes=(fixes.FOLD_CONSTANTS,),
    until="4.0",
)
def constants_are_dequantized(file: OnnxFile, machine: Machine) -> Iterator[Hit]:
    """A constant other than a weight goes through a DequantizeLinear."""
    readers = {name: node for node in file.nodes for name in node.inputs}
    for node in file.nodes:
        if node.kind != "DequantizeLinear" or node.inputs[0] not in file.constants:
            continue
        reader = readers.get(node.outputs[0])
        if reader is not None and reader.kind in CONSTANT_MOVES:
            yield _hit(node, f"constant of a {reader.kind}", "a folded initializer")


@lint_file(
    "LINT-SHARED-WEIGHTS",
    "Weights shared by Gemm and MatMul",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="Exporters merge equal initializers; onnxruntime's per-channel quantizer fails on one "
    "that a Gemm and a MatMul share.",
    fixes=(fixes.OWN_WEIGHTS,),
    until="4.0",
)
def weights_are_shared(file: OnnxFile, machine: Machine) -> Iterator[Hit]:
    """A Gemm and a MatMul share one initializer: per-channel quantization fails on it."""
    users: dict[str, set[str]] = {}
    for node in file.nodes:
        # Input 1 holds the weights of both.
        for name in node.inputs[1:2]:
            if name in file.constants and node.kind in ("Gemm", "MatMul"):
                users.setdefault(name, set()).add(node.kind)
    for name, kinds in users.items():
        if len(kinds) > 1:
            yield Hit((name,), "Gemm and MatMul", "one of them")
