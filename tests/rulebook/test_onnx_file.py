"""Lint rules on ONNX files: what our reader smooths away and the vendor's front end does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from compiler.nets import MACHINES
from models import OnnxWriter, mobilenet_like, save, to_onnx, to_tflite
from npuscope.rulebook.registry import file_lints, lint_model_file
from npuscope.structs import replace

IMAGE = (1, 4, 8, 8)
Write = Callable[[OnnxWriter, str], str]


class Case(NamedTuple):
    rule: str
    evidence: str
    risky: Callable[[], bytes]
    clean: Callable[[], bytes]
    generation: str = "4.0"


def model(write: Write, opset: int = 17, ir: int = 8, dtype: int = TensorProto.FLOAT) -> bytes:
    """One or a few nodes on an image."""
    writer = OnnxWriter(opset)
    y = write(writer, writer.input("x", IMAGE, dtype))
    proto = writer.proto({y: IMAGE})
    proto.ir_version = ir
    return bytes(proto.SerializeToString())


def relu(writer: OnnxWriter, x: str) -> str:
    return writer.node("Relu", x)


def four_bits(writer: OnnxWriter, x: str) -> str:
    writer.int4(np.zeros((2, 2), np.int8))
    return relu(writer, x)


def pad(*rest: str) -> Write:
    def write(writer: OnnxWriter, x: str) -> str:
        return writer.node("Pad", x, writer.constant(np.zeros(8, np.int64)), *rest)

    return write


def cut(end: int) -> Write:
    def write(writer: OnnxWriter, x: str) -> str:
        bounds = [writer.constant(np.array([n])) for n in (0, end, 2)]
        return writer.node("Slice", x, *bounds)

    return write


def clip(kind: str) -> Write:
    def write(writer: OnnxWriter, x: str) -> str:
        if kind == "dequantized":
            low = writer.dequantized_constant(np.array(0, np.int8), 0.1)
            return writer.node("Clip", x, low)
        return writer.node("Clip", x, writer.constant(np.array(0, kind)))

    return write


def reshape(zero: int) -> Write:
    def write(writer: OnnxWriter, x: str) -> str:
        return writer.node("Reshape", x, writer.constant(np.array(IMAGE)), allowzero=zero)

    return write


def shape(writer: OnnxWriter, x: str) -> str:
    return writer.node("Reshape", x, writer.node("Shape", x))


def einsum(writer: OnnxWriter, x: str) -> str:
    return writer.node("Einsum", x, equation="nchw->nchw")


def constant_behind(kind: str) -> Write:
    def write(writer: OnnxWriter, x: str) -> str:
        real = writer.dequantized_constant(np.ones((4, 1, 1), np.int8), 0.1)
        axes = writer.constant(np.array([0]))
        return writer.node("Add", x, writer.node(kind, real, *([axes] if kind != "Relu" else [])))

    return write


def shared(both: bool) -> Write:
    def write(writer: OnnxWriter, x: str) -> str:
        weights = writer.constant(np.ones((8, 8), np.float32))
        other = weights if both else writer.constant(np.ones((8, 8), np.float32))
        writer.node("Gemm", writer.constant(np.ones((1, 8), np.float32)), other)
        return writer.node("MatMul", x, weights)

    return write


def line(rank: int, dtype: int = TensorProto.FLOAT) -> bytes:
    writer = OnnxWriter()
    dims = (8,) if rank == 1 else (1, 8)
    return writer_bytes(writer, writer.node("Relu", writer.input("x", dims, dtype)), dims)


def writer_bytes(writer: OnnxWriter, y: str, dims: tuple[int, ...]) -> bytes:
    return writer.finish({y: dims})


INT64 = TensorProto.INT64
SENTINEL = 2**63 - 1
CASES = [
    Case("LINT-OPSET", "21", lambda: model(relu, 21), lambda: model(relu, 20)),
    Case("LINT-OPSET", "21", lambda: model(relu, 21), lambda: model(four_bits, 21)),
    Case("LINT-IR-VERSION", "10", lambda: model(relu, ir=10), lambda: model(relu, ir=9), "2.2"),
    Case(
        "LINT-PAD-EMPTY-INPUT", "empty optional input", lambda: model(pad("")), lambda: model(pad())
    ),
    Case(
        "LINT-SLICE-BOUNDS",
        f"ends [{SENTINEL}]",
        lambda: model(cut(SENTINEL)),
        lambda: model(cut(8)),
    ),
    Case("LINT-SLICE-BOUNDS", "ends [-1]", lambda: model(cut(-1)), lambda: model(cut(8))),
    Case(
        "LINT-CLIP-BOUNDS",
        "bounds after DequantizeLinear",
        lambda: model(clip("dequantized")),
        lambda: model(clip("float32")),
    ),
    Case("LINT-CLIP-BOUNDS", "int64 bounds", lambda: model(clip("int64")), lambda: model(relu)),
    Case("LINT-ALLOWZERO", "allowzero = 1", lambda: model(reshape(1)), lambda: model(reshape(0))),
    Case("LINT-ALLOWZERO", "shape computed at run time", lambda: model(shape), lambda: model(relu)),
    Case("LINT-EINSUM", "Einsum", lambda: model(einsum), lambda: model(relu)),
    Case("LINT-INPUT-FORM", "1 axis", lambda: line(1), lambda: line(2)),
    Case("LINT-INPUT-FORM", "int64", lambda: line(2, INT64), lambda: line(2)),
    Case(
        "LINT-CONSTANT-DQ",
        "constant of a Unsqueeze",
        lambda: model(constant_behind("Unsqueeze")),
        lambda: model(constant_behind("Relu")),
    ),
    Case(
        "LINT-SHARED-WEIGHTS",
        "Gemm and MatMul",
        lambda: model(shared(True)),
        lambda: model(shared(False)),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.evidence}")
def test_rule(case: Case, tmp_path: Path) -> None:
    machine = MACHINES[case.generation]
    risky = lint_model_file(save(tmp_path, "risky.onnx", case.risky()), machine)
    found = [finding for finding in risky if finding.rule == case.rule]
    assert [str(finding.evidence["value"]) for finding in found] == [case.evidence]
    clean = lint_model_file(save(tmp_path, "clean.onnx", case.clean()), machine)
    assert case.rule not in {finding.rule for finding in clean}


def test_files_that_are_no_onnx_have_no_findings(tmp_path: Path) -> None:
    machine = MACHINES["4.0"]
    noise = save(tmp_path, "noise.onnx", np.random.default_rng(0).bytes(4096))
    tflite = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    assert lint_model_file(noise, machine) == lint_model_file(tflite, machine) == ()
    assert lint_model_file(tmp_path / "none.onnx", machine) == ()


def test_an_ordinary_export_has_no_findings(tmp_path: Path) -> None:
    path = save(tmp_path, "net.onnx", to_onnx(mobilenet_like()))
    assert lint_model_file(path, MACHINES["4.0"]) == ()


def test_rules_on_the_vendors_front_end_do_not_bind_the_open_compiler(tmp_path: Path) -> None:
    path = save(tmp_path, "net.onnx", model(einsum, 21, 10))
    assert {f.rule for f in lint_model_file(path, MACHINES["4.0"])} == {"LINT-EINSUM", "LINT-OPSET"}
    assert lint_model_file(path, MACHINES["open"]) == ()


def test_data_outside_the_file_is_not_read(tmp_path: Path) -> None:
    proto = onnx.load_from_string(model(cut(-1)))
    for tensor in proto.graph.initializer:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="/etc/passwd")
    path = save(tmp_path, "net.onnx", proto.SerializeToString())
    assert lint_model_file(path, MACHINES["4.0"]) == ()


def test_the_newest_opset_is_a_matter_of_the_machine(tmp_path: Path) -> None:
    path, machine = save(tmp_path, "net.onnx", model(einsum, 21, 10)), MACHINES["4.0"]
    for newest, found in ((20, True), (21, False), (0, False)):  # 0: no limit is known
        generation = replace(machine.generation, newest_opset=newest)
        rules = {f.rule for f in lint_model_file(path, replace(machine, generation=generation))}
        assert ("LINT-OPSET" in rules) is found


def test_every_rule_has_a_case() -> None:
    assert {case.rule for case in CASES} == set(file_lints())
