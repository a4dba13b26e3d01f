"""`tune`: every point of the front is what its command gives."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import npuscope
from accuracy.nearest import int8_model, pictures
from models import TfliteWriter, conv_net, save, to_tflite
from npuscope.cli.main import main
from npuscope.errors import FileError, UsageError


def resizing() -> bytes:
    """A nearest resize between two layers, which edits can write differently."""
    net = TfliteWriter()
    x = net.tensor("x", (1, 16, 16, 16), scale=1 / 64, zero_point=0)
    w = net.constant("w", np.ones((16, 1, 1, 16), np.int8), scale=(0.01,) * 16)
    b = net.constant("b", np.zeros(16, np.int32), scale=(0.01 / 64,) * 16)
    y = net.tensor("y", (1, 16, 16, 16), scale=1 / 32, zero_point=0)
    size = net.constant("size", np.array([32, 32], np.int32))
    z = net.tensor("z", (1, 32, 32, 16), scale=1 / 32, zero_point=0)
    v = net.tensor("v", (1, 32, 32, 16), scale=1 / 16, zero_point=0)
    c = net.constant("c", np.zeros(16, np.int32), scale=(0.01 / 32,) * 16)
    net.op("CONV_2D", [x, w, b], [y])
    net.op("RESIZE_NEAREST_NEIGHBOR", [y, size], [z])
    net.op("CONV_2D", [z, w, c], [v])
    return net.finish([x], [v])


def test_points_of_the_front_are_made_by_their_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = save(tmp_path, "net.tflite", resizing())
    given = npuscope.tune(model, jobs=1, optimization=1, epoch_controller=False)
    assert all("--optimization 1 --no-epoch-controller" in p.command for p in given.front)
    result = npuscope.tune(model, jobs=1)
    assert result.best is not None and result.best.within
    assert any(point.edits for point in result.front)
    for point in result.front:
        words = shlex.split(point.command)[1:]
        assert main([*words, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        made = answer["after"] if words[0] == "fix" else answer
        assert made["total_ms"] == pytest.approx(point.total_ms)
    best = min(result.front, key=lambda point: point.total_ms)
    assert result.best == best


def test_all_points_give_the_same_front(tmp_path: Path) -> None:
    model = save(tmp_path, "net.tflite", resizing())
    few, every = npuscope.tune(model, jobs=1), npuscope.tune(model, jobs=1, evaluations=100_000)
    assert few.evaluations < few.points
    figures = [
        [(p.total_ms, p.internal_ram_bytes, p.weights_bytes) for p in result.front]
        for result in (few, every)
    ]
    assert figures[0] == figures[1]


def test_a_budget_that_cannot_be_kept_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(conv_net(size=16, out=8)))
    assert main(["tune", str(model), "--max", "ms=0.0001", "--jobs", "1"]) == 1
    assert capsys.readouterr().out.startswith("nothing is within the limits; the fastest takes 0.0")
    output = tmp_path / "tuned.tflite"
    assert main(["tune", str(model), "--max", "ms=5", "--jobs", "1", "-o", str(output)]) == 0
    assert npuscope.estimate(output).total_ms > 0
    assert "make it: npuscope" in capsys.readouterr().out


def test_runs_are_kept_in_a_store(tmp_path: Path) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(conv_net(size=16, out=8)))
    store = tmp_path / "runs.jsonl"
    first = npuscope.tune(model, jobs=1, store=store)
    lines = store.read_text().count("\n")
    assert npuscope.tune(model, jobs=1, store=store).front == first.front
    assert store.read_text().count("\n") == lines


def test_accuracy_is_an_aim_with_data(tmp_path: Path) -> None:
    model = save(tmp_path, "net.tflite", int8_model())
    values, labels = pictures(30)
    np.savez(tmp_path / "data.npz", image=values, labels=labels)
    result = npuscope.tune(model, jobs=1, data=tmp_path / "data.npz", limits=["drop=0%"])
    assert result.metric == "top-1" and result.best is not None
    assert result.best.figure == 1.0 and result.best.drop == 0.0
    with pytest.raises(UsageError, match="needs samples"):
        npuscope.tune(model, limits=["drop=1%"])


def test_models_of_a_folder_are_ranked(tmp_path: Path) -> None:
    save(tmp_path, "small.tflite", to_tflite(conv_net(size=16, out=8)))
    save(tmp_path, "large.tflite", to_tflite(conv_net(size=64, out=32)))
    (tmp_path / "broken.tflite").write_bytes(b"TFL3")
    result = npuscope.tune(models=tmp_path, jobs=1)
    assert [point.model for point in result.front] == ["small.tflite"]
    assert result.best is not None and result.best.model == "small.tflite"
    assert len(result.notes) == 1 and result.notes[0].startswith("broken.tflite: ")
    with pytest.raises(UsageError, match="expected a model, or a folder"):
        npuscope.tune()
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match=r"holds no \.tflite"):
        npuscope.tune(models=tmp_path / "empty")
