"""Quantizing judged by labels: what is chosen, and figures of samples that no choice has seen."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import npuscope
from models_onnx import OnnxWriter
from npuscope.accuracy.figures import share
from npuscope.cli.main import main
from npuscope.errors import FileError, UsageError
from npuscope.files.load import load_model
from npuscope.graph.model import DType
from npuscope.quantizing.plan import RangePlan
from npuscope.quantizing.run import Quantized
from npuscope.quantizing.task import TaskScore
from npuscope.quantizing.trial import Trial, task_verdict
from npuscope.report.quantize import quantize_text
from npuscope.structs import replace
from quantizing.float_nets import SIZE, conv, weights

pytest.importorskip("onnxruntime")
CLASSES = 4
COUNT = 200


def labelled(folder: Path) -> tuple[Path, Path]:
    """Bars at one of four places; filters of random numbers with an end that is fitted."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, CLASSES, COUNT)
    images = generator.normal(0, 0.8, (COUNT, 3, SIZE, SIZE)).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        image[:, :, 3 * label : 3 * label + 3] += 1.0
    data = folder / "data.npz"
    np.savez(data, image=images, labels=labels)
    w = OnnxWriter()
    x = w.input("image", (1, 3, SIZE, SIZE))
    x = w.node("Relu", conv(w, x, weights(8, 3, 3, 3), strides=[3, 3]))
    x = w.node("Relu", conv(w, x, weights(8, 8, 3, 3, seed=3, spread=0.2)))
    flat = w.node("Flatten", x)
    (folder / "body.onnx").write_bytes(w.finish({flat: (1, 128)}))
    from npuscope.profiling.runtimes import onnxruntime_session

    session = onnxruntime_session((folder / "body.onnx").read_bytes())
    features = np.concatenate([session.run(None, {"image": i[None]})[0] for i in images])
    goal = np.eye(CLASSES)[labels]
    fit = np.linalg.solve(features.T @ features + 50 * np.eye(128), features.T @ goal)
    end = w.constant(fit.astype(np.float32)), w.constant(np.zeros(CLASSES, np.float32))
    w.node("Gemm", flat, *end, output="scores")
    model = folder / "net.onnx"
    model.write_bytes(w.finish({"scores": (1, CLASSES)}))
    return model, data


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return labelled(tmp_path_factory.mktemp("task"))


@pytest.fixture(scope="module")
def made(files: tuple[Path, Path]) -> Quantized:
    model, data = files
    output = model.parent / "int8.onnx"
    page = model.parent / "page.html"
    return npuscope.quantize(
        model, output, data=data, task="classification", max_drop="5%", html=page
    )


def test_the_parts_do_not_meet(made: Quantized) -> None:
    judged = made.judgement
    assert judged is not None
    assert len(made.samples.calibration) + judged.choosing + judged.unused == COUNT
    assert (judged.choosing, judged.unused) == (75, 75)


def test_every_arithmetic_is_judged_and_the_drop_is_within_reach(made: Quantized) -> None:
    judged = made.judgement
    assert judged is not None
    assert [row.name for row in judged.rows] == [*("float", "plain", "plain_npu", "int8", "npu")]
    assert judged.value("float") > 0.8  # guessing gives 0.25
    assert judged.drop <= 0.1
    assert judged.changed.value <= 0.05


def test_every_form_was_timed_and_measured(made: Quantized) -> None:
    judged = made.judgement
    assert judged is not None
    titles = [form.title for form in judged.tried]
    assert {f"calibration by {name}" for name in ("minmax", "mse", "entropy")} <= {*titles}
    assert any("biases" in title for title in titles)
    assert all(form.total_ms > 0 and 0 <= form.figure <= 1 for form in judged.tried)


def test_weights_of_4_bits_are_in_the_file(made: Quantized, files: tuple[Path, Path]) -> None:
    graph = load_model(files[0].parent / "int8.onnx")
    kinds = {t.dtype for t in graph.tensors.values() if t.is_constant and len(t.shape) > 1}
    assert DType.INT4 in kinds
    assert made.plain is not None
    memory = made.after.memory.weights_bytes
    assert memory < made.plain.profile.memory.weights_bytes


def test_without_a_drop_weights_keep_8_bits(files: tuple[Path, Path]) -> None:
    model, data = files
    result = npuscope.quantize(model, data=data, task="classification", calibration="minmax")
    assert result.judgement is not None
    assert not any("4 bits" in form.title for form in result.judgement.tried)


def test_flash_that_may_hold_less(files: tuple[Path, Path]) -> None:
    """Fewer weights count as long as they are too many, and no longer."""
    model, data = files
    wish = {"data": data, "task": "classification", "calibration": "minmax", "max_drop": "100%"}
    small = npuscope.quantize(model, **wish, max_flash="1kB")
    large = npuscope.quantize(model, **wish)
    assert small.after.memory.weights_bytes <= large.after.memory.weights_bytes


def test_the_page_and_the_text(made: Quantized, files: tuple[Path, Path]) -> None:
    page = (files[0].parent / "page.html").read_text()
    assert "top-1 against milliseconds" in page
    text = quantize_text(made)
    assert re.search(r"top-1 \d+\.\d% \(.* the float model\)", text)
    assert "judged on 75 that no choice has seen" in text


def test_the_same_seed_gives_the_same_bytes(made: Quantized, files: tuple[Path, Path]) -> None:
    model, data = files
    again = npuscope.quantize(model, data=data, task="classification", max_drop=0.05)
    assert again.data == made.data


@pytest.mark.parametrize("name", ["max_drop", "max_flash", "limit", "html"])
def test_what_needs_labels(files: tuple[Path, Path], name: str) -> None:
    with pytest.raises(UsageError, match="needs labels"):
        npuscope.quantize(files[0], data=files[1], **{name: 1})


def test_data_without_labels(files: tuple[Path, Path], tmp_path: Path) -> None:
    bare = tmp_path / "bare.npz"
    np.savez(bare, image=np.zeros((40, 3, SIZE, SIZE), np.float32))
    with pytest.raises(FileError, match="no labels"):
        npuscope.quantize(files[0], data=bare, task="classification")


def test_labels_that_do_not_fit(files: tuple[Path, Path], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.npz"
    np.savez(wrong, image=np.zeros((40, 3, SIZE, SIZE), np.float32), labels=np.full(40, 9))
    assert main(["quantize", str(files[0]), "--data", str(wrong), "--task", "classification"]) == 3


def test_too_few_samples(files: tuple[Path, Path]) -> None:
    with pytest.raises(FileError, match="too few"):
        npuscope.quantize(files[0], data=files[1], task="classification", limit=5)


# --- When a form is kept ---


def trial(made: Quantized, ms: float, hits: int, db: float = 30.0) -> Trial:
    right = tuple(n < hits for n in range(100))
    score = TaskScore(share("top-1", hits, 100), right)
    profile = replace(made.after, total_ms=ms)
    return Trial(RangePlan("minmax", {}), b"", profile, {"y": db}, score)


@pytest.mark.parametrize(
    ("ms", "hits", "db", "max_drop", "kept"),
    [
        (0.9, 90, 30, 0.0, True),  # faster, the same answers
        (0.9, 88, 30, 0.0, False),  # faster, but worse
        (0.9, 88, 30, 0.03, True),  # as much as is allowed
        (0.9, 90, 20, 0.0, False),  # the same answers by chance: farther off than the defaults
        (0.9, 90, 20, 0.03, True),
        (1.0, 91, 20, 0.0, False),  # better by chance
        (1.0, 91, 30, 0.0, True),
        (1.0, 99, 20, 0.0, True),  # surely better answers count before decibels
        (1.0, 90, 31, 0.0, True),
        (1.0, 89, 40, 0.1, False),
        (1.02, 91, 40, 0.0, False),  # slower, and by chance better
        (1.02, 99, 30, 0.0, True),  # slower by little, surely better
        (1.2, 99, 30, 0.0, False),
    ],
)
def test_verdicts(
    made: Quantized, ms: float, hits: int, db: float, max_drop: float, kept: bool
) -> None:
    before, after = trial(made, 1.0, 90), trial(made, ms, hits, db)
    plain = trial(made, 1.0, 90)
    assert plain.score is not None
    assert task_verdict(before, after, plain.score, plain, max_drop)[0] is kept


# --- Outputs in parts ---


def test_outputs_of_unlike_ranges_come_in_parts(tmp_path: Path) -> None:
    w = OnnxWriter()
    x = w.input("image", (1, 3, SIZE, SIZE))
    x = w.node("Relu", conv(w, x, weights(8, 3, 3, 3)))
    boxes = conv(w, x, weights(4, 8, 1, 1, seed=5, spread=60))
    scores = w.node("Sigmoid", conv(w, x, weights(2, 8, 1, 1, seed=6)))
    w.node("Concat", boxes, scores, axis=1, output="both")
    model = tmp_path / "net.onnx"
    model.write_bytes(w.finish({"both": (1, 6, SIZE, SIZE)}))
    whole = npuscope.quantize(model, data="random")
    parts = npuscope.quantize(model, data="random", split_outputs=True)
    assert not whole.usable
    assert parts.usable
    assert len(parts.outputs) == 2
    assert any("join them along axis 1" in note for note in parts.notes)
