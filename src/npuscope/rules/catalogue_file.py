"""Lint rules about ONNX files: what the vendor's front end trips over."""

from __future__ import annotations

from npuscope.rules.catalogue import FixTemplate
from npuscope.rules.catalogue_lint_numbers import risk
from npuscope.rules.finding import Confidence, Severity

RULES = (
    risk(
        "LINT-OPSET",
        "Opset too new",
        Severity.ERROR,
        Confidence.REPORTED,
        "The vendor's front end reads opsets up to 20.",
        FixTemplate("older-opset", "export with opset 13 to 17"),
        cases=("C20",),
        until="4.0",
    ),
    risk(
        "LINT-IR-VERSION",
        "IR version too new",
        Severity.ERROR,
        Confidence.REPORTED,
        "The ONNX checker of the 2.x tools stops at IR version 9.",
        FixTemplate("older-ir", "set model.ir_version to 9", automatic=True),
        cases=("C19",),
        until="2.2",
    ),
    risk(
        "LINT-PAD-EMPTY-INPUT",
        "Pad with an empty input",
        Severity.ERROR,
        Confidence.REPORTED,
        "The vendor's compiler 4.0.1 ends with signo 11 on Pad(data, pads, '').",
        FixTemplate("strip-empty-input", "remove the empty input", automatic=True),
        cases=("C04",),
        since="4.0",
        until="4.0",
    ),
    risk(
        "LINT-SLICE-BOUNDS",
        "Slice with open bounds",
        Severity.INFO,
        Confidence.REPORTED,
        "The vendor's shape engine was seen to take negative and largest ends literally: 'Error in "
        "computation of shapes'.",
        FixTemplate("plain-bounds", "write the real bounds", automatic=True),
        cases=("C07",),
        until="4.0",
    ),
    risk(
        "LINT-CLIP-BOUNDS",
        "Clip with quantized or int64 bounds",
        Severity.ERROR,
        Confidence.REPORTED,
        "The vendor's front end stops: 'None has type NoneType' for bounds behind a "
        "DequantizeLinear, 'Scale type of 0 is int' for int64 ones.",
        FixTemplate("fold-bounds", "fold the bounds to float initializers", automatic=True),
        cases=("C14", "C15"),
        until="4.0",
    ),
    risk(
        "LINT-ALLOWZERO",
        "Shapes left to be computed",
        Severity.WARNING,
        Confidence.REPORTED,
        "Reshapes with allowzero and Shape subgraphs come from the dynamo exporter or from traced "
        "chunks; the vendor's import rejects them.",
        FixTemplate("static-export", "write the shapes as constants", automatic=True),
        cases=("C18", "C31"),
        until="4.0",
    ),
    risk(
        "LINT-EINSUM",
        "Einsum",
        Severity.ERROR,
        Confidence.REPORTED,
        "The vendor's shape engine stops with 'Error in computation of shapes'.",
        FixTemplate("matmul-form", "write it as Slice, MatMul and Concat of rank 2"),
        cases=("C09",),
        until="4.0",
    ),
    risk(
        "LINT-INPUT-FORM",
        "Input of one axis, or of int64",
        Severity.WARNING,
        Confidence.REPORTED,
        "Inputs of rank 1 stop the shape engine; int64 indices are fed with full-range random "
        "numbers by the vendor's validation.",
        FixTemplate("input-form", "declare [1, N], and guard indices with Max and Min"),
        cases=("C08", "C16"),
        until="4.0",
    ),
    risk(
        "LINT-CONSTANT-DQ",
        "A constant behind a DequantizeLinear",
        Severity.ERROR,
        Confidence.REPORTED,
        "Constants that are no weights must be plain: the front end stops with E010, non-numerical "
        "constant.",
        FixTemplate("fold-constants", "fold constants before quantizing", automatic=True),
        cases=("C12",),
        until="4.0",
    ),
    risk(
        "LINT-SHARED-WEIGHTS",
        "Weights shared by Gemm and MatMul",
        Severity.WARNING,
        Confidence.REPORTED,
        "Exporters merge equal initializers; onnxruntime's per-channel quantizer fails on one that "
        "a Gemm and a MatMul share.",
        FixTemplate("own-weights", "give each its own copy", automatic=True),
        cases=("C32",),
        until="4.0",
    ),
)
