"""compare on the command line: sides, their options, text, JSON, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hostile_names import assert_harmless, hostile_onnx
from models import Net, mobilenet_like, save, to_onnx, to_tflite
from npuscope.cli import output
from npuscope.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("model"), "net.tflite", to_tflite(mobilenet_like()))


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def result(capsys: Capture, *arguments: object) -> dict[str, object]:
    code, out, err = run(capsys, "compare", *arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, object] = json.loads(out)
    return found


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        (("--b", "generation=3.0"), "generation", "3.0"),
        (("--b", "epoch_controller=off"), "epoch_controller", False),
        (("--b", "epoch-controller=false"), "epoch_controller", False),
        (("--b", "npu-mhz=800"), "npu_mhz", 800.0),
        (("--b", "set.clocks.mcu_mhz=600"), "mcu_mhz", 600.0),
        (("--npu-mhz", "900", "--b", "npu_mhz=800"), "npu_mhz", 800.0),
        (("--generation", "3.0"), "generation", "3.0"),
    ],
)
def test_options_of_one_side(
    words: tuple[str, ...], key: str, value: object, model: Path, capsys: Capture
) -> None:
    found = result(capsys, model, *words)
    machine = found["b"]["machine"]  # type: ignore[index]
    assert machine[key] == value


def test_options_of_one_side_leave_the_other(model: Path, capsys: Capture) -> None:
    found = result(capsys, model, "--b", "generation=3.0", "--b", "npu_mhz=700")
    machine = found["a"]["machine"]  # type: ignore[index]
    assert (machine["generation"], machine["npu_mhz"]) == ("4.0", 1000.0)


def test_more_options_of_a_side(model: Path, capsys: Capture) -> None:
    words = ("optimization=3", "input_data_type=uint8", "shape.x=1,12,12,3", "machine=stm32n6")
    code, _, err = run(capsys, "compare", model, *(w for word in words for w in ("--b", word)))
    assert code in (0, 2, 3), err  # the model's input has another name
    assert "unknown key" not in err


def test_json_has_what_others_rely_on(model: Path, capsys: Capture) -> None:
    found = result(capsys, model, model, "--a", "generation=2.2")
    assert found["schema"] == "npuscope/compare/1"
    assert {"rows", "unexplained_ms", "by_cause", "moved", "memory"} <= set(found)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--a", "generaton=2.2"), 2, "--a: unknown key 'generaton'\n  hint: did you mean generat"),
        (("--a", "xyzzy=1"), 2, "--a: unknown key 'xyzzy'\n  hint: keys: generation, machine, "),
        (("--b", "generation"), 2, "--b: expected KEY=VALUE, found 'generation'"),
        (("--b", "generation="), 2, "--b: expected KEY=VALUE, found 'generation='"),
        (
            ("--b", "epoch_controller=perhaps"),
            2,
            "--b epoch_controller: expected true or false, found 'perhaps'",
        ),
        (("--b", "npu_mhz=fast"), 2, "--b npu_mhz: expected MHz, found 'fast'"),
        (("--b", "optimization=9"), 2, "--b optimization: expected 0 to 3, found '9'"),
        (("--b", "generation=9"), 2, "unknown generation '9'"),
        (("--noise", "much"), 2, "--noise: expected a share such as 3% or 0.03, found 'much'"),
    ],
)
def test_what_is_wrong_is_said(
    words: tuple[str, ...], code: int, message: str, model: Path, capsys: Capture
) -> None:
    found, out, err = run(capsys, "compare", model, *words)
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err


def test_a_missing_file_is_the_files_fault(model: Path, tmp_path: Path, capsys: Capture) -> None:
    code, _, err = run(capsys, "compare", model, tmp_path / "none.tflite")
    assert (code, "no such file" in err) == (3, True)


def test_neither_source_is_overwritten(model: Path, capsys: Capture) -> None:
    before = model.read_bytes()
    code, _, err = run(capsys, "compare", model, model, f"--json={model}")
    assert (code, "this is the input file" in err) == (2, True)
    assert model.read_bytes() == before


def test_hostile_names(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "safe_lines", str)
    path = save(tmp_path, "h\x1b[2J\nFORGED.onnx", hostile_onnx(to_onnx(mobilenet_like())))
    code, out, err = run(capsys, "compare", path, "--a", "generation=2.2", "--verbose")
    assert code == 0
    assert_harmless(out + err, "compare")
    code, out, err = run(capsys, "gate", path, "--baseline", path, "--max", "SW=0", "--github")
    assert code == 1
    assert_harmless(out + err, "gate")


def test_two_networks_explain_each_other(tmp_path: Path, capsys: Capture) -> None:
    """What no setting explains is that a layer makes something else."""
    paths = []
    for outputs in (1000, 101):
        net = Net((1, 32, 32, 3))
        net.conv(64, stride=2)
        net.mean()
        net.dense(outputs)
        paths.append(save(tmp_path, f"net{outputs}.tflite", to_tflite(net)))
    _, out, _ = run(capsys, "compare", *paths)
    assert "two networks: FullyConnected makes 1x1000 -> 1x101" in out
    assert "unexplained" not in out
