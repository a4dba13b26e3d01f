"""Small c_info documents made in code, in the words of 2.x and of 3.0 and later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MD5 = "00112233445566778899aabbccddeeff"
ARTEFACTS = (Path(__file__).parents[3] / ".." / "shared" / "data" / "artefacts").resolve()


def pool(id: int, name: str, **more: Any) -> dict[str, Any]:
    attributes = {
        "throughput": "HIGH",
        "byte_width": 8,
        "freq_ratio": 1.25,
        "read_power": 18.531,
        "write_power": 16.201,
        "score": 94,
    }
    record = {
        "name": name,
        "fname": f"atonbuf.{name.upper()}.raw",
        "id": id,
        "address": str(0x34200000 + id * 0x1000),
        "offset_start": 0,
        "size_bytes": 4096,
        "used_size_bytes": 128,
        "rights": "ACC_WRITE",
        "cacheable": "CACHEABLE_OFF",
        "attributes": attributes,
        "subpools": [],
        "buffers": [],
    }
    return record | more


def buffer(id: int, name: str, shape: list[int], **more: Any) -> dict[str, Any]:
    size = 1
    for length in shape:
        size *= length
    record = {
        "name": name,
        "id": id,
        "mpool_id": 1,
        "alignment": 1,
        "offset_start": 256 * id,
        "size_bytes": size,
        "is_param": False,
        "flags": "",
        "epochs": {"start": 1, "end": 2},
        "shape": shape,
        "shape_map": [],
        "channel_first": False,
        "channel_last": True,
        "batch": 1,
        "format": "STAI_FORMAT_S8",
        "nbits": 8,
        "qmn": {"m": 7, "n": 0, "sign": 1},
        "intq": {"axis": -1, "scales": [0.0235294122], "offsets": [-128]},
    }
    return record | more


def operator(id: int, name: str, kind: str, mapping: str, early: bool, **more: Any) -> dict:
    record = {
        "name": name,
        "id": id,
        "inputs": [],
        "outputs": [],
        "scratchs": [],
        "subgraph_nodes": [],
        "mapping": mapping,
        "macc": 0,
        "original_nodes": [],
        "attributes": {},
        "sw_functions": [],
    }
    words = {"description": f"Node kind={kind}" if kind else ""} if early else {"type": kind}
    return record | words | more


def document(version: str = "4.0.0-20500 359356bb0", controlled: bool = False) -> dict[str, Any]:
    """Two hardware epochs, a software one, a hybrid one; weights in flash."""
    nodes = _nodes(early=version.startswith("2."), controlled=controlled)
    ids = [node["id"] for node in nodes]
    return {
        "json_schema_version": "2.0",
        "environment": _environment(version),
        "buffers": _buffers(),
        "graphs": [_graph(nodes, ids)],
        "memory_pools": [
            pool(1, "ram", buffers=[1, 2, 3, 5, 6]),
            pool(2, "flash", rights="ACC_READ", cacheable="CACHEABLE_ON", buffers=[4]),
            pool(3, "ram_more", subpools=[1], fname=""),
        ],
        "memory_accesses": [
            access(ids[1], 0, 0, 0),
            access(ids[1], 1, 128, 32, read_cycles=20, write_cycles=5),
            access(ids[1], 2, 16, 0, read_cycles=2),
            access(ids[2], 1, 0, 0),
        ],
        "power_estimates": [
            power(ids[0], 0, 0, 0),
            power(ids[1], 544, 128, 128, average_memory_power_mw=9),
            power(ids[3], 0, 522, 522),
        ],
        "ec_blobs_info": [],
    }


def _nodes(early: bool, controlled: bool) -> list[dict[str, Any]]:
    """One node an epoch, its operators inside, numbered in the order of the file."""
    nodes, id = [], 1
    for number, (mapping, inner, more) in enumerate(_plan(early, controlled)):
        name, first = f"epoch_{number}", id + 1
        inside = [operator(first + i, *row, early) for i, row in enumerate(inner)]
        nodes.append(operator(id, name, "", mapping, early, subgraph_nodes=inside, **more))
        id = first + len(inner)
    return nodes


def _plan(early: bool, controlled: bool) -> list[tuple[str, list, dict]]:
    """(mapping, operators, buffers) of each epoch."""
    hardware = "NODE_EC" if controlled else "NODE_HW"
    idle = ("NODE_HW", "NODE_SW") if early else ("NODE_NO_X", "NODE_NO_X")
    return [
        (idle[0], [("weights", "Param", idle[0])], {}),
        (
            hardware,
            [("Conv2D_3", "Conv", "NODE_HW"), ("Conv2D_3_off_bias_12", "Add", "NODE_HW")],
            {"inputs": [1, 4], "outputs": [2]},
        ),
        (hardware, [("Pool_5", "MaxPool", "NODE_HW")], {"inputs": [2], "outputs": [3]}),
        ("NODE_SW", [("Softmax_7", "Softmax", "NODE_SW")], {"inputs": [3], "outputs": [5]}),
        (
            "NODE_SW_HW",
            [("Transpose_8", "Transpose", "NODE_HW"), ("Cast_9", "Cast", "NODE_SW")],
            {"inputs": [5], "outputs": [6]},
        ),
        (idle[1], [("__NN__RETURN__", "Return", idle[1])], {"inputs": [6]}),
    ]


def _environment(version: str) -> dict[str, Any]:
    model = {
        "name": "m",
        "type": "tflite",
        "size": 16,
        "n_params": 16,
        "model_files": [{"name": "m.tflite", "signature": f"0x{MD5}"}],
        "generated_time": "",
    }
    tool = {
        "name": "ST.EdgeAI.Core",
        "version": version,
        "arguments": "generate",
        "environment": [],
        "input_model": model,
    }
    return {"tools": [tool], "generated_model": model, "target": ""}


def _buffers() -> list[dict[str, Any]]:
    weights = {"axis": 1, "scales": [0.5, 0.25], "offsets": [0, 0]}
    return [
        buffer(1, "x", [1, 8, 4, 4], batch=8, epochs={"start": 0, "end": 1}),
        buffer(2, "y", [1, 2, 4, 4], format="STAI_FORMAT_U8", channel_last=False, batch=2),
        buffer(3, "z", [1, 2, 2, 2], channel_first=True, channel_last=False),
        buffer(
            4,
            "weights",
            [2, 8, 1, 1],
            mpool_id=2,
            is_param=True,
            batch=8,
            epochs={"start": 0, "end": 5},
            intq=weights,
        ),
        buffer(5, "s", [1, 8], channel_first=True, epochs={"start": 3, "end": 4}),
        {
            **buffer(6, "out", [1, 8], channel_first=True, format="STAI_FORMAT_FLOAT"),
            "nbits": 32,
            "size_bytes": 32,
            "epochs": {"start": 4, "end": 5},
            "intq": None,
        },
    ]


def _graph(nodes: list[dict[str, Any]], ids: list[int]) -> dict[str, Any]:
    edge = {
        "name": "epoch_dep_0_1",
        "id": 1,
        "edge_kind": "EDGE_FLOW",
        "buffer": 0,
        "start": {"node_id": ids[0], "port": 0},
        "end": {"node_id": ids[1], "port": 0},
        "attributes": {},
    }
    tensor = {
        "name": "x",
        "data_format": {"quantizer": "NONE", "scale": [], "zero": [], "type": "FLOAT", "size": 32},
        "shape": [1, 4, 4, 8],
        "shape_map": ["BATCH", "H", "W", "CH"],
        "c_shape_map": ["BATCH", "H", "W", "CH"],
    }
    return {
        "name": "network",
        "id": 1,
        "inputs": [1],
        "outputs": [6],
        "nodes": nodes,
        "edges": [edge],
        "original_inputs": [tensor],
        "original_outputs": [tensor],
    }


def access(node: int, pool: int, reads: int, writes: int, **more: int) -> dict[str, int]:
    row = {"node_id": node, "mpool_id": pool, "reads": reads, "read_cycles": 0}
    return row | {"writes": writes, "write_cycles": 0} | more


def power(node: int, ops: int, compute: int, largest: int, **more: int) -> dict[str, int]:
    row = {"node_id": node, "ops": ops, "compute_cycles": compute, "max_cycles": largest}
    return row | {"average_acc_power_mw": 0, "average_memory_power_mw": 0} | more


def front_end(version: str = "3.0.0-20426 123672867") -> dict[str, Any]:
    footprint = {"activations": 192, "weights": 16, "io": [128, 32], "kernel_flash": None}
    return document(version) | {"memory_footprint": footprint}


def validated() -> dict[str, Any]:
    """What is left after a validation on a board that was not merged."""
    times = [{"counters": [10, 20, 3], "cycles": 33, "duration_ms": 0.04, "percentage": 1.5}]
    return {
        "json_schema_version": "2.0",
        "environment": {"tools": [], "device": "stm32 family - 0x486"},
        "validation": {"val_error": 0.01, "val_metrics": [{"desc": "X-cross #1", "acc": None}]},
        "aton_execution_time": times,
    }


def written(folder: Path, value: Any) -> Path:
    path = folder / "c_info.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path
