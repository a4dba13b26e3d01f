"""The command line on real files: good ones, and all the ways a file can be bad."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from models import mobilenet_like, save, to_onnx, to_tflite
from npuscope.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    text = capsys.readouterr()
    return code, text.out, text.err


def test_demo_leaves_a_report(tmp_path: Path, capsys: Capture) -> None:
    code, out, _ = run(capsys, "demo", "-o", tmp_path / "out")
    assert code == 0
    assert out.startswith("fits; weights in octoFlash (all could fit on chip); ")
    assert "EpochBlock_2" in (tmp_path / "out" / "report.txt").read_text()
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["schema"] == "npuscope/profile/1"
    assert (tmp_path / "out" / "program" / "program.json").exists()


def test_estimate_as_json(model: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "estimate", model, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert sum(found["time"].values()) == pytest.approx(found["total_ms"], abs=1e-3)
    assert found["interval_ms"][0] < found["total_ms"] < found["interval_ms"][1]
    assert found["model"]["file"] == "net.tflite"


def test_compile_writes_program_and_weights(model: Path, tmp_path: Path, capsys: Capture) -> None:
    code, _, _ = run(capsys, "compile", model, "-o", tmp_path / "build")
    names = {path.name for path in (tmp_path / "build").iterdir()}
    assert code == 0
    assert "program.json" in names
    assert any(name.endswith(".raw") for name in names)


def test_a_network_that_no_c_can_be_written_of_names_the_epoch(
    tmp_path: Path, capsys: Capture
) -> None:
    """No kernel of the C library finds the largest. All else is written, the exit code says so."""
    node = helper.make_node("TopK", ["x", "count"], ["values", "indices"])
    rows = (
        ("x", TensorProto.FLOAT, 8),
        ("values", TensorProto.FLOAT, 3),
        ("indices", TensorProto.INT64, 3),
    )
    x, *ends = (helper.make_tensor_value_info(name, kind, [1, n]) for name, kind, n in rows)
    count = numpy_helper.from_array(np.array([3]), "count")
    made = helper.make_model(helper.make_graph([node], "top", [x], ends, [count]))
    model = save(tmp_path, "top.onnx", made.SerializeToString())
    code, _, err = run(capsys, "compile", model, "-o", tmp_path / "build")
    assert code == 3
    assert re.search(
        r"no network\.c was written: EpochBlock_1: no C kernel computes this TopK", err
    )
    names = {path.name for path in (tmp_path / "build").iterdir()}
    assert "network.c" not in names
    assert {"program.json", "network_generate_report.txt"} <= names
    code, _, err = run(capsys, "package", tmp_path / "build", "-o", tmp_path / "image")
    assert (code, "holds no network.c" in err) == (3, True)
    assert "names the epoch that cannot be written in C" in err


def test_profile_shows_every_epoch(model: Path, capsys: Capture) -> None:
    code, out, _ = run(capsys, "profile", model, "--full")
    assert code == 0
    assert out.count("[compiler]") == out.count("[target: simulated]") > 5


def test_validate_takes_inputs(model: Path, tmp_path: Path, capsys: Capture) -> None:
    shape = mobilenet_like().input_shape
    data = np.random.default_rng(1).integers(-128, 128, (2, *shape[1:])).astype(np.int8)
    np.save(tmp_path / "x.npy", data)
    code, out, _ = run(capsys, "validate", model, "--inputs", tmp_path / "x.npy", "--json")
    assert code == 0
    assert json.loads(out)["seeds"] == 2


def float_onnx() -> bytes:
    weights = numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "net",
        [value("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [value("y", TensorProto.FLOAT, [1, 4, 6, 6])],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def dynamic_onnx() -> bytes:
    model = onnx.load_from_string(to_onnx(mobilenet_like()))
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"
    return model.SerializeToString()


BAD = {
    "empty.tflite": (lambda: b"", "empty"),
    "cut.tflite": (lambda: to_tflite(mobilenet_like())[:1000], "truncated"),
    "noise.onnx": (lambda: np.random.default_rng(0).bytes(4096), "ONNX"),
    "float.onnx": (float_onnx, "float32"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("verb", ["estimate", "compile"])
def test_a_bad_file_gets_one_clear_message(
    name: str, verb: str, tmp_path: Path, capsys: Capture
) -> None:
    make, word = BAD[name]
    path = save(tmp_path, name, make())
    target = ["-o", tmp_path / "out"] if verb == "compile" else []
    code, out, err = run(capsys, verb, path, *target)
    assert (code, out) == (3, "")
    assert word in err
    assert "hint:" in err
    assert "Traceback" not in err
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_bad_file_as_json(tmp_path: Path, capsys: Capture) -> None:
    code, out, _ = run(capsys, "estimate", tmp_path / "missing.tflite", "--json")
    error = json.loads(out)["error"]
    assert code == 3
    assert error["kind"] == "file"
    assert set(error) == {"kind", "message", "where", "hint"}


def test_a_dynamic_dimension_can_be_pinned(tmp_path: Path, capsys: Capture) -> None:
    path = save(tmp_path, "dynamic.onnx", dynamic_onnx())
    code, out, err = run(capsys, "estimate", path)
    assert (code, err) == (0, "")
    assert re.search(r"dynamic sizes \(1, 3, height, \d+\) were taken as --shape input=1,3,", out)
    shape = mobilenet_like().input_shape
    pinned = f"input={shape[0]},{shape[3]},{shape[1]},{shape[2]}"
    code, out, _ = run(capsys, "estimate", path, "--shape", pinned)
    assert (code, out.split()[0]) == (0, "fits;")
