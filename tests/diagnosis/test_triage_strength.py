"""How much a reproduction proves, and what is said where nothing reproduces the evidence."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import npuscope
from models import conv_net, dense_net, to_tflite
from npuscope.building import build
from npuscope.diagnosis.case import TriageRequest, open_case
from npuscope.diagnosis.causes.lines import head_end, line_count, tail_start
from npuscope.diagnosis.causes.registry import all_causes
from npuscope.diagnosis.evidence import Likeness
from npuscope.diagnosis.fault import RIGHT
from npuscope.diagnosis.result import MOST_CHANCE, TriageVerdict
from npuscope.diagnosis.search import Search
from npuscope.diagnosis.signs import _offset, _right_start
from npuscope.diagnosis.trial import FaultTrial, paired
from npuscope.program.model import images
from npuscope.report.triage import triage_text
from npuscope.structs import replace
from triage_cases import board_output, causes, picture, run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("strength") / "net.tflite"
    path.write_bytes(to_tflite(conv_net()))
    return path


def torn(model: Path, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A frame, the one before, and the output of both parted at a row."""
    frame, before = picture(model, 0), picture(model, 1)
    mixed = frame.copy()
    mixed[:, row:] = before[:, row:]
    return frame, before, board_output(model, mixed)


def test_a_few_values_with_a_searched_parameter_may_be_by_chance(
    model: Path, tmp_path: Path
) -> None:
    """All but three changed values are right again: some torn row would give any three."""
    frame, before, output = torn(model, picture(model, 0).shape[1] // 2)
    np.save(tmp_path / "before.npy", before)
    whole = run(model, tmp_path, frame, output, previous=[tmp_path / "before.npy"])
    assert whole.verdict is TriageVerdict.REPRODUCED
    assert "input-torn" in causes(whole)
    assert whole.classes[0].suspects[0].chance <= MOST_CHANCE
    right = board_output(model, frame).reshape(-1)
    places = np.flatnonzero(output.reshape(-1) != right)[:3]
    keep = np.ones(right.size, bool)
    keep[np.setdiff1d(np.flatnonzero(output.reshape(-1) != right), places)] = False
    text = " ".join(
        f"{value & 0xFF:02x}" if kept else "??"
        for value, kept in zip(output.reshape(-1).tolist(), keep, strict=True)
    )
    (tmp_path / "out.txt").write_text(text)
    few = npuscope.triage(
        model,
        inputs=[tmp_path / "in.npy"],
        outputs=[tmp_path / "out.txt"],
        previous=[tmp_path / "before.npy"],
        generation="4.0",
    )
    assert few.verdict is TriageVerdict.PERHAPS
    assert not few.single
    assert "input-torn" in causes(few)
    assert few.answer.startswith("may be by chance: ")
    assert few.next_looks
    assert few.classes[0].suspects[0].touched == 3


def test_a_wrong_checksum_that_nothing_explains_comes_first(model: Path, tmp_path: Path) -> None:
    frame, program = picture(model, 0), build(model, {}).program
    random = np.random.default_rng(5)
    noise = {
        name: random.integers(0, 256, data.nbytes).astype(np.uint8)
        for name, data in program.constants.items()
    }
    ((pool, image),) = images(program).items()
    output = board_output(model, frame, constants=noise)
    result = run(model, tmp_path, frame, output, seen=[f"weights:{pool}=deadbeef"])
    right = f"{zlib.crc32(image):08x}"
    assert result.verdict is TriageVerdict.POINTS
    assert result.answer.startswith(
        f"the weights in memory are not those of this build ({pool}: CRC deadbeef, not {right})"
    )
    assert result.next_looks[0].id == "weights-dump"


def test_values_that_no_cause_gives_name_none_and_a_look(model: Path, tmp_path: Path) -> None:
    """Most values are right, a few are noise: a cause that leaves the right ones is no hint."""
    frame = picture(model, 0)
    output = board_output(model, frame).reshape(-1).copy()
    random = np.random.default_rng(6)
    places = random.choice(output.size, max(12, output.size // 8), replace=False)
    output[places] ^= random.integers(1, 128, places.size).astype(np.int8)
    result = run(model, tmp_path, frame, output)
    assert result.nearest == ()
    assert "nearest" not in result.answer
    assert [look.id.partition(":")[0] for look in result.next_looks][:1] == ["weights"]
    assert "shows whether" in triage_text(result)


def test_a_hint_sets_half_of_the_differing_values_right(model: Path, tmp_path: Path) -> None:
    frame = picture(model, 0)
    right = board_output(model, frame).reshape(-1)
    output = board_output(model, np.ascontiguousarray(frame[..., ::-1])).reshape(-1).copy()
    places = np.random.default_rng(7).choice(np.flatnonzero(output != right), 3, replace=False)
    output[places] ^= 0x55
    result = run(model, tmp_path, frame, output)
    assert result.verdict is TriageVerdict.POINTS
    assert result.nearest[0].id == "input-bgr"
    differing = int((output != right).sum())
    assert f"3 instead of {differing}" in result.nearest[0].proof
    assert "exactly" not in result.nearest[0].proof
    assert differing >= 2 * 3


def test_what_values_show_by_themselves() -> None:
    right = np.array([-120, -5, 0, 3, 9, 40, 77, 90, 110, 125], np.int8)
    assert _offset(right, np.clip(right.astype(int) + 5, -128, 127).astype(np.int8)) == 5
    assert _offset(right, right) is None
    assert _offset(right, right[::-1].copy()) is None
    assert _offset(right[:6], right[:6] + np.int8(2)) is None  # too few
    values = np.arange(120, dtype=np.uint8)
    assert _right_start(values, np.where(values < 50, values, ~values)) == 50
    assert _right_start(values, np.where(values == 50, 0, values)) is None
    assert _right_start(values, ~values) is None


@pytest.mark.parametrize("count", [1, 5, 31])
def test_a_part_of_a_cache_line_may_be_old(model: Path, tmp_path: Path, count: int) -> None:
    frame, before = picture(model, 0), picture(model, 1)
    np.save(tmp_path / "before.npy", before)
    output, old = (board_output(model, values).reshape(-1).copy() for values in (frame, before))
    count = min(count, output.size - 1)
    output[-count:] = old[-count:]
    result = run(model, tmp_path, frame, output, previous=[tmp_path / "before.npy"])
    assert "output-stale-cache" in causes(result)


@pytest.mark.parametrize(
    ("base", "size", "lines", "start", "end", "count"),
    [(0, 64, 1, 32, 32, 2), (16, 64, 1, 48, 16, 3), (16, 64, 2, 16, 48, 3), (5, 10, 1, 0, 10, 1)],
)
def test_lines_of_a_buffer_that_is_not_aligned(
    base: int, size: int, lines: int, start: int, end: int, count: int
) -> None:
    assert tail_start(base, size, lines) == start
    assert head_end(base, size, lines) == end
    assert line_count(base, size) == count


def test_the_bench_has_frames_for_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from triage import Bench

    path = tmp_path / "vector.tflite"
    path.write_bytes(to_tflite(dense_net(64, (8, 64), seed=1)))
    (values,) = Bench("vector", path, 0).frame().values()
    assert values.shape == (64,)
    assert np.unique(values).size > 8
    sys.modules.pop("triage", None)


def test_one_value_is_no_evidence_for_two_faults_at_once(model: Path) -> None:
    """Some pair of faults gives any constant: it is neither a cause nor a hint, but noted."""
    results = [
        npuscope.triage(model, says=[f"all outputs equal {value}"], generation="4.0")
        for value in (-128, -77, 127)
    ]
    for result in results:
        named = [one.id for group in result.classes for one in group.suspects]
        named += [one.id for one in result.nearest]
        assert not any("+" in name for name in named)


def test_pairs_need_more_than_chance(model: Path) -> None:
    request = TriageRequest(says=("all outputs equal -128",))
    case = open_case(build(model, {}).program, request, None)
    search = Search(case.scene, case.evidence, tolerant=False)
    first, second, *_ = all_causes()
    fit = Likeness(compared=1, equal=1, near=1)
    pair = FaultTrial(paired(first, second), RIGHT, fit, 1, contradicted=False, bits=1)
    search._pairs_tried = 1
    search.trials = [pair]
    assert search.matches == []
    assert search.pairs_by_chance == [pair]
    search.trials = [replace(pair, bits=20)]
    assert search.matches == search.trials
