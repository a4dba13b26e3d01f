"""Devices that share a network: configs of export libraries, read, followed and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npuscope
from many_core.compiler_checks import check_program
from many_core.nets import EncoderShape, encoder, graph_of, save
from npuscope.cli.main import main
from npuscope.errors import FileError
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.compiler.stages import PipelineStage
from npuscope.families.many_core.execute import execute
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.partitions import partition_json, read_partitions
from npuscope.families.many_core.program import CoreProgram, Space
from npuscope.ops.run import run

MACHINE = load_core_machine()
DATA = encoder(EncoderShape(layers=2))
GRAPH = graph_of(DATA)
NODES = list(dict.fromkeys(name for op in GRAPH.ops for name in op.origin))
HALF = len(NODES) // 2


def config(*partitions: tuple[list[str], list[int]], cores: int = 2, kind: str = "p2p") -> Any:
    devices = sorted({device for _, own in partitions for device in own})
    return {
        "connections": [{"devices": devices, "type": kind}],
        "partitions": [
            {
                "name": f"Partition{number}",
                "nodeList": nodes,
                "devices": [{"deviceId": device, "numCores": cores} for device in own],
            }
            for number, (nodes, own) in enumerate(partitions)
        ],
    }


def saved(path: Path, table: object) -> Path:
    path.write_text(json.dumps(table))
    return path


def pipeline(first: tuple[int, ...], second: tuple[int, ...]) -> CoreProgram:
    """The second half of the nodes on devices of its own."""
    stages = (
        PipelineStage(first, tuple(NODES[:HALF])),
        PipelineStage(second, tuple(NODES[HALF:])),
    )
    devices = len({*first, *second})
    return compile_graph(GRAPH, MACHINE, CoreCompileOptions(2, devices, stages=stages))


@pytest.mark.parametrize(("first", "second"), [((0,), (1,)), ((0, 1), (2, 3)), ((1,), (0, 2))])
def test_stages_work_on_their_own_devices(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    program = pipeline(first, second)
    check_program(GRAPH, program)
    for number, part in enumerate(program.devices):
        made = {name for op in part.all_ops() if op.transfer is None for name in op.info.origin}
        assert bool(made.intersection(NODES[: HALF - 1])) == (number in first)
        assert bool(made.intersection(NODES[HALF + 1 :])) == (number in second)
    assert any(note.startswith("a pipeline") for note in program.layout.notes)


def test_a_pipeline_computes_the_network() -> None:
    random = np.random.default_rng(1)
    values = {
        name: random.standard_normal(GRAPH.tensors[name].shape, np.float32) for name in GRAPH.inputs
    }
    outputs = execute(pipeline((0,), (1, 2)), values)
    for name, expected in run(GRAPH, values).items():
        assert np.abs(outputs[name] - expected).max() < 0.02 * np.abs(expected).max()


def test_a_pipeline_sends_less_than_devices_that_share_every_layer() -> None:
    shared = compile_graph(GRAPH, MACHINE, CoreCompileOptions(2, 2))
    sent = [
        sum(
            op.transfer.bytes
            for part in program.devices
            for op in part.all_ops()
            if op.transfer is not None and op.transfer.target is Space.PEER
        )
        for program in (pipeline((0,), (1,)), shared)
    ]
    assert 0 < sent[0] < sent[1]


def test_ops_that_no_stage_names_follow_their_inputs() -> None:
    few = (PipelineStage((0,), (NODES[0],)), PipelineStage((1,), (NODES[HALF],)))
    program = compile_graph(GRAPH, MACHINE, CoreCompileOptions(2, 2, stages=few))
    last = {name for op in program.devices[1].all_ops() for name in op.info.origin}
    assert NODES[-1] in last


def test_a_config_is_followed_and_written_again(tmp_path: Path) -> None:
    model = save(tmp_path / "net.onnx", DATA)
    path = saved(tmp_path / "two.json", config((NODES[:HALF], [4, 5]), (NODES[HALF:], [6, 7])))
    dump = tmp_path / "dump.json"
    build = npuscope.manycore_compile(
        model, mdp_load_partition_config=path, mdp_dump_partition_config=dump
    )
    assert len(build.program.devices) == 4 and build.program.layout.cores == 2
    again = npuscope.manycore_compile(model, mdp_load_partition_config=dump)
    assert again.program.devices == build.program.devices
    table = json.loads(dump.read_text())
    assert table["connections"] == [{"devices": [0, 1, 2, 3], "type": "p2p"}]
    assert [len(one["devices"]) for one in table["partitions"]] == [2, 2]


def test_one_device_is_written_with_all_nodes(tmp_path: Path) -> None:
    model, dump = save(tmp_path / "net.onnx", DATA), tmp_path / "dump.json"
    npuscope.manycore_compile(model, cores=3, mdp_dump_partition_config=dump)
    (partition,) = json.loads(dump.read_text())["partitions"]
    assert partition["devices"] == [{"deviceId": 0, "numCores": 3}]
    assert set(partition["nodeList"]) == set(NODES)


def test_one_partition_shares_every_layer(tmp_path: Path) -> None:
    shares = read_partitions(saved(tmp_path / "one.json", config(([], [0, 1, 2]), cores=16)))
    assert (shares.devices, shares.cores, shares.stages) == (3, 16, ())
    assert b'"numCores": 16' in partition_json(GRAPH, shares, 16)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"partitions": [{"devices": [{"deviceId": 0}]}]}, "missing required field `numCores`"),
        (config((NODES, [0, 1]), kind="host"), "type 'host' are not modelled"),
        (config(([], [0]), (NODES, [1])), "a nodeList in each"),
        (config((NODES, []), (NODES, [1])), "expected devices and a nodeList"),
        ({"partitions": []}, "equal numbers of cores"),
    ],
)
def test_what_cannot_be_followed_is_refused(tmp_path: Path, table: object, message: str) -> None:
    with pytest.raises(FileError, match=message):
        read_partitions(saved(tmp_path / "config.json", table))


def test_a_config_of_another_model_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save(tmp_path / "net.onnx", DATA)
    path = saved(tmp_path / "two.json", config((NODES[:HALF], [0]), (["/other/Add"], [1])))
    line = ["manycore", "compile", f"-model={model}", f"-aic-binary-dir={tmp_path / 'qpc'}"]
    assert main([*line, f"-mdp-load-partition-config={path}"]) == 3
    assert "none of its 1 nodes is in" in capsys.readouterr().err
    path.write_text("{")
    assert main([*line, f"-mdp-load-partition-config={path}"]) == 3
    assert "is not valid JSON" in capsys.readouterr().err
