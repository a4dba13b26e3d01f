"""Faults that leave the same bytes: a confident answer names all of them, or asks for a look."""

from __future__ import annotations

import sys
import zlib
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from models import conv_net, dense_net, to_tflite
from npuscope.building import build
from npuscope.diagnosis.causes.lines import LINE_BYTES, tail_start
from npuscope.diagnosis.result import TriageVerdict
from npuscope.sim.memory import from_stored, to_stored
from triage_cases import board_output, causes, picture, run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("alike") / "net.tflite"
    path.write_bytes(to_tflite(conv_net()))
    return path


@pytest.fixture(scope="module")
def off_line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network whose output begins in the middle of a cache line."""
    path = tmp_path_factory.mktemp("off") / "net.tflite"
    path.write_bytes(to_tflite(conv_net(size=10, out=8)))
    program = build(path, {}).program
    buffer = program.buffer_map()[program.outputs[0]]
    assert (program.pool(buffer.pool).address + buffer.offset) % LINE_BYTES == LINE_BYTES // 2
    return path


def cut(model: Path, frame: np.ndarray, old: np.ndarray, lines: int) -> np.ndarray:
    """A frame whose last cache lines are old."""
    program = build(model, {}).program
    buffer = program.buffer_map()[program.inputs[0]]
    stored, other = to_stored(buffer, frame).copy(), to_stored(buffer, old)
    base = program.pool(buffer.pool).address + buffer.offset
    start = tail_start(base, stored.nbytes, lines)
    stored.view(np.uint8)[start:] = other.view(np.uint8)[start:]
    return from_stored(buffer, stored)


def crc(model: Path, frame: np.ndarray) -> str:
    program = build(model, {}).program
    stored = to_stored(program.buffer_map()[program.inputs[0]], frame)
    return f"{zlib.crc32(np.ascontiguousarray(stored).tobytes()):08x}"


def test_zeros_at_the_end_of_an_input_do_not_tell_who_wrote_them(
    model: Path, tmp_path: Path
) -> None:
    frame = picture(model, 0)
    seen = cut(model, frame, np.zeros_like(frame), lines=4)
    output = board_output(model, seen)
    first = run(model, tmp_path, frame, output)
    assert first.verdict is TriageVerdict.REPRODUCED
    assert {"input-stale-cache", "input-part"} <= causes(first)
    assert not first.single
    assert first.next_looks[0].id == "input"
    by_cache = run(model, tmp_path, frame, output, seen=[f"input={crc(model, frame)}"])
    assert causes(by_cache) == {"input-stale-cache"}
    by_program = run(model, tmp_path, frame, output, seen=[f"input={crc(model, seen)}"])
    assert causes(by_program) == {"input-part"}


def test_a_cut_between_rows_is_a_torn_frame_not_a_short_copy(model: Path, tmp_path: Path) -> None:
    frame, before = picture(model, 0), picture(model, 1)
    np.save(tmp_path / "before.npy", before)
    torn, short = frame.copy(), cut(model, frame, before, lines=1)
    torn[:, frame.shape[1] // 2 :] = before[:, frame.shape[1] // 2 :]
    answers = [
        run(
            model,
            tmp_path,
            frame,
            board_output(model, values),
            previous=[tmp_path / "before.npy"],
            seen=[f"input={crc(model, values)}"],
        )
        for values in (torn, short)
    ]
    # In the middle of a row nothing tells a short copy from a torn frame: both are named.
    assert [causes(answer) for answer in answers] == [
        {"input-torn"},
        {"input-part", "input-torn-inside"},
    ]


def test_an_input_that_is_old_as_a_whole_is_no_part(tmp_path: Path) -> None:
    """Of a vector there are no rows; the frame before is late, not cut."""
    path = tmp_path / "vector.tflite"
    path.write_bytes(to_tflite(dense_net(64, (32, 32))))
    frame, before = picture(path, 0), picture(path, 1)
    np.save(tmp_path / "before.npy", before)
    output, crcs = board_output(path, before), [f"input={crc(path, before)}"]
    answer = run(path, tmp_path, frame, output, previous=[tmp_path / "before.npy"], seen=crcs)
    assert causes(answer) == {"input-late"}


@pytest.mark.parametrize(("start", "end"), [(0, 16), (48, 80), (784, 800)])
def test_lines_over_the_result_are_by_address(
    off_line: Path, tmp_path: Path, start: int, end: int
) -> None:
    frame = picture(off_line, 0)
    output = board_output(off_line, frame).reshape(-1).copy()
    output.view(np.uint8)[start:end] = 0xFF
    assert "output-overwritten" in causes(run(off_line, tmp_path, frame, output))
    output.view(np.uint8)[start:end] = np.arange(end - start) + 77
    answer = run(off_line, tmp_path, frame, output)
    assert answer.signs == (f"only bytes {start} to {end - 1} are wrong",)


def test_the_judge_has_lines_by_address(off_line: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from triage import Bench
    from triage_kinds import KINDS

    kind = next(one for one in KINDS if one.causes == ("output-stale-cache",))
    bench = Bench("off", off_line, 0)
    rows = [bench.judge(kind, level, seed) for level, seed in product(range(2), range(3))]
    sys.modules.pop("triage", None)
    assert [row.visible and row.right for row in rows] == [True] * 6
