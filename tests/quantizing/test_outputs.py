"""Outputs judged by groups of their columns: what int8 loses is said, and how to keep it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models_onnx import OnnxWriter
from npuscope.cli.main import main
from npuscope.machine.load import load_machine
from npuscope.quantizing.advice import rescue
from npuscope.quantizing.choices import shared_scales
from npuscope.quantizing.outputs import output_loss
from npuscope.quantizing.plan import ActivationRange, FloatLayer, RangePlan
from quantizing.float_nets import SIZE, conv, picture_file, weights


def detector(folder: Path, sizes: float) -> Path:
    """Four rows of boxes up to about `sizes`, six of scores from 0 to 1, in one output."""
    w = OnnxWriter()
    x = w.node("Relu", conv(w, w.input("image", (1, 3, SIZE, SIZE)), weights(8, 3, 3, 3)))
    boxes = conv(w, x, weights(4, 8, 1, 1, seed=1) * np.float32(sizes))
    scores = w.node("Sigmoid", conv(w, x, weights(6, 8, 1, 1, seed=2)))
    whole = w.node("Concat", boxes, scores, axis=1, output="joined")
    w.node("Reshape", whole, w.constant(np.array([1, 10, SIZE * SIZE])), output="found")
    path = folder / "detector.onnx"
    path.write_bytes(w.finish({"found": (1, 10, SIZE * SIZE)}))
    return path


def test_scores_beside_boxes_in_pixels_are_lost_and_said_so(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("onnxruntime")
    model, data = detector(tmp_path, 300.0), picture_file(tmp_path, 8)
    given = ["quantize", str(model), "--data", str(data), "--calibration", "minmax"]
    assert main(given) == 0
    text = capsys.readouterr().out
    assert text.startswith("not usable: int8 loses 'found' (see below); ")
    assert "columns  'found', axis 1, 0 to 3: range " in text
    assert "LOST     'found', axis 1, 4 to 9: range " in text
    assert "end the network before the Concat, with " in text
    assert main([*given, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    boxes, scores = told["outputs"][0]["groups"]
    assert not told["usable"] and not boxes["useless"] and scores["useless"]
    assert scores["steps"] < 4 < boxes["steps"] and scores["sqnr_db"] < boxes["sqnr_db"]


def test_columns_of_one_size_are_one_group(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("onnxruntime")
    model, data = detector(tmp_path, 0.3), picture_file(tmp_path, 8)
    assert main(["quantize", str(model), "--data", str(data), "--calibration", "minmax"]) == 0
    assert "LOST" not in capsys.readouterr().out


def rounded(values: np.ndarray, scale: float) -> np.ndarray:
    return np.asarray(np.rint(values / scale) * scale)


def test_groups_are_runs_of_columns_along_the_axis_that_differs_most() -> None:
    size = np.array([100, 1, 1, 100, 1])
    real = np.random.default_rng(0).uniform(-1, 1, (3, 1, 7, 5)) * size
    loss = output_loss("y", real, rounded(real, 0.8), 0.8, ())
    assert [(g.axis, g.first, g.last) for g in loss.groups] == [
        (2, 0, 0),
        (2, 1, 2),
        (2, 3, 3),
        (2, 4, 4),
    ]
    assert [group.useless for group in loss.groups] == [False, True, False, True]
    assert all(g.sqnr_db > 30 for g in loss.groups if not g.useless)


def test_an_output_that_is_noise_is_useless() -> None:
    generator = np.random.default_rng(0)
    real, noise = generator.normal(0, 1, (2, 4, 1, 30))
    loss = output_loss("y", real, real + noise, 0.01, ())
    assert loss.useless and loss.groups[0].axis is None
    help = rescue(loss, loss.groups[0], load_machine("stm32n6"))
    assert help.startswith("give this output more bits: ")


@pytest.mark.parametrize("scale", [1 / 256, 1.25])
def test_small_scores_in_a_step_of_their_own_are_no_loss(scale: float) -> None:
    """Nothing is to be seen in the samples: a Sigmoid near zero is still one with 256 steps."""
    layers = [
        FloatLayer("s", "Sigmoid", ("x",), ("s",)),
        FloatLayer("r", "Reshape", ("s",), ("y",)),
    ]
    real = np.random.default_rng(0).uniform(0, 0.001, (2, 1, 50))
    loss = output_loss("y", real, rounded(real, scale), scale, layers)
    assert bool(loss.useless) is (scale > 1)


def test_an_error_of_a_fifth_is_doubtful_and_leads_the_answer(tmp_path: Path, capsys: Any) -> None:
    """Five digits below the point of a value that a Log makes of it: eight bits hold a fifth."""
    pytest.importorskip("onnxruntime")
    w = OnnxWriter()
    x = w.node("Relu", conv(w, w.input("image", (1, 3, SIZE, SIZE)), weights(8, 3, 3, 3)))
    squared = w.node("Mul", x, x)
    deep = w.node("Mul", squared, squared)
    low = w.node("Log", w.node("Add", deep, w.constant(np.float32(1e-2))))
    w.node("Relu", conv(w, low, weights(4, 8, 1, 1, seed=1)), output="tones")
    path = tmp_path / "tones.onnx"
    path.write_bytes(w.finish({"tones": (1, 4, SIZE, SIZE)}))
    given = ["quantize", str(path), "--data", str(picture_file(tmp_path, 8))]
    assert main([*given, "--calibration", "minmax"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("doubtful: the error of 'tones' is ")
    assert "DOUBTFUL 'tones': range " in text and "validate MODEL --data DIR" in text
    assert main([*given, "--calibration", "minmax", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["usable"] and told["verdict"] == "doubtful"
    assert told["outputs"][0]["groups"][0]["help"].startswith("give this output more bits")


def test_a_mean_that_all_values_share_hides_no_noise() -> None:
    generator = np.random.default_rng(0)
    real, noise = generator.normal(0, 1, (2, 4, 1, 30))
    loss = output_loss("y", real + 100, real + noise + 100, 0.1, ())
    assert loss.sqnr_db > 35 and loss.useless


def test_a_sigmoid_that_is_wrong_by_a_fifth_of_its_range_is_useless() -> None:
    layers = [FloatLayer("s", "Sigmoid", ("x",), ("y",))]
    generator = np.random.default_rng(0)
    real = generator.uniform(0, 0.1, (2, 1, 50))
    for error, useless in ((0.2, True), (0.02, False)):
        other = real + error * generator.choice([-1, 1], real.shape)
        assert bool(output_loss("y", real, other, 1 / 256, layers).useless) is useless


def test_one_step_of_a_sigmoid_is_not_doubtful() -> None:
    layers = [FloatLayer("s", "Sigmoid", ("x",), ("y",))]
    real = np.random.default_rng(0).uniform(0, 0.01, (2, 1, 50))
    for steps, doubtful in ((1, False), (2, True)):
        loss = output_loss("y", real, real + steps / 256, 1 / 256, layers)
        assert bool(loss.doubtful) is doubtful and not loss.useless


def test_a_constant_output_has_nothing_to_lose() -> None:
    real = np.ones((2, 1, 8))
    assert not output_loss("y", real, real, 0.5, ()).useless


def test_a_join_of_unlike_ranges_gets_no_common_scale() -> None:
    layers = [FloatLayer("c", "Concat", ("a", "b"), ("y",))]
    for high, offers in ((300.0, 0), (4.0, 1)):
        ranges = {
            "a": ActivationRange(0, high),
            "b": ActivationRange(0, 1),
            "y": ActivationRange(0, high),
        }
        assert len(shared_scales(RangePlan("minmax", ranges), layers, "Concat")) == offers
