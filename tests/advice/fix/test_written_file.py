"""The file that fix writes: whole, opened by a runtime, or not written at all."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import external_data_helper

import npuscope
from advice.fix.test_fix import prelu_net, scores_net
from file_fields import differences
from models import save
from models_whole_file import ADDITIONS, changed, made, stateful_net, unpacked
from npuscope.advice.fix import run as fixing
from npuscope.advice.fix import workbench
from npuscope.advice.fix.numeric import OutputEffect
from npuscope.advice.fix.workbench import Opened
from npuscope.cli.main import main
from npuscope.edits.tflite.document import TfliteDocument
from npuscope.profiling.runtimes import litert_interpreter
from npuscope.report.fix import effect_words, fix_text
from npuscope.rulebook.fix import FunctionEffect

Capture = pytest.CaptureFixture[str]


def second_subgraph(model: Any) -> None:
    """A network of its own behind the first, with a signature and metadata."""
    number = len(model.subgraphs)
    tensors = [made("Tensor", name=name, shape=[2], type=0) for name in (b"in", b"out")]
    model.operatorCodes.append(made("OperatorCode", builtinCode=101, deprecatedBuiltinCode=101))
    op = made("Operator", opcodeIndex=len(model.operatorCodes) - 1, inputs=[0], outputs=[1])
    fields = {"tensors": tensors, "operators": [op], "inputs": [0], "outputs": [1]}
    model.subgraphs.append(made("SubGraph", name=b"second", **fields))
    ends = [[made("TensorMap", name=b"end", tensorIndex=n)] for n in (0, 1)]
    fields = {"inputs": ends[0], "outputs": ends[1], "subgraphIndex": number}
    model.signatureDefs = [made("SignatureDef", signatureKey=b"second", **fields)]
    ADDITIONS["metadata"](model)


def two_subgraphs(folder: Path) -> Path:
    data = changed(scores_net(folder).read_bytes(), second_subgraph)
    return save(folder, "two.tflite", data)


def test_an_edit_of_the_network_keeps_the_other_subgraph(tmp_path: Path) -> None:
    path = two_subgraphs(tmp_path)
    fixed = npuscope.fix(path, drop_softmax=True)
    assert [step.candidate.fix.id for step in fixed.applied] == ["drop-softmax"]
    before, after = unpacked(path.read_bytes()), unpacked(fixed.data)
    assert len(after.subgraphs) == 2
    codes = [m.operatorCodes[m.subgraphs[1].operators[0].opcodeIndex] for m in (before, after)]
    assert codes[0].builtinCode == codes[1].builtinCode
    assert after.signatureDefs[0].subgraphIndex == 1
    notes = [bytes(m.buffers[m.metadata[0].buffer].data) for m in (before, after)]
    assert notes[0] == notes[1]
    assert fixed.runtime is not None and fixed.runtime.runs


def test_a_network_with_state_runs_in_the_runtime(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    data = stateful_net()
    document = TfliteDocument.parse(data)
    relu = document.op("RELU:#3")
    assert relu is not None
    document.remove(relu)
    new = document.add_tensor("again", "FLOAT32", relu.outputs[0].shape)
    document.add_op("Relu", relu.inputs, [new])
    document.rewire(relu.outputs[0], new)
    rows = []
    for content in (data, document.to_bytes()):
        interpreter = litert_interpreter(content)
        first, second = interpreter.get_input_details()
        interpreter.set_tensor(first["index"], np.linspace(-1, 1, 8, dtype=np.float32)[None])
        interpreter.set_tensor(second["index"], np.array(1, np.int32))
        for _ in range(3):
            interpreter.invoke()
        rows.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    assert np.array_equal(*rows)


def test_a_network_with_state_is_not_cut() -> None:
    document = TfliteDocument.parse(stateful_net())
    with pytest.raises(ValueError, match="keeps values for the next inference"):
        document.set_network_outputs([document.nodes[4].outputs[0]], None)  # type: ignore[arg-type]


def test_nothing_to_do_is_the_same_bytes(tmp_path: Path, capsys: Capture) -> None:
    path, target = two_subgraphs(tmp_path), tmp_path / "same.tflite"
    assert main(["fix", str(path), "--only", "LINT-DUPLICATE", "-o", str(target)]) == 0
    assert target.read_bytes() == path.read_bytes()
    out = capsys.readouterr().out
    assert out.splitlines()[-1].endswith("same.tflite, a copy of the model: nothing was changed")
    assert "checked" not in out


def test_a_file_that_the_runtime_refuses_is_not_written(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    worse = Opened("litert", (), runs=False, ran=True, opens=False)
    monkeypatch.setattr(fixing, "opened", lambda *arguments: worse)
    target = tmp_path / "fixed.tflite"
    path = scores_net(tmp_path)
    assert main(["fix", str(path), "--drop-softmax", "-o", str(target)]) == 3
    assert not target.exists()
    assert capsys.readouterr().err == (
        f"npuscope: {path}: litert accepts the original but rejects the fixed file: nothing was "
        "written\n  hint: name the fixes to apply with --only, leaving out one of: drop-softmax\n"
    )


def test_a_file_from_which_the_runtime_computes_something_else_is_not_written(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = OutputEffect("scores", "scores", max_lsb=218.0, exact_share=0.1, sqnr_db=-5.9)
    monkeypatch.setattr(fixing, "opened", lambda *arguments: Opened("litert", (far,)))
    target = tmp_path / "fixed.onnx"
    path = prelu_net(tmp_path)
    assert main(["fix", str(path), "-o", str(target)]) == 3
    assert not target.exists()
    assert "litert computes different outputs from the fixed file (SQNR -6 dB)" in (
        capsys.readouterr().err
    )


def test_a_runtime_that_does_not_confirm_equal_outputs_is_in_the_first_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = OutputEffect("y", "y", max_lsb=2.0, exact_share=0.9, sqnr_db=47.0)
    monkeypatch.setattr(fixing, "opened", lambda *arguments: Opened("litert", (near,)))
    first = fix_text(npuscope.fix(prelu_net(tmp_path))).splitlines()[0]
    assert first.endswith("in litert they differ by up to 2 LSB, SQNR 47.0 dB")


def test_equal_on_some_inputs_is_called_exact_only_of_edits_that_keep_every_bit() -> None:
    same = [OutputEffect("y", "y", max_lsb=0.0, exact_share=1.0, sqnr_db=inf)]
    assert effect_words(same, function=FunctionEffect.EXACT) == "exactly equal"
    assert effect_words(same, function=FunctionEffect.ROUNDING) == "do not differ"


def test_a_file_that_opens_but_does_not_run_is_compared_by_opening() -> None:
    assert Opened("litert", (), runs=False, ran=False, opens=False).is_worse
    assert not Opened("litert", (), runs=False, ran=False).is_worse
    assert not Opened("litert", (), runs=False, ran=False, opens=False, opened=False).is_worse


def test_what_no_runtime_checked_is_not_called_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    neither = Opened("onnxruntime", (), runs=False, ran=False, opens=False, opened=False)
    monkeypatch.setattr(fixing, "opened", lambda *arguments: neither)
    text = fix_text(npuscope.fix(prelu_net(tmp_path)))
    assert text.splitlines()[0].endswith("(not checked by an outside runtime)")
    assert "checked  not checked: onnxruntime does not open the original either" in text


def test_data_of_other_files_are_reported_inside(tmp_path: Path, capsys: Capture) -> None:
    model = onnx.load(prelu_net(tmp_path))
    external_data_helper.convert_model_to_external_data(model, location="data", size_threshold=0)
    path, target = tmp_path / "outside.onnx", tmp_path / "elsewhere" / "fixed.onnx"
    target.parent.mkdir()
    onnx.save(model, path)
    assert main(["fix", str(path), "--only", "LINT-DUPLICATE", "-o", str(target)]) == 0
    assert (
        capsys.readouterr()
        .out.splitlines()[-1]
        .endswith("fixed.onnx, a copy of the model: nothing was changed; external data is included")
    )
    whole = onnx.load(tmp_path / "prelu.onnx").SerializeToString()
    assert differences(whole, target.read_bytes()) == []


@pytest.mark.parametrize("make", [scores_net, prelu_net])
def test_an_original_that_runs_ahead_is_judged_alike(
    make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path)
    behind = npuscope.fix(path, drop_softmax=True).runtime
    starts: list[str] = []
    monkeypatch.setattr(workbench, "_WORTH_AHEAD", 0)
    ahead = workbench.runtime_ahead
    monkeypatch.setattr(workbench, "runtime_ahead", lambda name: starts.append(name) or ahead(name))
    assert npuscope.fix(path, drop_softmax=True).runtime == behind
    assert behind is not None and behind.runs and starts == [behind.name]
