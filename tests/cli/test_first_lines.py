"""The first lines of every answer: what stops the vendor's compiler, and which machine it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import npuscope
from compiler.nets import Net as GraphNet
from files.tflite.test_reader import two_axes_open
from models import OnnxWriter, mobilenet_like, save, to_onnx, to_tflite
from npuscope.cli.main import main
from npuscope.graph.model import DType
from npuscope.verbs.estimate import screen
from texts.networks import NETWORKS

Capture = pytest.CaptureFixture[str]
STOPS = "the vendor's compiler of generation 2.1 stops at this file: IR version too new"
LINES = (
    "machine  stm32n6 (STM32N6x7), no board named, generation 4.0: ST Edge AI 4.0 (atonn 1.1.3), ",
    "machine  cloudai100 (Cloud AI 100), no board named, npuscope's own compiler, ",
)


def run(capsys: Capture, *arguments: object) -> tuple[int, list[str]]:
    code = main([str(argument) for argument in arguments])
    return code, capsys.readouterr().out.splitlines()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))


@pytest.fixture
def new_onnx(tmp_path: Path) -> Path:
    """Of an IR version that the checkers of the 2.x tools do not read."""
    return save(tmp_path, "new.onnx", to_onnx(mobilenet_like()))


@pytest.mark.parametrize("verb", ["estimate", "explain", "profile", "gate", "compare"])
def test_the_machine_stands_in_the_second_line(verb: str, model: Path, capsys: Capture) -> None:
    more = {"gate": ["--max", "total_ms=99"], "compare": [model]}.get(verb, [])
    for line in LINES:
        words = [verb, model, *more, "--machine", line.split()[1]]
        second = run(capsys, *words)[1][1].replace(f"A        {model.name}: ", "machine  ")
        assert second.startswith(line)


def test_a_board_that_was_named_stands_there(model: Path, capsys: Capture) -> None:
    second = run(capsys, "estimate", model, "--board", "stm32n6570-dk")[1][1]
    assert ", board stm32n6570-dk, generation 4.0: " in second


def test_the_top_of_the_page_names_the_machine(model: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["estimate", str(model), "--html", str(page)]) == 0
    text = page.read_text(encoding="utf-8").partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(text)["machine"].startswith(LINES[0].removeprefix("machine  "))


@pytest.mark.parametrize("verb", ["estimate", "explain", "gate"])
def test_what_stops_the_compiler_is_the_first_thing_said(
    verb: str, new_onnx: Path, capsys: Capture
) -> None:
    limit = ["--max", "total_ms=99"] if verb == "gate" else []
    code, lines = run(capsys, verb, new_onnx, "--generation", "2.1", *limit)
    assert STOPS in lines[0]
    assert lines[0].startswith(("FAILED: " if verb == "gate" else "") + STOPS)
    assert code == (1 if verb == "gate" else 0)
    code, lines = run(capsys, verb, new_onnx, *limit)  # 4.0 reads it
    assert (code, "stops at this file" in lines[0]) == (0, False)


def test_a_limit_of_ones_own_decides_about_stops(new_onnx: Path, capsys: Capture) -> None:
    words = ("gate", new_onnx, "--generation", "2.1", "--max", "compiler_stops=1")
    code, lines = run(capsys, *words)
    assert (code, lines[0]) == (0, "passed: the check holds")
    assert "note     the vendor's compiler stops: IR version too new (LINT-IR-VERSION)" in lines


def test_a_build_that_exists_was_not_stopped(
    new_onnx: Path, tmp_path: Path, capsys: Capture
) -> None:
    words = ("compile", new_onnx, "--generation", "2.1", "-o", tmp_path / "build")
    assert run(capsys, *words)[0] == 0
    for verb, limit in (("estimate", ()), ("gate", ("--max", "total_ms=99"))):
        code, lines = run(capsys, verb, tmp_path / "build", *limit)
        assert (code, "stops" in lines[0]) == (0, False)


def test_a_line_says_what_another_generation_does() -> None:
    """Parts of unequal channels are joined by a library call at 2.x."""
    net = GraphNet()
    x = net.input((1, 16, 16, 8))
    net.concat((net.conv(x, 8), net.conv(x, 24)))
    graph = net.graph()
    (note,) = (n for n in screen(graph).profile.notes if "ST Edge AI" in n)
    assert note.startswith("with ST Edge AI 2.2: 1 epoch off the NPU instead of none, ")
    assert note.endswith(" ms")
    notes = [n for n in screen(graph, generation="2.1").profile.notes if "ST Edge AI" in n]
    assert notes and all(": no epoch off the NPU instead of 1, " in n for n in notes)
    assert not any("ST Edge AI 2.2" in n for n in notes)


def test_generations_that_agree_are_not_mentioned(tmp_path: Path, capsys: Capture) -> None:
    path = save(tmp_path, "clean.tflite", NETWORKS["clean.tflite"]())
    for verb in ("estimate", "explain"):
        assert not any("with ST Edge AI" in line for line in run(capsys, verb, path)[1])


def test_what_was_assumed_stands_in_the_first_line(tmp_path: Path, capsys: Capture) -> None:
    path = save(tmp_path, "float.onnx", NETWORKS["float.onnx"]())
    found = npuscope.estimate(path, as_int8=True)
    assert (
        " and placeholder scales, known error: " in run(capsys, "estimate", path, "--as-int8")[1][0]
    )
    # The range holds what nobody knows of the scales besides what any prediction may be off.
    twin = npuscope.quantize(path, data="random").after
    shares = [run.interval_ms[0] / run.total_ms for run in (found, twin)]
    assert shares[0] < 0.95 * shares[1]
    assert found.interval_ms[0] <= twin.total_ms <= (found.interval_ms[1] or 0.0)


def test_a_size_that_was_taken_stands_there_too(tmp_path: Path, capsys: Capture) -> None:
    path = save(tmp_path, "open.tflite", two_axes_open())
    assert " and --shape x=1,224,224,3, known error: " in run(capsys, "estimate", path)[1][0]
    lines = run(capsys, "estimate", path, "--shape", "x=1,64,64,3")[1]
    assert "--shape" not in lines[0]


def test_a_network_that_computes_nothing(tmp_path: Path, capsys: Capture) -> None:
    w = OnnxWriter()
    y = w.node("Identity", w.input("x", (1, 8, 8, 4)))
    path = save(tmp_path, "identity.onnx", w.finish({y: None}))
    sentence = "nothing to compute: the network hands its inputs on, and no epoch is compiled"
    for verb in ("estimate", "explain"):
        lines = run(capsys, verb, path)[1]
        assert lines[0].startswith(sentence)
        assert not any("known error" in line or line.startswith("range") for line in lines[:6])


def uint8_net() -> GraphNet:
    net = GraphNet()
    x = net.conv(net.input((1, 8, 8, 4)), 8)
    net.conv(net.quantize(net.quantize(x, (0.1, 128), DType.UINT8), (0.1, 0)), 8)
    return net


def test_a_tflite_network_of_bytes_is_not_sent_to_onnxruntime() -> None:
    graph = uint8_net().graph()
    assert [stop.rule for stop in npuscope.estimate(graph).stops] == ["LINT-UINT8"]
    assert npuscope.estimate(graph, generation="open").stops == ()
    found = npuscope.explain(graph)
    assert found.verdict.startswith("the vendor's compiler of generation 4.0 stops at this file: ")
    titles = [fix.title for f in found.findings if f.rule == "LINT-UINT8" for fix in f.fixes]
    assert titles
    assert not any("onnxruntime" in title for title in titles)
