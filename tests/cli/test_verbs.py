from __future__ import annotations

import importlib
import json
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from models import mobilenet_like, save, to_tflite
from npuscope.advice.explanation import Explanation
from npuscope.cli.main import main
from npuscope.machine.load import load_machine
from npuscope.profiling.agreement import Agreement
from npuscope.profiling.validate import Reference, Validation
from npuscope.profiling.verdict import Verdict
from npuscope.program.model import Epoch, EpochKind, Program, Refused
from npuscope.report.estimate import estimate_text
from npuscope.report.json_report import estimate_json, profile_json
from npuscope.report.profile import profile_text
from npuscope.rulebook.finding import Confidence, Finding, Severity
from npuscope.whole_file import MARKER, write_whole
from sample_profile import sample_profile

PROFILE = sample_profile()
FINDING = Finding(
    rule="NA-X",
    severity=Severity.WARNING,
    title="a title",
    epoch=None,
    ops=(),
    evidence={"value": 1, "limit": None},
    cause="a cause",
    fixes=(),
    confidence=Confidence.REPORTED,
    since="",
    until="",
    docs="",
)


@dataclass
class Calls:
    """What the command line asked of the API."""

    seen: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)

    def answer(self, result: Any) -> Callable[..., Any]:
        def call(source: Any, *_: Any, **options: Any) -> Any:
            self.seen.append((source, options))
            return result

        return call

    @property
    def options(self) -> dict[str, Any]:
        return self.seen[-1][1]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    found = Calls()
    estimate = found.answer(PROFILE)
    explain = found.answer(Explanation("fine", PROFILE, (), (FINDING,)))
    for name, function in (("estimate", estimate), ("explain", explain)):
        monkeypatch.setattr(
            f"npuscope.families.neural_art.family.NeuralArt.{name}",
            lambda self, source, options, function=function: function(source, **options),
        )
    made = types.SimpleNamespace(program=program(), machine=load_machine(), graph=None, stops=())
    build = found.answer(made)
    monkeypatch.setattr("npuscope.building.build", lambda source, options: build(source, **options))
    monkeypatch.setattr("npuscope.profiling.run.profile", found.answer(PROFILE))
    return found


@pytest.fixture
def saving(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the writers: one file, one note."""
    # Whoever imports `save` by name must have the real one before it is replaced here.
    importlib.import_module("npuscope.report.build_files")

    def save(program: Program, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        (directory / "program.json").write_text("{}")

    def write(made: Any, folder: Path, names: Any) -> tuple[str, ...]:
        save(made.program, folder)
        return ("no blobs",)

    monkeypatch.setattr("npuscope.report.build_files.write_network", write)
    monkeypatch.setattr("npuscope.report.demo.save", save)


def program() -> Program:
    trail = (Refused("CONVACC", "NA-CONV-PRIME", "257 is prime"),)
    epoch = Epoch(3, 3, EpochKind.SW, operators=("Conv",), trail=trail)
    return Program("net", "stm32n6", "4.0", True, (), (), (epoch,), (), ())


def test_estimate_prints_the_screen(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "net.tflite"]) == 0
    assert capsys.readouterr().out == estimate_text(PROFILE)


def test_quiet_is_the_first_line(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "net.tflite", "-q"]) == 0
    assert capsys.readouterr().out == estimate_text(PROFILE).partition("\n")[0] + "\n"


@pytest.mark.parametrize(
    "words", [["estimate", "net.tflite", "--json"], ["estimate", "--json", "net.tflite"]]
)
def test_json_is_all_of_stdout(
    calls: Calls, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(words) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == estimate_json(PROFILE, [FINDING])
    assert shown.err == ""
    assert calls.seen[0][0] == "net.tflite"


def test_json_to_a_file(calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    assert main(["profile", "net.tflite", "--json", str(path)]) == 0
    assert json.loads(path.read_text(encoding="utf-8")) == profile_json(PROFILE, [FINDING])
    assert capsys.readouterr().out == profile_text(PROFILE)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]


def test_the_model_is_never_overwritten(calls: Calls, tmp_path: Path) -> None:
    model = tmp_path / "net.json"
    model.write_text("model")
    assert main(["estimate", str(model), "--json", str(model)]) == 2
    assert model.read_text() == "model"
    assert calls.seen == []


def test_a_file_that_cannot_be_written(calls: Calls, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "none" / "out.json"
    assert main(["estimate", "net.tflite", "--json", str(path)]) == 74
    assert f"{path}: cannot be written: No such file or directory" in capsys.readouterr().err


def test_options_reach_the_api(calls: Calls) -> None:
    words = (
        "profile net.onnx --machine stm32n6 --generation open --no-epoch-controller "
        "--mcu-mhz 600 --npu-mhz 800 --mpool my.mpool --input-data-type uint8 "
        "--output-data-type float32 --shape a=b=1,2,3 --set npu.clock_mhz=700 --set x.y=true "
        "--set pools.a.file=AXI -O3 --art-profile n6@art.json"
    )
    assert main(words.split()) == 0
    assert calls.seen[0][1] == {
        "machine": "stm32n6",
        "generation": "open",
        "epoch_controller": False,
        "optimization": 3,
        "art_profile": "n6@art.json",
        "mcu_mhz": 600.0,
        "npu_mhz": 800.0,
        "overrides": {"npu.clock_mhz": 700, "x.y": True, "pools.a.file": "AXI"},
        "mpool": "my.mpool",
        "shapes": {"a=b": (1, 2, 3)},
        "input_data_type": "uint8",
        "output_data_type": "float32",
        "as_int8": False,
        "ec_single_epoch": False,
        "alternative_schedule": False,
    }
    assert calls.options == {"batch": 1}


def test_profile_views(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "net.tflite", "--full", "--epochs", "187-190", "--batch", "4"]) == 0
    expected = profile_text(PROFILE, full=True, epochs=frozenset(range(187, 191)))
    out = capsys.readouterr().out.splitlines()
    # What the simulated board says of itself is not in the profile that stands in for a run.
    assert [line for line in out if line in expected.splitlines()] == expected.splitlines()
    assert calls.options["batch"] == 4


def test_epochs_that_a_run_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    words = ["profile", "net.tflite", "--no-epoch-controller"]
    assert main([*words, "--epochs", "900"]) == 2
    told = capsys.readouterr().err
    assert "--epochs: this run has no epoch 900" in told
    assert "its epochs: 2 to 12" in told
    assert main([*words, "--epochs", "2-3", "--json"]) == 0
    told = capsys.readouterr().out
    assert [row["first"] for row in json.loads(told)["epochs"]] == [2, 3]
    assert main([*words, "--vendor-figures", "--epochs", "2-3"]) == 0
    told = capsys.readouterr().out
    assert "EpochBlock_2 " in told and "EpochBlock_4 " not in told
    assert main([*words, "--vendor-figures", "--epochs", "900"]) == 2


def test_compile_leaves_a_whole_folder(
    calls: Calls, saving: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out" / "net"
    words = ["compile", "net.tflite", "-o", str(folder), "--log-lowering"]
    assert main(words) == 0
    assert capsys.readouterr().out == (
        f"1 epoch (0 HW, 1 SW, 0 HYBRID; 0.0% on the NPU) in {folder}\n"
        "note     no blobs\n"
        "epoch 3 SW Conv: not CONVACC: 257 is prime [NA-CONV-PRIME]\n"
    )
    assert sorted(p.name for p in folder.iterdir()) == [MARKER, "program.json"]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == ["program.json"]
    assert [p.name for p in folder.parent.iterdir()] == ["net"]


def test_compile_keeps_a_foreign_folder(
    calls: Calls, saving: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    assert main(["compile", "net.tflite", "-o", str(tmp_path)]) == 74
    assert "holds files that npuscope did not write" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_compile_again_keeps_what_others_put_there(
    calls: Calls, saving: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "net"
    words = ["compile", "net.tflite", "-o", str(folder)]
    assert main(words) == 0
    (folder / "notes.txt").write_text("mine")
    assert main(words) == 0
    assert "note     kept notes.txt, which npuscope did not write\n" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["files"] == ["program.json"]
    assert "kept notes.txt, which npuscope did not write" in result["notes"]
    assert (folder / "notes.txt").read_text() == "mine"


def test_compile_again_refuses_to_replace_what_someone_changed(
    calls: Calls, saving: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "net"
    words = ["compile", "net.tflite", "-o", str(folder)]
    assert main(words) == 0
    (folder / "program.json").write_text("by hand")
    assert main(words) == 74
    assert capsys.readouterr().err == (
        f"npuscope: {folder / 'program.json'}: was changed since npuscope wrote it\n"
        "  hint: name a new folder with -o, or replace it with --force\n"
    )
    assert (folder / "program.json").read_text() == "by hand"
    assert main([*words, "--force"]) == 0
    assert (folder / "program.json").read_text() != "by hand"


def test_files_of_one_call_appear_together_or_not_at_all(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_whole(tmp_path / "old.csv", b"old")
    words = ["profile", "net.tflite", "--csv", str(tmp_path / "old.csv")]
    words += ["--save", str(tmp_path / "new.json")]
    assert main([*words, "--json", str(tmp_path)]) != 0
    assert capsys.readouterr().out.find(" ms") == -1  # no answer without its files
    assert [p.name for p in tmp_path.iterdir()] == ["old.csv"]
    assert (tmp_path / "old.csv").read_text() == "old"
    assert main([*words, "--json", str(tmp_path / "result.json")]) == 0
    assert {p.name for p in tmp_path.iterdir()} == {"new.json", "old.csv", "result.json"}
    assert (tmp_path / "old.csv").read_text() != "old"


def test_a_failed_write_leaves_nothing(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def write(made: Any, folder: Path, names: Any) -> tuple[str, ...]:
        (folder / "half").write_text("half")
        raise OSError(28, "No space left on device", "half")

    monkeypatch.setattr("npuscope.report.build_files.write_network", write)
    assert main(["compile", "net.tflite", "-o", str(tmp_path / "out")]) == 74
    assert list(tmp_path.iterdir()) == []


def test_demo_writes_its_reports(
    saving: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = types.SimpleNamespace(program=program(), machine=load_machine(), graph=None, stops=())
    monkeypatch.setattr("npuscope.building.build", lambda source, options: made)
    monkeypatch.setattr("npuscope.profiling.run.profile", lambda *_, **__: PROFILE)
    folder = tmp_path / "demo"
    assert main(["demo", "-o", str(folder)]) == 0
    assert sorted(p.name for p in folder.iterdir()) == [
        MARKER,
        "program",
        "report.html",
        "report.json",
        "report.perfetto-trace",
        "report.txt",
    ]
    text = (folder / "report.txt").read_text()
    assert text.splitlines()[0] == profile_text(PROFILE).splitlines()[0]
    assert "Per epoch" in text
    result = json.loads((folder / "report.json").read_text())
    assert result["epochs"] == profile_json(PROFILE)["epochs"]
    assert capsys.readouterr().out.startswith("fits; weights in flash; ")


def validation(passed: bool) -> Validation:
    row = Agreement("scores", 0.75, 1.0, 1, 0.25, 0.99999, 0.0, 0.1)
    verdict = Verdict.PASSED if passed else Verdict.WRONG
    reference = Reference(None)
    return Validation((row,), (), 1.0, "Conv:3", 0.01, reference, 1, passed, (), verdict, 1, 1)


@pytest.mark.parametrize(("passed", "code"), [(True, 0), (False, 1)])
def test_validate_says_whether_it_passed(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    passed: bool,
    code: int,
) -> None:
    monkeypatch.setattr("npuscope.verbs.validate.validate", lambda *_, **__: validation(passed))
    assert main(["validate", "net.tflite"]) == code
    first = capsys.readouterr().out.partition("\n")[0]
    assert first.startswith("passed: " if passed else "wrong: ")
    assert main(["validate", "net.tflite", "--json"]) == code
    result = json.loads(capsys.readouterr().out)
    assert result["schema"] == "npuscope/validate/1"
    assert result["outputs"][0]["max_lsb"] == 1


def test_input_files_must_be_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(b"not an array")
    assert main(["validate", "net.tflite", "--inputs", str(path)]) == 3
    assert f"{path}: is not a .npy array" in capsys.readouterr().err


def test_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("stm32n6: ")
    assert "generations  (default 4.0)" in text
    assert main(["machines", "--json"]) == 0
    machine, other, *_ = json.loads(capsys.readouterr().out)["machines"]
    assert other["name"] == "cloudai100"
    assert [row["name"] for row in machine["generations"]] == [
        "2.2",
        "2.1",
        "2.0",
        "3.0",
        "4.0",
        "open",
    ]
