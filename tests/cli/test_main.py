from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import npuscope
from models import mobilenet_like, save, to_tflite
from npuscope.cli.main import VERBS, console, main
from npuscope.cli.output import working
from npuscope.errors import DeviceError, FileError, InternalError, ModelError, TargetError
from npuscope.progress import LOGGER, kept_at_interrupt, progress
from processes import LIMIT_S
from sample_profile import sample_profile

PYTHON = [sys.executable, "-c"]


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(npuscope.__file__).parents[1])}
    return subprocess.run(
        [*PYTHON, code], capture_output=True, text=True, check=False, env=env, timeout=LIMIT_S
    )


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Makes `estimate` raise what the test wants."""

    def install(error: BaseException) -> None:
        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("npuscope.verbs.estimate.screen", fail)

    return install


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["estimate", "--help"]])
def test_help_and_version_do_not_load_the_heavy_parts(words: list[str]) -> None:
    done = run_python(
        "import sys\nfrom npuscope.cli.main import main\n"
        f"code = main({words!r})\n"
        "heavy = {'numpy', 'onnx', 'rich', 'tflite', 'orjson'} & set(sys.modules)\n"
        "assert not heavy, heavy\nsys.exit(code)"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_importing_the_package_is_free() -> None:
    done = run_python("import sys, npuscope; assert 'numpy' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"npuscope {npuscope.__version__}\n"


@pytest.mark.parametrize("words", [["--help"], ["--help", "estimate"]])
def test_help_names_every_verb(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    text = capsys.readouterr().out
    assert all(f"    {verb}" in text for verb in VERBS)


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (FileError("truncated", where="a.tflite", hint="copy it again"), 3, "file"),
        (ModelError("dynamic shape"), 3, "model"),
        (TargetError("no such pool"), 3, "target"),
        (DeviceError("no answer"), 4, "device"),
        (FileNotFoundError(2, "No such file or directory", "x"), 3, "file"),
        (InternalError("an invariant does not hold"), 70, "internal"),
        (KeyError("oops"), 70, "internal"),
    ],
)
def test_errors(failing, capsys, error: BaseException, code: int, kind: str) -> None:  # type: ignore[no-untyped-def]
    failing(error)
    assert main(["estimate", "a.tflite"]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("npuscope: ")
    assert "Traceback" not in shown.err

    assert main(["estimate", "a.tflite", "--json"]) == code
    result = json.loads(capsys.readouterr().out)
    assert set(result) == {"error"}
    assert set(result["error"]) == {"kind", "message", "where", "hint"}
    assert result["error"]["kind"] == kind


def test_an_error_is_one_sentence_with_place_and_hint(failing, capsys) -> None:  # type: ignore[no-untyped-def]
    failing(FileError("truncated", where="a.tflite", hint="copy it again"))
    main(["estimate", "a.tflite"])
    assert capsys.readouterr().err == ("npuscope: a.tflite: truncated\n  hint: copy it again\n")


def test_a_bug_shows_its_traceback_only_on_request(failing, capsys) -> None:  # type: ignore[no-untyped-def]
    failing(KeyError("oops"))
    assert main(["estimate", "a.tflite"]) == 70
    text = capsys.readouterr().err
    assert "this is a bug in npuscope: KeyError: 'oops'" in text
    assert "--verbose" in text
    assert main(["estimate", "a.tflite", "--verbose"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_interrupt(failing, capsys) -> None:  # type: ignore[no-untyped-def]
    failing(KeyboardInterrupt())
    assert main(["estimate", "a.tflite"]) == 130
    assert capsys.readouterr().err == "npuscope: interrupted\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["estimat"], "unknown verb 'estimat'\n  hint: did you mean estimate?"),
        (["estimate"], "the following arguments are required: SOURCE\n"),
        (["estimate", "a", "--bogus"], "unrecognized arguments: --bogus"),
        (["estimate", "a", "--npu-mhz", "fast"], "argument --npu-mhz: invalid float value"),
        (["estimate", "a", "--input-data-type", "int5"], "invalid choice: 'int5'"),
        (["estimate", "a", "--set", "x"], "--set: expected KEY=VALUE, found 'x'"),
        (["estimate", "a", "--shape", "x=1,b"], "--shape: expected NAME=1,224,224,3"),
        (["estimate", "a", "--shape", "x=1,0"], "--shape: a size of 0 in 'x=1,0'"),
        (["profile", "a", "--batch", "0"], "--batch: expected at least 1 inference, found 0"),
        (["profile", "a", "--epochs", "3-"], "--epochs: expected numbers such as 3,7-12"),
        (["profile", "a", "--connect", "usb"], "--connect: unknown device: 'usb'"),
        (["validate", "a", "--seeds", "0"], "--seeds: expected at least 1 seed, found 0"),
        (["estimate", "a", "--set", "npu.clock=3"], "the machine has no key 'npu.clock'"),
        (["estimate", "a", "--machine", "n7"], "--machine: unknown machine 'n7'"),
        (["estimate", "a", "--generation", "5"], "--generation: unknown generation '5'"),
    ],
)
def test_wrong_usage(capsys, words: list[str], message: str) -> None:  # type: ignore[no-untyped-def]
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert main([*words, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "usage"


def test_no_verb_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "VERB" in shown.err


def test_a_reader_that_leaves_is_no_error() -> None:
    code = (
        "import os, sys\nfrom npuscope.cli.main import main\n"
        "read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
        "sys.exit(main(['machines']))"
    )
    done = run_python(code)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_missing_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", str(tmp_path / "none.tflite")]) == 3
    assert "no such file" in capsys.readouterr().err


def test_the_api_is_reachable_from_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "npuscope.verbs.profile.profile", lambda source, **_: (source, sample_profile())
    )
    assert npuscope.load_machine().name == "stm32n6"
    assert npuscope.profile("a.tflite")[0] == "a.tflite"  # type: ignore[operator]
    assert all(getattr(npuscope, name) is not None for name in npuscope.__all__)
    with pytest.raises(AttributeError):
        npuscope.nothing  # noqa: B018


# --- What long work is doing ---


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def asked(**flags: object) -> argparse.Namespace:
    return argparse.Namespace(**{"quiet": False, "json": None, "verbose": False, **flags})


def shown_by(monkeypatch: pytest.MonkeyPatch, args: argparse.Namespace, stream: io.StringIO) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with working(args, "fixing"):
        progress("step 1 [bold]of[/bold] %s\x1b[2J", "x" * 300)
    return stream.getvalue()


def test_a_terminal_shows_the_last_line_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown_by(monkeypatch, asked(), Screen())
    assert "fixing: step 1 [bold]of[/bold] xxx" in text
    assert "…" in text and "x" * 80 not in text
    assert "\x1b[2J" not in text
    assert LOGGER.handlers == []


@pytest.mark.parametrize(
    ("args", "stream"),
    [(asked(quiet=True), Screen()), (asked(json="-"), Screen()), (asked(), io.StringIO())],
    ids=["quiet", "json", "no terminal"],
)
def test_elsewhere_progress_is_silent(
    monkeypatch: pytest.MonkeyPatch, args: argparse.Namespace, stream: io.StringIO
) -> None:
    assert shown_by(monkeypatch, args, stream) == ""


def test_verbose_logs_progress(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    assert main(["fix", str(model), "-v", "--seeds", "1"]) == 0
    assert "npuscope: reading and compiling net.tflite\n" in capsys.readouterr().err


def test_work_that_goes_on_says_so_when_interrupted(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KeyboardInterrupt), kept_at_interrupt("finished runs are in s.jsonl"):
        raise KeyboardInterrupt
    (record,) = caplog.records
    assert (
        record.getMessage() == "finished runs are in s.jsonl: the same command continues from there"
    )


# --- Shell comfort ---


def test_help_of_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", "--help"]) == 0
    expected = capsys.readouterr().out
    assert main(["help", "fix"]) == 0
    assert capsys.readouterr().out == expected
    assert main(["help"]) == 0
    assert "`npuscope help VERB`" in capsys.readouterr().out
    assert main(["help", "fixx"]) == 2
    assert "did you mean fix" in capsys.readouterr().err


def test_the_package_is_a_command() -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(npuscope.__file__).parents[1])}
    command = [sys.executable, "-m", "npuscope", "--version"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=env, timeout=LIMIT_S
    )
    assert done.stdout.strip() == f"npuscope {npuscope.__version__}"


def test_verbose_says_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    assert main(["estimate", str(model)]) == 0
    short = capsys.readouterr()
    assert main(["estimate", str(model), "-v"]) == 0
    long = capsys.readouterr()
    assert short.err == ""
    assert "npuscope: read net.tflite: " in long.err
    assert "npuscope: compiled for stm32n6, generation 4.0: 11 epochs in " in long.err
    assert "; the slowest:" in short.out and "; all, the slowest first:" in long.out
    assert len(long.out.splitlines()) == len(short.out.splitlines()) + 3  # eleven epochs, not eight


@pytest.mark.parametrize(("verb", "threads"), [("estimate", "1"), ("fix", None), ("none", None)])
def test_numpy_starts_no_threads_for_verbs_that_run_no_network(
    verb: str, threads: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")  # so that the end of the test puts it back
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    monkeypatch.setattr(sys, "argv", ["npuscope", verb, "net.tflite"])
    monkeypatch.setattr("npuscope.cli.main.main", lambda argv: 0)
    with kept_collector(), pytest.raises(SystemExit):
        console()
    assert os.environ.get("OPENBLAS_NUM_THREADS") == threads


@contextlib.contextmanager
def kept_collector() -> Iterator[None]:
    """`console` owns its process: it sets the collector for good."""
    before = gc.get_threshold()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def test_a_source_without_its_c_info_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    assert main(["compile", str(model), "-o", str(tmp_path / "net"), "-q"]) == 0
    source, note = tmp_path / "net" / "network.c", "no c_info.json next to network.c"
    assert main(["profile", "-c", str(source)]) == 0
    assert note not in capsys.readouterr().out
    (tmp_path / "net" / "c_info.json").unlink()
    assert main(["profile", "-c", str(source)]) == 0
    assert note in capsys.readouterr().out
