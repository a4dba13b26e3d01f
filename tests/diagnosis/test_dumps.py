"""Dumps in the forms in which people have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npuscope
from models import conv_net, to_tflite
from npuscope.building import build
from npuscope.diagnosis.readers import parse_text, read_dump
from npuscope.diagnosis.result import Triage, TriageVerdict
from npuscope.errors import FileError
from triage_cases import board_output, picture


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("const int8_t out[] = {1, -2, 0x80, 200};", [1, -2, 128, 200]),
        ("01 fe 80 c8", [1, 254, 128, 200]),
        ("00000000: 01fe 80c8  ....", [1, 254, 128, 200]),
        ("0x34200000:\t0x01\t0xfe\t0x80", [1, 254, 128]),
        ("1.5, -0.25", [1.5, -0.25]),
        ("0x01020304 0xFFFEFDFC", [4, 3, 2, 1, 0xFC, 0xFD, 0xFE, 0xFF]),
        ("0x34200000:\t0x80fe01c8", [0xC8, 1, 0xFE, 0x80]),
        ("$1 = {7 '\\a', -1 '\\377' <repeats 3 times>, 5}", [7, -1, -1, -1, 5]),
        ("array([[1, 2],\n       [3, 4]], dtype=int8)", [1, 2, 3, 4]),
    ],
)
def test_dumps_as_text(text: str, values: list[float]) -> None:
    assert parse_text(text, "x").values.tolist() == values


def test_gaps_of_a_hex_dump_are_not_compared() -> None:
    dump = parse_text("01 ?? 80", "x")
    assert dump.mask is not None
    assert dump.mask.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("# c_outputs_1\n1,-2,3\n", [[1, -2, 3]]),
        ("index,value\n0,5\n1,6\n2,9\n", [5, 6, 9]),
        ("0,5\n1,6\n2,9\n", [5, 6, 9]),
        ("0,5\n1,6\n", [[0, 5], [1, 6]]),
        ("output (int8)\n5\n-6\n", [[5], [-6]]),
        ("0.25 V\n-1.5 V\n", [[0.25], [-1.5]]),
        ("0,25;-1,5\n", [[0.25, -1.5]]),
        ("0,25\t-1,5\n", [[0.25, -1.5]]),
    ],
)
def test_tables(text: str, values: list[object], tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text(text, encoding="utf-8")
    assert read_dump(path).values.tolist() == values


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("out.csv", "1,2\n3,x\n", "'x' is no number"),
        ("out.csv", "1,2\n3\n", "has rows of different lengths"),
        ("out.txt", "array([1, 2, ..., 4])", "has values left out"),
        ("out.txt", "{1 <repeats 999999999 times>}", "repeats a value too often"),
        ("out.txt", ":020000043420A6\n:0100000005FA\n:0100100005EA\n:00000001FF\n", "2 pieces"),
    ],
)
def test_what_cannot_be_read_is_said(name: str, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=message):
        read_dump(path)


def test_intel_hex_is_bytes(tmp_path: Path) -> None:
    path = tmp_path / "out.hex"
    path.write_text(":020000043420A6\n:0300000001FE807E\n:00000001FF\n", encoding="utf-8")
    assert read_dump(path).values.tolist() == [1, 0xFE, 0x80]


def test_a_redirected_console_may_be_utf_16(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_bytes("1, -2, 3".encode("utf-16"))
    assert read_dump(path).values.tolist() == [1, -2, 3]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dumps") / "net.tflite"
    path.write_bytes(to_tflite(conv_net()))
    return path


def answer(model: Path, folder: Path, frame: np.ndarray, output: np.ndarray) -> Triage:
    np.save(folder / "in.npy", frame)
    np.save(folder / "out.npy", output)
    return npuscope.triage(
        model, inputs=[folder / "in.npy"], outputs=[folder / "out.npy"], generation="4.0"
    )


def decoded(model: Path, values: np.ndarray) -> np.ndarray:
    program = build(model, {}).program
    quant = program.buffer_map()[program.outputs[0]].quant
    assert quant is not None
    return (values.astype(np.float64) - quant.zero_point) * quant.scale


def test_rounded_numbers_are_those_that_were_rounded(model: Path, tmp_path: Path) -> None:
    """Half floats and few digits are no difference; a step is."""
    frame = picture(model, 0)
    real = decoded(model, board_output(model, frame))
    assert answer(model, tmp_path, frame, real.astype(np.float16)).verdict is TriageVerdict.NO_FAULT
    off = real.copy()
    off.reshape(-1)[5] += np.ptp(real) / 200
    assert answer(model, tmp_path, frame, off.astype(np.float16)).differing == 1
    path = tmp_path / "few.csv"
    path.write_text(",".join(f"{v:.3f}" for v in real.reshape(-1)), encoding="utf-8")
    assert read_dump(path).resolution == 0.0005


def test_stored_values_may_be_kept_as_floats(model: Path, tmp_path: Path) -> None:
    """They are beyond what a decoded value can be."""
    frame = picture(model, 0)
    stored = board_output(model, frame)
    assert (
        answer(model, tmp_path, frame, stored.astype(np.float32)).verdict is TriageVerdict.NO_FAULT
    )
