"""`tune`: every point of the front is what its command gives."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import npuscope
from accuracy.nearest import int8_model, pictures
from models import TfliteWriter, conv_net, save, to_tflite
from npuscope.accuracy.inputs import network_inputs
from npuscope.accuracy.run import Arithmetic, DataRequest, measure
from npuscope.cli.main import main
from npuscope.errors import FileError, ModelError, UsageError
from npuscope.files.load import load_model
from npuscope.graph.model import Quant
from npuscope.ops.run import run, trace
from npuscope.report.tune import answer as answer_line
from npuscope.structs import replace


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
    stays = replace(result, best=result.start)
    assert answer_line(stays).endswith(" ms as it is: nothing tried within the limits is faster")


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


def mean_net() -> bytes:
    """Convolution, mean, dense layer: a network that takes pictures of any size."""
    net = TfliteWriter()
    x = net.tensor("image", (1, 16, 16, 3), scale=1 / 255, zero_point=-128)
    w = net.constant("w", weights_of(8, 3, 3, 3), scale=(0.01,) * 8)
    b = net.constant("b", np.zeros(8, np.int32), scale=(0.01 / 255,) * 8)
    y = net.tensor("y", (1, 8, 8, 8), scale=0.01, zero_point=-128)
    net.op("CONV_2D", [x, w, b], [y], strideW=2, strideH=2, fusedActivationFunction=1)
    axes = net.constant("axes", np.array([1, 2], np.int32))
    m = net.tensor("m", (1, 8), scale=0.01, zero_point=-128)
    net.op("MEAN", [y, axes], [m])
    v = net.constant("v", weights_of(4, 8), scale=(0.01,) * 4)
    c = net.constant("c", np.zeros(4, np.int32), scale=(0.0001,) * 4)
    z = net.tensor("scores", (1, 4), scale=0.02, zero_point=0)
    net.op("FULLY_CONNECTED", [m, v, c], [z])
    return net.finish([x], [z])


def weights_of(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(-99, 99, shape).astype(np.int8)


def picture_folder(folder: Path, count: int = 8) -> Path:
    from PIL import Image

    generator = np.random.default_rng(0)
    for number in range(count):
        place = folder / "pictures" / str(number % 4)
        place.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 255, (16, 16, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(place / f"{number}.png")
    return folder / "pictures"


def test_input_sizes_are_an_axis_and_answers_an_aim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save(tmp_path, "net.tflite", mean_net())
    fixed = {"jobs": 1, "optimization": 1, "epoch_controller": False, "limits": ["drop=100%"]}
    output, page = tmp_path / "tuned.tflite", tmp_path / "page.html"
    result = npuscope.tune(
        model, output, sizes="8,16x8", data=picture_folder(tmp_path), html=page, **fixed
    )
    assert result.axes["input size"] == ("as it is", "input 8x8", "input 16x8")
    small = next(p for p in result.front if p.choices["input size"] == "input 8x8")
    assert result.best is not None and result.best.choices["input size"] == "input 8x8"
    assert main([*shlex.split(small.command)[1:], "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["total_ms"]
    assert total == pytest.approx(small.total_ms, abs=1e-6)
    assert load_model(output).tensor("image").shape == (1, 8, 8, 3)
    plain = npuscope.estimate(output, **{k: fixed[k] for k in ("optimization", "epoch_controller")})
    assert plain.total_ms > 0
    assert "input 8x8" in page.read_text()
    with pytest.raises(UsageError, match="only samples tell"):
        npuscope.tune(model, sizes="8")
    with pytest.raises(UsageError, match="expected a size"):
        npuscope.tune(model, sizes="8x8x8", data=tmp_path)


def test_a_network_that_bears_one_size_only(tmp_path: Path) -> None:
    model = save(tmp_path, "net.tflite", int8_model())
    shape = load_model(model).tensor(load_model(model).inputs[0]).shape
    other = {load_model(model).inputs[0]: (1, *(2 * n for n in shape[1:3]), shape[3])}
    with pytest.raises(ModelError):
        load_model(model, other)


def test_machines_are_an_axis(tmp_path: Path) -> None:
    pytest.importorskip("ethosu", reason="Vela is not installed")
    model = save(tmp_path, "net.tflite", mean_net())
    result = npuscope.tune(model, jobs=1, machines="ethos-u55-32,ethos-u55-256")
    assert result.axes["machine"] == ("ethos-u55-32", "ethos-u55-256")
    assert result.best is not None and "--machine ethos-u55-256" in result.best.command
    with pytest.raises(UsageError, match="cannot be given with"):
        npuscope.tune(model, machines="stm32n6", generations="4.0")


def test_integers_of_samples_are_those_of_the_model_as_it_is(tmp_path: Path) -> None:
    """An edit that gives the input another scale does not change what raw samples mean."""
    graph = load_model(save(tmp_path, "net.tflite", int8_model()))
    (own,) = network_inputs(graph)
    assert own.quant is not None
    samples = tmp_path / "samples"
    samples.mkdir()
    for number in range(4):
        values = np.full(int(np.prod(own.shape)), number - 128, own.dtype)
        (samples / f"{number}.bin").write_bytes(values.tobytes())
    seen: list[float] = []

    def execute(values: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        seen.append(float(values[own.name].reshape(-1)[0]))
        return run(graph, values)

    way = Arithmetic("int8", "int8", graph, execute, partial(trace, graph))
    made_for = (replace(own, quant=Quant((own.quant.scale * 2,), (own.quant.zero_point,))),)
    measure("net", "stm32n6", [way], DataRequest(samples, task="classification", made_for=made_for))
    zero = own.quant.zero_point
    assert seen[:4] == [zero + 2 * (number - 128 - zero) for number in range(4)]
