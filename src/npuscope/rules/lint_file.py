"""Lint of an ONNX file: what the vendor's front end trips over and our reader smooths away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from npuscope.errors import InternalError
from npuscope.machine.model import Machine
from npuscope.rules.catalogue import RuleInfo, make_finding, rule
from npuscope.rules.finding import Finding, Hit
from npuscope.rules.onnx_file import OnnxFile, OnnxNode, read_onnx_file

FileFunction = Callable[[OnnxFile], Iterator[Hit]]
_NEWEST_OPSET = 20
_NEWEST_IR = 9
_SENTINEL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class FileLint:
    info: RuleInfo
    sentence: str
    look: FileFunction


_LINTS: dict[str, FileLint] = {}


def lint_file(rule_id: str) -> Callable[[FileFunction], FileFunction]:
    """Register a rule on ONNX files under its id in the catalogue."""

    def register(look: FileFunction) -> FileFunction:
        info = rule(rule_id)
        if info is None:
            raise InternalError(f"rule '{rule_id}' is not in the catalogue")
        _LINTS[rule_id] = FileLint(info, " ".join((look.__doc__ or "").split()), look)
        return look

    return register


def file_lints() -> dict[str, FileLint]:
    return _LINTS


def lint_model_file(
    path: str | Path, machine: Machine, data: bytes | None = None
) -> tuple[Finding, ...]:
    """What the rules on files find; nothing for formats other than ONNX."""
    file = read_onnx_file(path, data) if Path(path).suffix.lower() == ".onnx" else None
    if file is None:
        return ()
    generation = machine.generation.name
    entries = [entry for entry in _LINTS.values() if entry.info.applies_to(generation)]
    return tuple(make_finding(entry.info, hit) for entry in entries for hit in entry.look(file))


def _hit(node: OnnxNode, value: str, limit: str) -> Hit:
    return Hit((node.name,), value, limit)


@lint_file("LINT-OPSET")
def opset_is_new(file: OnnxFile) -> Iterator[Hit]:
    """The opset is newer than the vendor's front end reads (4-bit weights need it)."""
    if file.opset > _NEWEST_OPSET and not file.four_bits:
        yield Hit((), file.opset, _NEWEST_OPSET)


@lint_file("LINT-IR-VERSION")
def ir_version_is_new(file: OnnxFile) -> Iterator[Hit]:
    """The file's IR version is newer than the checker of the 2.x tools."""
    if file.ir_version > _NEWEST_IR:
        yield Hit((), file.ir_version, _NEWEST_IR)


@lint_file("LINT-PAD-EMPTY-INPUT")
def pad_has_an_empty_input(file: OnnxFile) -> Iterator[Hit]:
    """A Pad names an empty optional input."""
    for node in file.nodes:
        if node.kind == "Pad" and "" in node.inputs:
            yield _hit(node, "empty optional input", "no input")


@lint_file("LINT-SLICE-BOUNDS")
def slice_has_sentinels(file: OnnxFile) -> Iterator[Hit]:
    """A Slice ends at a negative index or at 'the largest number'."""
    for node in file.nodes:
        ends = file.small.get(node.inputs[2]) if len(node.inputs) > 2 else None
        if node.kind == "Slice" and ends is not None and _is_sentinel(ends):
            yield _hit(node, f"ends {ends.ravel().tolist()}", "0 to the size of the axis")


def _is_sentinel(ends: np.ndarray) -> bool:
    return bool(ends.size and ((ends < 0) | (ends >= _SENTINEL)).any())


@lint_file("LINT-CLIP-BOUNDS")
def clip_bounds_are_not_plain(file: OnnxFile) -> Iterator[Hit]:
    """Bounds of a Clip come through a DequantizeLinear, or are int64."""
    makers = file.producers()
    for node in file.nodes:
        if node.kind != "Clip":
            continue
        bounds = [name for name in node.inputs[1:] if name]
        if any(name in makers and makers[name].kind == "DequantizeLinear" for name in bounds):
            yield _hit(node, "bounds behind DequantizeLinear", "float initializers")
        elif any(name in file.small and file.small[name].dtype == np.int64 for name in bounds):
            yield _hit(node, "int64 bounds", "float initializers")


@lint_file("LINT-ALLOWZERO")
def reshape_allows_zero(file: OnnxFile) -> Iterator[Hit]:
    """A Reshape with allowzero, or a Shape op: the exporter left shapes to be computed."""
    for node in file.nodes:
        if node.kind == "Reshape" and node.numbers.get("allowzero"):
            yield _hit(node, "allowzero = 1", "allowzero = 0")
        elif node.kind == "Shape":
            yield _hit(node, "shape computed at run time", "a constant shape")


@lint_file("LINT-EINSUM")
def einsum(file: OnnxFile) -> Iterator[Hit]:
    """An Einsum: the vendor's shape engine stops at it."""
    for node in file.nodes:
        if node.kind == "Einsum":
            yield _hit(node, "Einsum", "MatMul")


@lint_file("LINT-INPUT-FORM")
def inputs_have_an_odd_form(file: OnnxFile) -> Iterator[Hit]:
    """An input of one axis, or of int64 numbers."""
    for tensor in file.inputs:
        if tensor.rank == 1:
            yield Hit((tensor.name,), "1 axis", "2 axes: [1, N]")
        if tensor.is_int64:
            yield Hit((tensor.name,), "int64", "numbers that a random test input may have")


@lint_file("LINT-CONSTANT-DQ")
def constants_are_dequantized(file: OnnxFile) -> Iterator[Hit]:
    """A constant that is no weight goes through a DequantizeLinear."""
    readers = {name: node for node in file.nodes for name in node.inputs}
    for node in file.nodes:
        if node.kind != "DequantizeLinear" or node.inputs[0] not in file.constants:
            continue
        reader = readers.get(node.outputs[0])
        if reader is not None and reader.kind in ("Unsqueeze", "Squeeze", "Reshape", "Gather"):
            yield _hit(node, f"constant of a {reader.kind}", "a folded initializer")


@lint_file("LINT-SHARED-WEIGHTS")
def weights_are_shared(file: OnnxFile) -> Iterator[Hit]:
    """One initializer serves a Gemm and a MatMul: per-channel quantization fails on it."""
    users: dict[str, set[str]] = {}
    for node in file.nodes:
        for name in node.inputs[1:2]:
            if name in file.constants and node.kind in ("Gemm", "MatMul"):
                users.setdefault(name, set()).add(node.kind)
    for name, kinds in users.items():
        if len(kinds) > 1:
            yield Hit((name,), "Gemm and MatMul", "one of them")
