"""A model, a build, pools, a board and a program container full of names that mean harm.

Whatever is printed or written for people moves no cursor and starts no line with a name. The net
below the verbs (`safe_lines`) is taken away, so that each place has to be safe by itself.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostile_names import FORGED, HOSTILE, assert_harmless, hostile_onnx
from many_core import nets
from models import mobilenet_like, save, to_onnx
from npuscope import child
from npuscope.cli import main as cli
from npuscope.cli import output
from processes import started

Capture = pytest.CaptureFixture[str]
FILE = f"h\x1b[2J\n{FORGED}\u202e<b>.onnx"
TEXTS = (".c", ".h", ".csv", ".txt", ".dot")
START = "import sys; from npuscope.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output, "safe_lines", str)
    save(tmp_path, FILE, hostile_onnx(to_onnx(mobilenet_like())))


def run(capsys: Capture, *words: str, code: int = 0) -> str:
    found = cli.main(words)
    shown = capsys.readouterr()
    assert found == code, shown.err
    assert_harmless(shown.out + shown.err, " ".join(words))
    return shown.out


def check_files(folder: str | Path) -> None:
    for path in Path(folder).iterdir():
        if path.suffix in TEXTS:
            assert_harmless(path.read_text(encoding="utf-8"), path.name)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("estimate",), 0),
        (("lint", "--verbose"), 1),
        (("explain", "--verbose"), 0),
        (("profile", "--full"), 0),
        (("profile", "--vendor-figures"), 0),
        (("validate",), 0),
        (("inspect",), 0),
    ],
)
def test_verbs_on_a_model(words: tuple[str, ...], code: int, capsys: Capture) -> None:
    run(capsys, *words, FILE, code=code)


def test_tables_and_logs_of_a_run(capsys: Capture) -> None:
    run(capsys, "profile", FILE, "--csv", "p.csv", "--log", "p.log")
    for name in ("p.csv", "p.log"):
        assert_harmless(Path(name).read_text(encoding="utf-8"), name)
    with open("p.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert len({len(row) for row in rows}) == 1
    run(capsys, "profile", "--connect", "log:p.log")


def test_a_log_that_was_tampered_with(capsys: Capture) -> None:
    run(capsys, "profile", FILE, "--log", "p.log")
    text = Path("p.log").read_text(encoding="utf-8")
    Path("p.log").write_text(re.sub(r"'[^'\n]*'", "'x\x1b[2J\u202e'", text), encoding="utf-8")
    run(capsys, "profile", "--connect", "log:p.log")
    run(capsys, "inspect", "p.log")


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
def test_a_build(generation: str, capsys: Capture) -> None:
    words = ("--generation", generation, "--log-lowering", "--name", f'n\n{FORGED}*/"')
    run(capsys, "compile", FILE, "-o", "net\x1b[1m", *words)
    check_files("net\x1b[1m")
    for verb in ("estimate", "explain", "profile", "inspect", "checklist"):
        run(capsys, verb, "net\x1b[1m")
    for file in Path("net\x1b[1m").iterdir():
        if file.suffix in (".c", ".csv", ".txt", ".json"):
            run(capsys, "inspect", str(file))


def test_an_image_of_it_is_built_and_runs(capsys: Capture) -> None:
    for module in ("ziglang", "unicorn", "elftools"):
        pytest.importorskip(module)
    run(capsys, "compile", FILE, "--relocatable", "-o", "net")
    image = ("--cpu", "cortex-m33", "-o", "build", "-n", f'../n\n{FORGED}*/"', "--gen-c-file")
    run(capsys, "package", "net", *image, "--log", "package.log", "-v", "2")
    check_files("build")
    assert_harmless(Path("package.log").read_text(encoding="utf-8"))
    (made,) = Path("build").glob("*_rel.bin")
    run(capsys, "inspect", str(made))
    run(capsys, "run", str(made))


def test_findings_as_files(capsys: Capture) -> None:
    run(capsys, "explain", FILE, "--sarif", "f.sarif", "--junit", "f.xml")
    assert_harmless(Path("f.xml").read_text(encoding="utf-8"))
    assert json.loads(Path("f.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]


def test_a_description_of_a_build(capsys: Capture) -> None:
    """c_info.json alone: JSON keeps names as they are, so its reader meets them."""
    run(capsys, "compile", FILE, "-o", "net")
    text = Path("net/c_info.json").read_text()
    assert "\\u001b[2J" in text and f"\\n{FORGED}" in text
    Path("c_info.json").write_text(text.replace("octoFlash", f"octo\\u001b\\n{FORGED}Flash"))
    for verb in ("inspect", "estimate", "explain", "profile", "checklist"):
        run(capsys, verb, "c_info.json")


def test_pools(capsys: Capture) -> None:
    run(capsys, "compile", FILE, "-o", "net")
    (file,) = Path("net").glob("*.mpool")
    bad = json.dumps(f'npu\x1b[2J\n{FORGED}\u202e"RAM,5')[1:-1]
    Path("x.mpool").write_text(file.read_text().replace("npuRAM5", bad))
    for verb in ("estimate", "profile"):
        run(capsys, verb, FILE, "--mpool", "x.mpool")
    run(capsys, "compile", FILE, "--mpool", "x.mpool", "-o", "other")
    check_files("other")
    for verb in ("estimate", "explain", "checklist", "inspect"):
        run(capsys, verb, "other")


@contextmanager
def served(*words: str) -> Iterator[str]:
    command = [*child.command(), "-c", START, "board", "serve", *words, "--tcp", "0", "--json"]
    with started(command, env=child.environment(), stdout=subprocess.PIPE, text=True) as board:
        assert board.stdout is not None
        yield json.loads(board.stdout.readline())["address"]


def test_a_board(capsys: Capture) -> None:
    with served(FILE) as address:
        for words in ((), ("--full",), ("--vendor-figures", "--csv", "b.csv", "--log", "b.log")):
            run(capsys, "profile", "--connect", address, *words)
        run(capsys, "profile", "--connect", address, "--name", FILE, code=4)
    for name in ("b.csv", "b.log"):
        assert_harmless(Path(name).read_text(encoding="utf-8"), name)


def test_the_many_core_machine(capsys: Capture) -> None:
    Path("m.onnx").write_bytes(hostile_onnx(nets.convolutions()))
    Path("stats").mkdir()
    flags = ("-stats-level=70", "-aic-perf-metrics", "-aic-perf-warnings")
    run(capsys, "manycore", "compile", "-model=m.onnx", "-aic-binary-dir=out", *flags)
    kind = "--aic-profiling-type=raw_device_stats"
    run(capsys, "manycore", "run", "--test-data=out", kind, "--aic-profiling-out-dir=stats")
    run(capsys, "inspect", "out/programqpc.bin")
    words = ("--qpc", "out/programqpc.bin", "--input-dir", "stats", "--output-dir", "told")
    run(capsys, "opstats", *words, "--summary", "--trace", "--perfetto")
    check_files("told")
    assert all(re.fullmatch(r"[\w.-]+", path.name) for path in Path("told").iterdir())


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_files_that_are_not_there(name: str, capsys: Capture) -> None:
    for verb in ("estimate", "inspect", "checklist", "opstats"):
        assert cli.main([verb, f"./none{name}"]) in (2, 3), verb
        shown = capsys.readouterr()
        assert_harmless(shown.out + shown.err, verb)
