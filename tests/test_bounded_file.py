"""The one reader of files: what it refuses, in which words, and that nobody reads past it."""

from __future__ import annotations

import ast
import io
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from models import conv_net, save, to_tflite
from npuscope.bounded_file import (
    MACHINE,
    MOST_DEPTH,
    FileKind,
    parse_json,
    parse_toml,
    read_array,
    read_bytes,
    read_head,
    read_text,
    read_toml,
)
from npuscope.cli.main import main
from npuscope.errors import FileError

SOURCE = Path(__file__).parents[1] / "src" / "npuscope"
NOTE = FileKind("a note", 10)
# Files that are opened for reading elsewhere, each with its reason.
EXCEPTIONS = {
    "bounded_file.py": "the reader itself",
    "report/html/page.py": "a part of this package, through importlib",
    "profiling/outside.py": "a file that our own child process wrote a moment ago",
    "profiling/runtimes.py": "a file that our own parent process wrote a moment ago",
    "boards/emulated/firmware.py": "our own C sources and what the compiler made of them",
    "boards/link.py": "a serial line, which is no regular file",
    "work_folder.py": "locks and folders, which are held and not read",
    "advice/sweep/journal.py": "opened for writing and for locks; rows come through the reader",
    "cli/main.py": "the null device, to be written",
    "profiling/measure.py": "LogDevice.open, which is no file and reads through the reader",
    "advice/fix/run.py": "Workbench.open, which is no file",
    "live/family_library.py": "Workbench.open, which is no file",
    "verbs/serve.py": "webbrowser.open, which is no file",
    "profiling/ranges.py": "a part of this package, through importlib",
    "loadable/boards.py": "a part of this package, through importlib",
    "families/ethos_u/vela.py": "files that Vela wrote a moment ago",
    "quantizing/float_onnx.py": "a file that onnxruntime wrote a moment ago",
    "quantizing/qdq.py": "a file that onnxruntime wrote a moment ago",
    "accuracy/pictures.py": "pictures, whose bytes come through the reader",
    "accuracy/dataset.py": "a .npz, whose size is checked first, and sounds that the reader read",
    "advice/tune/variants.py": "Workbench.open, which is no file",
}
_READS = ("read_text", "read_bytes", "open", "load", "fromfile", "memmap", "genfromtxt", "loadtxt")
_MODULES = ("np", "numpy", "json", "tomllib", "pickle", "onnx")


def message(path: Path, kind: FileKind = NOTE) -> str:
    with pytest.raises(FileError) as caught:
        read_bytes(path, kind)
    assert caught.value.where == str(path)
    return caught.value.message


def sparse(path: Path, size_bytes: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size_bytes)
    return path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_named_pipe_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert message(tmp_path / "pipe") == "is not a regular file"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device")
def test_a_device_is_no_regular_file() -> None:
    assert message(Path("/dev/zero")) == "is not a regular file"


def test_what_is_no_file(tmp_path: Path) -> None:
    assert message(tmp_path) == "cannot be read: Is a directory"
    assert message(tmp_path / "none") == "cannot be read: No such file or directory"
    assert message(Path("a\0b")) == "this is not a path"


def test_a_size_beyond_the_kind(tmp_path: Path) -> None:
    path = sparse(tmp_path / "large", 8 << 30)
    assert message(path) == "has 8,589,934,592 bytes, but a note has at most 10"
    assert read_head(path, 4) == bytes(4)
    assert read_bytes(sparse(tmp_path / "fits", 10), NOTE) == bytes(10)
    assert message(sparse(tmp_path / "one_more", 11)) == "has 11 bytes, but a note has at most 10"


def test_a_file_that_says_nothing_of_its_size() -> None:
    path = Path("/proc/self/status")
    if not path.is_file():
        pytest.skip("there is no /proc")
    assert b"Pid:" in read_bytes(path, FileKind("a status", 1 << 20))
    assert message(path).endswith("a note has at most 10")


def test_text_in_its_encoding(tmp_path: Path) -> None:
    path = save(tmp_path, "a.txt", b"\xef\xbb\xbfa\r\nb")
    assert read_text(path, NOTE, encoding="utf-8-sig") == "a\nb"
    path.write_bytes(b"ab\xff")
    with pytest.raises(FileError, match="is not text: byte 2"):
        read_text(path, NOTE)
    assert read_text(path, NOTE, errors="replace") == "ab\ufffd"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 3000, "nested too deeply"),
        ("[" * (MOST_DEPTH + 2) + "]" * (MOST_DEPTH + 2), "nested too deeply"),
        ("9" * 4400, "a number has too many digits"),
        ("9" * 400, "a number has too many digits"),
    ],
)
def test_values_beyond_all_measure(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        parse_json(text)
    with pytest.raises(ValueError, match=f"^{reason}$"):
        parse_toml(f"a = {text}")
    path = save(tmp_path, "a.toml", f"a = {text}".encode())
    with pytest.raises(FileError) as caught:
        read_toml(path, MACHINE)
    assert caught.value.message == f"is not valid TOML: {reason}"


def test_values_within_measure() -> None:
    deep = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert parse_json(deep) == parse_toml(f"a = {deep}")["a"]
    assert parse_json(str(2**128 - 1)) == 2**128 - 1


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00\x76\x00" + text.ljust(117).encode() + b"\n"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "is not a .npy array: "),
        (b"PK\x03\x04", "holds several arrays, expected a single .npy"),
        (header("{((("), "is not a .npy array: "),
        (
            header("{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,)}"),
            "is not a .npy array: ",
        ),
        (header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"), "is not a .npy array: "),
    ],
)
def test_arrays_that_are_none(tmp_path: Path, data: bytes, text: str) -> None:
    with pytest.raises(FileError) as caught:
        read_array(save(tmp_path, "a.npy", data))
    assert caught.value.message.startswith(text)
    assert "\n" not in caught.value.message


def test_an_array(tmp_path: Path) -> None:
    made = io.BytesIO()
    np.save(made, np.arange(6).reshape(2, 3))
    found = read_array(save(tmp_path, "a.npy", made.getvalue()))
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_an_array_of_python_2_is_read_without_a_warning(tmp_path: Path) -> None:
    made = io.BytesIO()
    np.save(made, np.arange(6, dtype=np.int8))
    old = made.getvalue().replace(b"(6,), }  ", b"(6L,), } ")
    assert old != made.getvalue()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_array(save(tmp_path, "a.npy", old)).tolist() == [0, 1, 2, 3, 4, 5]


VERBS = {
    "mpool": "estimate MODEL --mpool FILE",
    "machine": "estimate MODEL --machine-file FILE",
    "profile": "estimate MODEL --art-profile x@FILE",
    "asm": "asm FILE -o OUT",
    "disasm": "disasm FILE",
    "sweep": "sweep FILE",
    "store": "sweep report FILE",
    "inputs": "validate MODEL --inputs FILE",
    "log": "profile --connect log:FILE",
    "inspect": "inspect FILE",
    "run": "run FILE",
    "manycore": "manycore run -t FILE",
    "model": "estimate FILE",
}


@pytest.mark.parametrize("kind", ["pipe", "large", "/dev/zero"])
@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
def test_every_verb_refuses_devices_pipes_and_giants(
    words: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save(tmp_path, "m.tflite", to_tflite(conv_net()))
    path = tmp_path / kind
    if kind == "pipe":
        if not hasattr(os, "mkfifo"):
            pytest.skip("no named pipes")
        os.mkfifo(path)
    elif kind == "large":
        sparse(path, 8 << 30)
    places = {"MODEL": str(model), "FILE": str(path), "OUT": str(tmp_path / "out")}
    for name, place in places.items():
        words = words.replace(name, place)
    assert main(words.split()) == 3
    told = capsys.readouterr().err
    wanted = ": has 8,589,934,592 bytes, " if kind == "large" else "not a regular file"
    assert f"{path}: " in told and wanted in told


def opening_calls(path: Path) -> Iterator[ast.Call]:
    """Calls that open a file to read it: open(), x.read_text(), np.load() and their like."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and _reads(node.func) and not _writes(node):
            yield node


def _reads(func: ast.expr) -> bool:
    if isinstance(func, ast.Name):
        return func.id == "open"
    if not isinstance(func, ast.Attribute) or func.attr not in (*_READS, "loads"):
        return False
    owner = func.value.id if isinstance(func.value, ast.Name) else ""
    if func.attr == "loads":
        return owner == "tomllib"
    return func.attr in ("read_text", "read_bytes", "open") or owner in _MODULES


def _writes(call: ast.Call) -> bool:
    modes = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return any(mode in ("w", "wb", "a", "ab", "x", "xb") for mode in modes)


def test_nobody_else_opens_files_to_read_them() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(opening_calls(path))
    }
    assert found - set(EXCEPTIONS) == set()
    assert set(EXCEPTIONS) - found == set(), "an exception that is none any more"


def test_the_check_sees_what_it_looks_for(tmp_path: Path) -> None:
    calls = ("open(p)", "p.read_text()", "p.open('rb')", "np.load(p)", "tomllib.loads(t)")
    for text in calls:
        assert len(list(opening_calls(save(tmp_path, "a.py", text.encode())))) == 1, text
    for text in ("open(p, 'wb')", "row.read_bytes", "read_bytes(p, KIND)", "orjson.loads(t)"):
        assert not list(opening_calls(save(tmp_path, "a.py", text.encode()))), text


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"\x20\0\0\0TFL3" + bytes(16), "a TFLite model"), (b"\x08\x07\x12\xff\xfe", "a binary file")],
)
def test_a_binary_file_is_not_taken_for_another_encoding_of_json(data: bytes, kind: str) -> None:
    with pytest.raises(ValueError, match=f"this is {kind}"):
        parse_json(data)
