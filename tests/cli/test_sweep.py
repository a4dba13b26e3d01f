"""`npuscope sweep` as a user meets it: the answer, the store, what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import npuscope
from advice.sweep.samples import NO_EXTERNAL, lines_of, small_sweep, spec_file
from npuscope.advice.sweep.options import SweepOptions
from npuscope.cli.main import main
from processes import LIMIT_S

Capture = pytest.CaptureFixture[str]
FAILED = 1  # runs that failed make it the exit code


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep that was done: two models, a broken one, two generations, two pools."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "bad.tflite").write_bytes(b"no model")
    spec = small_sweep(folder, NO_EXTERNAL)
    assert (
        main(["sweep", str(spec), "--jobs", "2", "--json", str(folder / "answer.json")]) == FAILED
    )
    return folder


def said(capsys: Capture) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_the_answer_has_the_keys_of_the_contract(swept: Path) -> None:
    found = json.loads((swept / "answer.json").read_text())
    assert found == {
        "schema": "npuscope/sweep/1",
        "runs": 12,
        "done": 8,
        "failed": 4,
        "store": str(swept / "sweep.jsonl"),
        "new": 12,
    }
    assert len(lines_of(swept / "sweep.jsonl")) == 12


def test_again_it_does_nothing(swept: Path, capsys: Capture) -> None:
    before = (swept / "sweep.jsonl").read_bytes()
    assert main(["sweep", str(swept / "sweep.toml")]) == FAILED
    first, *rest = said(capsys)
    assert re.fullmatch(r"12 runs: 8 done, 4 failed; 0 new, in \d+\.\d s", first)
    assert "before   12 runs found in the store and not repeated" in rest
    assert (swept / "sweep.jsonl").read_bytes() == before


def test_failed_runs_are_done_again_on_request(
    swept: Path, tmp_path: Path, capsys: Capture
) -> None:
    store = tmp_path / "copy.jsonl"
    store.write_bytes((swept / "sweep.jsonl").read_bytes())
    words = ["sweep", str(swept / "sweep.toml"), "-o", str(store), "--retry-failed", "--json"]
    assert main(words) == FAILED
    assert json.loads(capsys.readouterr().out)["new"] == 4
    assert len(lines_of(store)) == 16


def test_a_report_of_the_store(swept: Path, tmp_path: Path, capsys: Capture) -> None:
    store = str(swept / "sweep.jsonl")
    files = [str(tmp_path / name) for name in ("r.html", "r.csv")]
    assert main(["sweep", "report", store, "--html", files[0], "--csv", files[1]]) == 0
    first, *rest = said(capsys)
    assert first.startswith("12 runs of 3 models in 4 configurations: 8 done, 4 failed; ")
    assert f"store    {store}" in rest
    assert "<!DOCTYPE html>" in Path(files[0]).read_text()
    assert len(Path(files[1]).read_text().splitlines()) == 13
    assert main(["sweep", "report", store, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["runs"], found["failed"]) == ("npuscope/sweep/1", 12, 4)


def test_parquet(swept: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "r.parquet"
    words = ["sweep", "report", str(swept / "sweep.jsonl"), "--parquet", str(path), "-q"]
    assert main(words) == 0
    assert parquet.read_table(path).num_rows == 12


def test_quiet_is_one_line(swept: Path, capsys: Capture) -> None:
    assert main(["sweep", "report", str(swept / "sweep.jsonl"), "-q"]) == 0
    assert len(said(capsys)) == 1


WRONG = {
    "sweep report": (2, "expected one store, found 0\n  hint: npuscope sweep report STORE"),
    "sweep report S T": (2, "expected one store, found 2\n  hint: npuscope sweep report STORE"),
    "sweep report S --jobs 2": (
        2,
        "--jobs: this option is for running a sweep, not for its report",
    ),
    "sweep report S --retry-failed": (
        2,
        "--retry-failed: this option is for running a sweep, not for its report",
    ),
    "sweep a.toml b.toml": (2, "one sweep file at a time, found 2"),
    "sweep none.toml": (3, "none.toml: cannot be read: No such file or directory"),
    "sweep report none.jsonl": (3, "none.jsonl: cannot be read: No such file or directory"),
    "sweep ok.toml --tls-ca x": (2, "--tls-ca, --tls-cert and --tls-key go together"),
    "sweep ok.toml --jobs 0": (2, "--jobs: expected 1 to 1024, found 0"),
    "sweep ok.toml --html ok.toml": (2, "--html ok.toml: this is the input file"),
    "sweep ok.toml -o ok.toml": (2, "-o ok.toml: this is the input file"),
    "sweep ok.toml -o old.jsonl --csv old.jsonl": (
        2,
        "--csv old.jsonl: this is the input file",
    ),
    "sweep ok.toml -o conv.tflite": (
        3,
        "conv.tflite: this is not the store of a sweep\n"
        "  hint: a store is the .jsonl file that `npuscope sweep` writes",
    ),
    "sweep report empty.jsonl": (3, "empty.jsonl: this store holds no runs yet"),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_is_wrong_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    small_sweep(tmp_path)
    spec_file(tmp_path, 'models = ["conv.tflite"]', "ok.toml")
    for name in ("empty.jsonl", "old.jsonl"):
        (tmp_path / name).write_bytes(b"")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    code, text = WRONG[words]
    assert main(words.split()) == code
    assert capsys.readouterr().err == f"npuscope: {text}\n"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_verbose_tells_how_far_it_is(tmp_path: Path, capsys: Capture) -> None:
    assert main(["sweep", str(small_sweep(tmp_path)), "--jobs", "1", "--verbose"]) == 0
    assert "npuscope: 4 of 4 runs, 0 failed" in capsys.readouterr().err


def test_without_a_terminal_it_is_silent(tmp_path: Path, capsys: Capture) -> None:
    assert main(["sweep", str(small_sweep(tmp_path)), "--jobs", "1"]) == 0
    assert capsys.readouterr().err == ""


def test_on_a_terminal_there_is_a_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    (tmp_path / "[red]bad.tflite").write_bytes(b"no model")
    assert main(["sweep", str(small_sweep(tmp_path)), "--jobs", "1"]) == FAILED
    assert said(capsys)[0].startswith("6 runs: 4 done, 2 failed")


def test_it_is_safe_without_assertions_and_from_any_folder(tmp_path: Path) -> None:
    spec = small_sweep(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    # A module of this name in the current folder must not be taken for the real one.
    (elsewhere / "json.py").write_text("raise SystemExit('imported')")
    code = "import sys; from npuscope.cli.main import main; sys.exit(main(sys.argv[1:]))"
    source = str(Path(npuscope.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-P", "-O", "-c", code, "sweep", str(spec), "--jobs", "1", "-q"],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("4 runs: 4 done, 0 failed")
    assert len(lines_of(tmp_path / "sweep.jsonl")) == 4


def test_the_same_from_python(tmp_path: Path) -> None:
    heard: list[int] = []
    found = npuscope.sweep(
        small_sweep(tmp_path),
        tmp_path / "s.jsonl",
        SweepOptions(jobs=1),
        lambda tally: heard.append(tally.left),
    )
    assert (found.runs, found.done, found.store) == (4, 4, tmp_path / "s.jsonl")
    assert heard == [4, 3, 2, 1, 0]
