"""Faults on a simulated board, and what triage makes of the evidence that they leave."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest

import npuscope
from models import conv_net, mobilenet_like, to_tflite
from npuscope.building import build
from npuscope.cli.main import main
from npuscope.demo_network import demo_graph
from npuscope.diagnosis.causes.registry import all_causes
from npuscope.diagnosis.evidence import digests
from npuscope.diagnosis.result import TriageVerdict
from npuscope.diagnosis.times import SETTINGS
from npuscope.program.model import images
from npuscope.sim.memory import to_stored
from npuscope.sim.run import execute, written
from triage_cases import board_output, causes, picture, run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("triage") / "net.tflite"
    path.write_bytes(to_tflite(conv_net()))
    return path


def test_a_right_board_has_no_fault(model: Path, tmp_path: Path) -> None:
    frame = picture(model, 0)
    result = run(model, tmp_path, frame, board_output(model, frame))
    assert result.verdict is TriageVerdict.NO_FAULT
    assert result.differing == 0


def test_swapped_colours_are_found(model: Path, tmp_path: Path) -> None:
    frame = picture(model, 0)
    output = board_output(model, np.ascontiguousarray(frame[..., ::-1]))
    result = run(model, tmp_path, frame, output)
    assert result.verdict is TriageVerdict.REPRODUCED
    assert causes(result) == {"input-bgr"}


def test_erased_weights_are_found_and_a_checksum_tells_them_from_zeros(
    model: Path, tmp_path: Path
) -> None:
    frame, program = picture(model, 0), build(model, {}).program
    erased = {
        name: np.full(data.nbytes, 0xFF, np.uint8) for name, data in program.constants.items()
    }
    output = board_output(model, frame, constants=erased)
    first = run(model, tmp_path, frame, output)
    assert "weights-erased" in causes(first)
    ((pool, image),) = images(program).items()
    crc = f"{zlib.crc32(bytes([0xFF] * len(image))):08x}"
    second = run(model, tmp_path, frame, output, seen=[f"weights:{pool}={crc}"])
    assert causes(second) <= {"weights-erased", "flash-unmapped"}
    assert "weights-erased" in causes(second)


def test_a_frame_late_needs_the_frame_before(model: Path, tmp_path: Path) -> None:
    frame, before = picture(model, 0), picture(model, 1)
    np.save(tmp_path / "before.npy", before)
    output = board_output(model, before)
    result = run(model, tmp_path, frame, output, previous=[tmp_path / "before.npy"])
    assert {"input-late", "output-late", "output-stale-cache"} <= causes(result)
    assert result.next_looks
    assert max(len(part) for part in result.next_looks[-1].splits) == 1


def test_a_sentence_is_evidence(model: Path) -> None:
    result = npuscope.triage(model, says=["all outputs equal 0"], generation="4.0")
    assert result.verdict is TriageVerdict.REPRODUCED
    assert "output-blocked" in causes(result)


def test_bytes_lost_on_the_way_are_no_fault(model: Path, tmp_path: Path) -> None:
    frame = picture(model, 0)
    output = board_output(model, frame).reshape(-1)
    result = run(model, tmp_path, frame, np.delete(output, [7, output.size // 3]))
    assert result.verdict is TriageVerdict.NO_FAULT


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "no evidence was given"),
        (["--says", "it does not work"], "is not understood"),
    ],
)
def test_without_evidence_it_says_what_would_help(
    model: Path, words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["triage", str(model), *words]) == 3
    error = capsys.readouterr().err
    assert text in error
    assert "hint: " in error


def test_a_dump_of_the_wrong_size_is_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "in.npy", picture(model, 0))
    (tmp_path / "out.raw").write_bytes(bytes(3))
    words = ["--inputs", str(tmp_path / "in.npy"), "--outputs", str(tmp_path / "out.raw")]
    assert main(["triage", str(model), *words]) == 3
    assert "has 3 bytes" in capsys.readouterr().err


def test_json_carries_the_schema(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = picture(model, 0)
    np.save(tmp_path / "in.npy", frame)
    np.save(tmp_path / "out.npy", board_output(model, frame))
    words = ["--inputs", str(tmp_path / "in.npy"), "--outputs", str(tmp_path / "out.npy")]
    assert main(["triage", str(model), *words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["schema"] == "npuscope/triage/1"
    assert record["verdict"] == "no fault visible"


def test_a_board_that_is_asked_gives_the_evidence(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", picture(model, 0))
    result = npuscope.triage(
        model, inputs=[tmp_path / "in.npy"], connect="simulated", generation="4.0"
    )
    assert result.verdict is TriageVerdict.NO_FAULT
    assert result.compared > 0


def test_a_buffer_behind_the_fault_is_enough(tmp_path: Path) -> None:
    """A dump of an inner buffer and no output: the fault before it is found."""
    model = tmp_path / "net.tflite"
    model.write_bytes(to_tflite(mobilenet_like()))
    program = build(model, {"generation": "4.0"}).program
    frame = picture(model, 0)
    inner = next(
        name for epoch in program.executed for name in written(epoch) if name not in program.outputs
    )
    flipped = np.ascontiguousarray(frame[:, ::-1])
    ran = execute(program, {program.inputs[0]: flipped}, keep=[inner])
    buffer = program.buffer_map()[inner]
    raw = np.zeros(buffer.size_bytes, np.uint8)
    stored = to_stored(buffer, ran.buffers[inner]).view(np.uint8)
    raw[: stored.size] = stored
    (tmp_path / "inner.raw").write_bytes(raw.tobytes())
    np.save(tmp_path / "in.npy", frame)
    result = npuscope.triage(
        model,
        inputs=[tmp_path / "in.npy"],
        seen=[f"buffer:{inner}={tmp_path / 'inner.raw'}"],
        generation="4.0",
    )
    assert "input-turned" in causes(result)


def test_times_are_explained_by_settings() -> None:
    """What a slow flash predicts is explained by it first; a time out of reach by nothing."""
    graph = demo_graph()
    slow = npuscope.estimate(graph, flash="octo-dtr-50").total_ms
    result = npuscope.triage(graph, time=slow, generation="4.0")
    assert result.time is not None
    assert result.time.settings[0].id == "flash-50-mhz"
    right = npuscope.triage(graph, time=npuscope.estimate(graph).total_ms)
    assert right.verdict is TriageVerdict.NO_FAULT
    far = npuscope.triage(graph, time=300 * npuscope.estimate(graph).total_ms)
    assert far.time is not None and len(far.time.tried) > 5
    slowest = far.time.tried[0]
    if slowest.predicted_ms < far.time.measured_ms:
        assert "beyond every setting of clocks and memories" in far.answer
        assert slowest.title in far.answer
        causes = {cause.id: cause for cause in far.time.far}
        assert {"debugger", "code-uncached", "flash-one-line", "callback-prints"} <= causes.keys()
        assert len({cause.shown_by for cause in causes.values()}) == len(causes)
    near = npuscope.triage(graph, time=2 * npuscope.estimate(graph).total_ms).time
    assert near is not None and near.far == ()
    wrong = npuscope.triage(graph, time=0.0001)
    assert wrong.verdict is TriageVerdict.UNKNOWN
    assert "none of the settings explains it" in wrong.answer


def test_the_crc_unit_of_the_board_is_understood() -> None:
    """CRC-32/MPEG-2 of "123456789" is 0x0376E6E7."""
    assert "0376e6e7" in digests(np.frombuffer(b"123456789", np.uint8), 8)


def test_every_cause_is_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "triage.md").read_text(encoding="utf-8")
    assert [cause.id for cause in all_causes() if f"`{cause.id}`" not in page] == []
    assert [row.id for row in SETTINGS if f"`{row.id}`" not in page] == []


def test_what_nothing_reproduces_is_said_so(model: Path, tmp_path: Path) -> None:
    """Right values in an order that no cause gives point to the output, and are no proof."""
    frame = picture(model, 0)
    output = np.random.default_rng(3).permutation(board_output(model, frame).reshape(-1))
    result = run(model, tmp_path, frame, output)
    assert result.verdict is TriageVerdict.POINTS
    assert not result.classes
    assert result.points_to[0] == "output"


def test_two_faults_at_once_are_found(model: Path, tmp_path: Path) -> None:
    frame = picture(model, 0)
    output = board_output(model, np.ascontiguousarray(frame[..., ::-1])).view(np.uint8) ^ 0x80
    result = run(model, tmp_path, frame, output)
    assert result.verdict is TriageVerdict.REPRODUCED
    assert "input-bgr+output-signed" in causes(result)


def test_another_generation_is_a_cause(tmp_path: Path) -> None:
    """A build of another generation than the stated one rounds otherwise."""
    model = tmp_path / "net.tflite"
    model.write_bytes(to_tflite(mobilenet_like(seed=2, size=22, width=12, classes=10)))
    for seed in range(8):
        frame = picture(model, seed)
        old = build(model, {"generation": "2.2"}).program
        output = execute(old, {old.inputs[0]: frame}).outputs[old.outputs[0]]
        if not np.array_equal(output, board_output(model, frame)):
            result = run(model, tmp_path, frame, output)
            assert causes(result) == {"other-generation"}
            return
    pytest.skip("both generations give the same values")
