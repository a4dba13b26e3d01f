"""fix on the command line: text, JSON, the file that is written, bad input."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

import npuscope
from advice.fix.test_fix import prelu_net, scores_net
from models import mobilenet_like, save, to_tflite
from npuscope.advice.fix import run as fixing
from npuscope.advice.fix.program_bench import ProgramBench
from npuscope.cli.main import main
from npuscope.files.load import load_model

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_the_first_line_is_the_answer(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "fixed.onnx"
    code, out, _ = run(capsys, "fix", prelu_net(tmp_path), "-o", target)
    assert code == 0
    lines = out.splitlines()
    assert " ms (-" in lines[0] and "SW epochs 3 -> 0; outputs" in lines[0]
    assert lines[1] == "applied"
    assert (
        lines[2] == "  1. store the slopes as int8, followed by a DequantizeLinear [NA-PRELU-SLOPE]"
    )
    assert any(line.startswith("checked  opens and runs in onnxruntime") for line in lines)
    assert lines[-2].startswith("times    predicted, assuming flash octo-dtr-200, known error: ")
    assert lines[-1] == f"file     {target}"
    assert load_model(target).outputs == load_model(tmp_path / "prelu.onnx").outputs


def test_json_has_the_keys_of_the_contract(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "fixed.onnx"
    code, out, _ = run(capsys, "fix", prelu_net(tmp_path), "-o", target, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["schema"] == "npuscope/fix/1"
    assert {"applied", "refused", "before", "after", "numeric"} <= found.keys()
    (step,) = found["applied"]
    assert (step["rule"], step["fix"]) == ("NA-PRELU-SLOPE", "quantize-slope")
    assert step["saved_ms"] == pytest.approx(
        found["before"]["total_ms"] - found["after"]["total_ms"]
    )
    assert found["output"] == str(target)
    assert found["runtime"]["name"] == "onnxruntime"


def test_without_a_name_nothing_is_written(tmp_path: Path, capsys: Capture) -> None:
    path = prelu_net(tmp_path)
    code, out, _ = run(capsys, "fix", path)
    assert code == 0
    assert out.splitlines()[-1] == "file     none: -o FIXED writes the fixed model"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_check_without_inputs_is_refused(tmp_path: Path, capsys: Capture) -> None:
    code, _, err = run(capsys, "fix", scores_net(tmp_path), "--seeds", "0")
    assert code == 2
    assert "--seeds: expected 1 or more, found 0" in err


def test_the_model_is_not_overwritten(tmp_path: Path, capsys: Capture) -> None:
    path = scores_net(tmp_path)
    code, _, err = run(capsys, "fix", path, "-o", path)
    assert code == 2
    assert "this is the input file" in err


def test_a_missing_model_is_named(tmp_path: Path, capsys: Capture) -> None:
    code, _, err = run(capsys, "fix", tmp_path / "none.onnx")
    assert code == 3
    assert err.startswith(f"npuscope: {tmp_path / 'none.onnx'}: no such file")


def test_a_damaged_model_is_one_sentence(tmp_path: Path, capsys: Capture) -> None:
    path = scores_net(tmp_path)
    path.write_bytes(path.read_bytes()[:200])
    code, _, err = run(capsys, "fix", path, "-o", tmp_path / "fixed.tflite")
    assert code == 3
    assert "Traceback" not in err
    assert not (tmp_path / "fixed.tflite").exists()


# --- Long work shows itself, and an interruption keeps the best ---


def test_progress_tells_step_best_and_what_is_tried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    with caplog.at_level(logging.INFO, "npuscope.progress"):
        npuscope.fix(model, everything=True, seeds=1)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "reading and compiling net.tflite"
    trying = [line for line in lines if "; trying: " in line]
    assert trying[0].startswith("step 1 (")
    assert re.fullmatch(r"step 1 \(\d+ to try\), best so far \d+\.\d{3} ms; trying: .+", trying[0])
    assert any(re.search(r"best so far \S+ ms of \S+ ms; trying: ", line) for line in trying)
    assert lines[-1] == "comparing outputs before and after"


def test_an_interruption_keeps_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    attempt, kept = fixing.attempt, []

    def pressed(*args: object) -> object:
        if kept:
            raise KeyboardInterrupt
        step, look = attempt(*args)
        kept.extend([step] if step.outcome.kept else [])
        return step, look

    monkeypatch.setattr(fixing, "attempt", pressed)
    target = tmp_path / "fixed.tflite"
    words = ["fix", str(model), "--all", "--seeds", "1", "-o", str(target), "--json"]
    assert main(words) == 130
    found = capsys.readouterr()
    told = json.loads(found.out)
    assert told["interrupted"] is True
    assert len(told["applied"]) == 1
    assert "the fixes so far are checked and kept" in found.err
    after = npuscope.estimate(target).total_ms
    assert after == pytest.approx(told["after"]["total_ms"])
    assert after < told["before"]["total_ms"]


def test_an_interruption_before_anything_was_found_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ProgramBench, "look", pressed)
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    assert main(["fix", str(model)]) == 130
    assert "npuscope: interrupted" in capsys.readouterr().err
