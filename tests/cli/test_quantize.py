"""quantize on the command line: text, JSON, the file that is written, bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import npuscope
from npuscope.cli.main import main
from npuscope.quantizing.bench import QuantizingBench
from npuscope.report.quantize import answer
from npuscope.structs import replace
from quantizing.float_nets import picture_file, small_net

pytest.importorskip("onnxruntime")
Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_the_first_line_is_the_answer(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "int8.onnx"
    given = ("quantize", small_net(tmp_path), "-o", target, "--data", picture_file(tmp_path))
    code, out, err = run(capsys, *given)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert " ms in int8, 1 of " in lines[0] and "epochs off the NPU; SQNR " in lines[0]
    assert lines[1] == f"written  {target}"
    assert any(line.startswith("plain    ") and "onnxruntime" in line for line in lines)
    assert (
        "data     16 samples of data.npz; ranges from 12, compared on 4 held-out samples" in lines
    )
    assert any(line.startswith("input    image: int8 1x3x12x12, real value = ") for line in lines)
    assert "choices" in lines and lines[-1].startswith("times    predicted, known error: ")
    assert run(capsys, "validate", target, "-q")[0] == 0


def test_a_time_that_estimate_does_not_give_is_not_given_here(tmp_path: Path) -> None:
    result = npuscope.quantize(small_net(tmp_path), data="random", samples=8)
    model = replace(result.after.model, unknown_params=2 * result.after.model.params)
    unknown = replace(result, after=replace(result.after, model=model))
    assert "time not known in int8, 1 of " in answer(unknown)
    assert " ms in int8, 1 of " in answer(result)


def test_json_has_its_schema(tmp_path: Path, capsys: Capture) -> None:
    net = small_net(tmp_path)
    code, out, _ = run(
        capsys, "quantize", net, "--data", "random", "--samples", 8, "--seed", 5, "--json"
    )
    found = json.loads(out)
    assert code == 0
    assert list(found) == [
        *("schema", "output", "tool", "data", "calibration", "before", "after", "model_error"),
        *("plain", "usable", "verdict", "outputs", "inputs", "results", "choices", "layers"),
        *("worst", "notes", "task"),
    ]
    assert found["schema"] == "npuscope/quantize/1" and found["output"] is None
    assert found["data"] == {
        "source": "8 random samples, seed 5: accuracy figures mean little",
        "real": False,
        "calibration": 6,
        "held_out": 2,
        "seed": 5,
    }
    assert found["outputs"][0].keys() == {"name", "sqnr_db", "groups"}
    assert found["layers"][0].keys() == {
        *("name", "kind", "tensor", "sqnr_db", "drop_db", "steps_db", "weights_db", "peak_ratio")
    }
    assert {"total_ms", "interval_ms", "counts"} <= found["after"].keys() & found["before"].keys()
    assert [file.name for file in tmp_path.iterdir()] == [net.name]  # nothing was written


def test_verbose_lists_all_layers(tmp_path: Path, capsys: Capture) -> None:
    given = ("quantize", small_net(tmp_path), "--data", "random", "--samples", 4, "-v")
    code, out, _ = run(capsys, *given)
    assert code == 0
    assert "on random data" in out.splitlines()[0]
    assert "all layers, in dB: SQNR up to here, lost here, by rounding alone, by weights" in out
    assert "not taken: " in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "--data"),
        (["--data", "none.npz"], 3, "none.npz: no such file"),
        (["--data", "random", "-o", "net.tflite"], 2, "so the quantized one is"),
        (["--data", "random", "--mean", "x"], 2, "--mean: expected numbers with commas"),
        (["--data", "random", "--calibration", "best"], 2, "--calibration"),
    ],
)
def test_bad_input(
    tmp_path: Path, capsys: Capture, arguments: list[str], code: int, words: str
) -> None:
    found, _, err = run(capsys, "quantize", small_net(tmp_path), *arguments)
    assert found == code and words in err


def test_the_model_is_never_overwritten(tmp_path: Path, capsys: Capture) -> None:
    net = small_net(tmp_path)
    before = net.read_bytes()
    code, _, err = run(capsys, "quantize", net, "-o", net, "--data", "random")
    assert code == 2 and "this is the input file" in err
    assert net.read_bytes() == before


def test_an_interruption_keeps_the_best(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(QuantizingBench, "tried", pressed)
    target = tmp_path / "int8.onnx"
    given = ("quantize", small_net(tmp_path), "-o", target, "--data", picture_file(tmp_path))
    code, out, err = run(capsys, *given, "--json")
    assert code == 130
    assert json.loads(out)["interrupted"] is True
    assert "the best so far is kept" in err
    assert run(capsys, "validate", target, "-q")[0] == 0


def test_progress_tells_the_best_so_far(tmp_path: Path) -> None:
    seen: list[str] = []
    npuscope.quantize(small_net(tmp_path), data=picture_file(tmp_path), progress=seen.append)
    trying = [line for line in seen if "; trying: " in line]
    assert trying
    assert all(re.match(r"best so far \d+\.\d{3} ms, \d+\.\d dB; trying: ", one) for one in trying)
