"""Node data and annotated ONNX files: right nodes, right times, and the user's file as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import npuscope
from compiler.nets import Net as GraphNet
from models import conv_net, mobilenet_like, save, to_onnx, to_tflite
from npuscope.cli.main import main
from npuscope.graph.model import Graph
from npuscope.report.export import layer_costs
from npuscope.report.export_drawing import drawn_onnx
from npuscope.structs import replace

FIGURES = ("kind", "epoch", "bound")


@pytest.fixture(scope="module")
def tflite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("tflite"), "net.tflite", to_tflite(mobilenet_like()))


@pytest.fixture(scope="module")
def qdq(tmp_path_factory: pytest.TempPathFactory) -> Path:
    proto = onnx.load_from_string(to_onnx(mobilenet_like()))
    for place, node in enumerate(proto.graph.node):
        node.name = f"/net/{node.op_type}_{place}"
    data = proto.SerializeToString()
    return save(tmp_path_factory.mktemp("onnx"), "net.onnx", data)


def exported(source: Path, folder: Path, *more: str) -> tuple[dict[str, Any], onnx.ModelProto]:
    """Node data of times, and the ONNX file."""
    data, model = folder / "net.json", folder / "shown.onnx"
    words = ["--model-explorer", str(data), "--netron", str(model), "-q", *more]
    assert main(["export", str(source), *words]) == 0
    shown = onnx.load(model)
    onnx.checker.check_model(shown)
    return json.loads(data.read_text()), shown


def known_ms(source: Path) -> float:
    """What the epochs take that came from a layer of the file; turning its input is none."""
    epochs = npuscope.estimate(source).epochs
    return sum(epoch.ms for epoch in epochs if epoch.origin and "input:" not in epoch.origin[0])


def test_operators_of_a_tflite_file_are_known_by_their_place(tflite: Path, tmp_path: Path) -> None:
    data, _ = exported(tflite, tmp_path)
    operators = len(npuscope.load_model(tflite).ops)
    assert set(data["results"]) <= {str(place) for place in range(operators)}
    assert data["name"] == "ms (predicted)"
    assert [item["stop"] for item in data["gradient"]] == [0, 1]
    total = sum(result["value"] for result in data["results"].values())
    assert total == pytest.approx(known_ms(tflite), abs=1e-4)


def test_nodes_of_an_onnx_file_are_known_by_their_name(qdq: Path, tmp_path: Path) -> None:
    data, shown = exported(qdq, tmp_path)
    names = {node.name for node in shown.graph.node}
    assert data["results"] and set(data["results"]) <= names
    total = sum(result["value"] for result in data["results"].values())
    assert total == pytest.approx(known_ms(qdq), abs=1e-4)


def test_unnamed_nodes_are_called_as_the_viewer_does(qdq: Path, tmp_path: Path) -> None:
    proto = onnx.load(qdq)
    for node in proto.graph.node:
        node.name = ""
    bare = save(tmp_path, "bare.onnx", proto.SerializeToString())
    data, _ = exported(bare, tmp_path)
    places = [i for i, node in enumerate(proto.graph.node) if node.op_type == "Conv"]
    assert {f"<node_{place}>" for place in places} <= set(data["results"])


def test_a_file_for_each_figure(tflite: Path, tmp_path: Path) -> None:
    times, _ = exported(tflite, tmp_path)
    for name in FIGURES:
        figure = json.loads((tmp_path / f"net.{name}.json").read_text())
        assert figure["name"] == name
        assert set(figure["results"]) == set(times["results"])
    kinds = json.loads((tmp_path / "net.kind.json").read_text())["results"]
    assert {result["value"] for result in kinds.values()} == {"HW", "SW"}
    last = max(kinds, key=int)  # the softmax
    assert kinds[last]["value"] == times["results"][last]["kind"] == "SW"


def test_the_onnx_copy_carries_figures_and_nothing_else(qdq: Path, tmp_path: Path) -> None:
    before = qdq.read_bytes()
    data, shown = exported(qdq, tmp_path)
    assert qdq.read_bytes() == before
    [first] = [n for n in shown.graph.node if n.op_type == "Conv"][:1]
    told = {entry.key: entry.value for entry in first.metadata_props}
    assert float(told["npuscope.ms"]) == data["results"][first.name]["value"] > 0
    assert told["npuscope.kind"] == "HW" and told["npuscope.epoch"] == "2"
    assert first.doc_string.startswith("ms 0.") and "bound" in first.doc_string
    original = onnx.load_from_string(before)
    for node in shown.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    for node in original.graph.node:
        node.ClearField("doc_string")
    assert shown == original


def test_a_description_of_the_user_stays(qdq: Path, tmp_path: Path) -> None:
    proto = onnx.load(qdq)
    for node in proto.graph.node:
        node.doc_string = "mine"
    _, shown = exported(save(tmp_path, "doc.onnx", proto.SerializeToString()), tmp_path)
    said = {node.doc_string.partition("\n")[0] for node in shown.graph.node}
    assert said == {"mine"}
    assert any("\nms " in node.doc_string for node in shown.graph.node)


def test_weights_of_other_files_come_along(qdq: Path, tmp_path: Path) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    away.mkdir()
    apart = home / "net.onnx"
    onnx.save(
        onnx.load(qdq), apart, save_as_external_data=True, location="net.bin", size_threshold=0
    )
    assert (home / "net.bin").is_file()
    _, shown = exported(apart, away)
    assert all(tensor.data_location == 0 for tensor in shown.graph.initializer)
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(qdq).graph.initializer}
    for tensor in shown.graph.initializer:
        assert np.array_equal(onnx.numpy_helper.to_array(tensor), weights[tensor.name])


def test_a_tflite_file_is_drawn_op_by_op(tflite: Path, tmp_path: Path) -> None:
    graph = npuscope.load_model(tflite)
    data, shown = exported(tflite, tmp_path)
    assert [node.op_type for node in shown.graph.node] == [op.kind for op in graph.ops]
    attributes = {
        attribute.name: onnx.helper.get_attribute_value(attribute)
        for attribute in shown.graph.node[0].attribute
    }
    assert attributes["ms"] == pytest.approx(data["results"]["0"]["value"], abs=1e-6)
    assert (attributes["kind"], attributes["epoch"]) == (b"HW", b"2")
    assert attributes["strides"] == [2, 2]
    assert [value.name for value in shown.graph.input] == list(graph.inputs)


def test_layers_of_an_epoch_share_its_time_by_their_multiplications() -> None:
    net = GraphNet(3)
    x = net.conv(net.input((1, 16, 16, 16)), 16)
    graph = net.graph(net.add(net.conv(x, 32), net.conv(x, 32, (1, 1))))
    profile = npuscope.estimate(graph)
    [shared] = [epoch for epoch in profile.epochs if len(epoch.origin) == 2]
    costs = layer_costs(profile, graph)
    parts = [costs[origin].ms for origin in shared.origin]
    assert sum(parts) == pytest.approx(shared.ms)
    assert max(parts) / min(parts) == pytest.approx(9)  # windows of 3 x 3 and of 1 x 1
    assert sum(cost.ms for cost in costs.values()) == pytest.approx(profile.total_ms)


def test_a_compiled_program_is_shown_on_its_model(tflite: Path, tmp_path: Path) -> None:
    npuscope.compile(tflite, tmp_path / "build")
    data, _ = exported(tmp_path / "build", tmp_path, "--model", str(tflite))
    (tmp_path / "direct").mkdir()
    assert data == exported(tflite, tmp_path / "direct")[0]


def failed(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["export", *words])
    return code, capsys.readouterr().err


def test_a_compiled_program_needs_its_model(
    tflite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    npuscope.compile(tflite, tmp_path / "build")
    code, said = failed([str(tmp_path / "build"), "--netron", str(tmp_path / "a.onnx")], capsys)
    assert code == 2
    assert "--model: a compiled program and a saved profile are shown on their model" in said


def test_another_model_is_refused(
    qdq: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    npuscope.compile(save(tmp_path, "other.tflite", to_tflite(conv_net())), tmp_path / "build")
    out = tmp_path / "a.json"
    words = [str(tmp_path / "build"), "--model", str(qdq), "--model-explorer", str(out)]
    code, said = failed(words, capsys)
    assert code == 3
    assert "no layer of this model is in the program" in said
    assert not out.exists()


def test_something_must_be_asked_for(tflite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = failed([str(tflite)], capsys)
    assert code == 2
    assert "no output selected" in said


@pytest.mark.parametrize("option", ["--netron", "--model-explorer"])
def test_the_model_is_not_overwritten(
    qdq: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = qdq.read_bytes()
    code, said = failed([str(qdq), option, str(qdq)], capsys)
    assert code == 2
    assert f"{option} {qdq}: this is the input file" in said
    assert qdq.read_bytes() == before


def test_json_says_what_was_written(
    tflite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a.json"
    assert main(["export", str(tflite), "--model-explorer", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "npuscope/export/1"
    assert told["files"] == [str(out), *(str(tmp_path / f"a.{name}.json") for name in FIGURES)]
    assert (told["model"], told["provenance"]) == ("net.tflite", "estimate")
    assert 0 < told["annotated"] <= told["nodes"]
    assert told["total_ms"] == pytest.approx(npuscope.estimate(tflite).total_ms, abs=1e-6)
    assert told["unassigned_ms"] == 0


def renamed(graph: Graph, names: dict[str, str]) -> Graph:
    result = graph.copy()
    tensors = [replace(t, name=names.get(t.name, t.name)) for t in graph.tensors.values()]
    result.tensors = {tensor.name: tensor for tensor in tensors}
    result.ops = [
        op.replace(
            inputs=tuple(names.get(name, name) for name in op.inputs),
            outputs=tuple(names.get(name, name) for name in op.outputs),
            origin=tuple(names.values()),
        )
        for op in graph.ops
    ]
    result.inputs = tuple(names.get(name, name) for name in graph.inputs)
    result.outputs = tuple(names.get(name, name) for name in graph.outputs)
    return result


def test_hostile_names_are_drawn_and_told_apart() -> None:
    net = GraphNet(1)
    x = net.conv(net.conv(net.input((1, 8, 8, 3)), 4), 4)
    graph = net.graph(net.conv(x, 4))
    first, second, third = (op.outputs[0] for op in graph.ops)
    hostile = renamed(graph, {first: "a\nb", second: "a\\nb", third: "\ud800\u202e<script>"})
    shown = onnx.load_from_string(drawn_onnx(hostile, {}))
    onnx.checker.check_model(shown)
    made = [node.output[0] for node in shown.graph.node]
    assert len(set(made)) == 3
    assert all(name.isprintable() for name in made)
