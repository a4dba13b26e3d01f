"""<model>_Q.json: formats of tensors, sources of nodes, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuscope.errors import FileError
from npuscope.program.quant_json import quant_json_json, read_quant_json
from program.c_info.small import ARTEFACTS, MD5

DOCUMENT: dict[str, Any] = {
    "version": "4.0",
    "environment": {
        "generated_model": {"model_files": [{"name": "m_OE.onnx", "signature": "0x77"}]},
        "tools": [
            {
                "name": "ST.EdgeAI.Core",
                "version": "4.0.0",
                "input_model": {"model_files": [{"name": "m.tflite", "signature": f"0x{MD5}"}]},
            }
        ],
        "network_signature": "0xe66d023fb0ba2bd4",
    },
    "model_info": {
        "original_inputs": [{"name": "x", "shape": [1, 4, 4, 2], "shape_map": ["BATCH", "H"]}],
        "original_outputs": [],
    },
    "tensors": {
        "Input_0_out_0": {
            "format": {"params": [[0.5], [-127]], "class": "integer", "type": "S8"},
            "data_channel_position": "CHLAST",
            "data_channel_batch": 1,
            "user_allocated": False,
        },
        "weights": {"format": {"params": [[0.1, 0.2], [0, 0]], "class": "integer", "type": "S8"}},
        "f": {"format": {"params": [None, None], "class": "float32", "type": "FLOAT32"}},
    },
    "nodes": {"Conv2D_3": {"names": ["CONV_2D_0"], "later": {"key": None}}},
}


def written(folder: Path, value: Any) -> Path:
    path = folder / "m_Q.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_nothing_is_lost(tmp_path: Path) -> None:
    assert quant_json_json(read_quant_json(written(tmp_path, DOCUMENT))) == DOCUMENT


def test_what_is_read(tmp_path: Path) -> None:
    quant = read_quant_json(written(tmp_path, DOCUMENT))
    assert (quant.version, quant.model_file, quant.model_md5) == ("4.0", "m.tflite", MD5)
    tensor = quant.tensors["Input_0_out_0"]
    assert (tensor.format.class_, tensor.format.type) == ("integer", "S8")
    assert (tensor.format.scales, tensor.format.offsets) == ((0.5,), (-127,))
    assert tensor.data_channel_position == "CHLAST"
    assert quant.tensors["f"].format.scales == ()
    assert quant.nodes["Conv2D_3"].names == ("CONV_2D_0",)


def test_a_file_without_a_model(tmp_path: Path) -> None:
    quant = read_quant_json(written(tmp_path, {"tensors": {}, "nodes": {}}))
    assert (quant.model_file, quant.model_md5) == ("", "")


def test_public_files() -> None:
    files = sorted(ARTEFACTS.rglob("*_Q.json"))
    if not files:
        pytest.skip("the public builds are not on this machine")
    for file in files:
        assert quant_json_json(read_quant_json(file)) == json.loads(file.read_text())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"tensors": {}}, "$.nodes: this key is missing"),
        ({"tensors": [], "nodes": {}}, "$.tensors: expected an object, found a list"),
        (
            {"tensors": {"a": {"format": {"class": 1, "type": "S8"}}}, "nodes": {}},
            "$.tensors.a.format.class: expected text, found 1",
        ),
        (
            {
                "tensors": {"a": {"format": {"class": "i", "type": "S8", "params": [[1], []]}}},
                "nodes": {},
            },
            "$.tensors.a.format.params: has 1 scales and 0 offsets",
        ),
        (
            {"tensors": {}, "nodes": {"\x1b[0m": {"names": [None]}}},
            "$.nodes.'\\x1b[0m'.names[0]: expected text, found null",
        ),
    ],
)
def test_what_is_wrong_is_named(value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        read_quant_json(written(tmp_path, value))
    assert caught.value.message == message


def test_damaged_files(tmp_path: Path) -> None:
    data = json.dumps(DOCUMENT).encode()
    path = tmp_path / "m_Q.json"
    for end in range(0, len(data), 11):
        path.write_bytes(data[:end])
        with pytest.raises(FileError):
            read_quant_json(path)
    random = np.random.default_rng(1)
    read = 0
    for _ in range(300):
        broken = bytearray(data)
        broken[int(random.integers(len(data)))] ^= 1 << int(random.integers(8))
        path.write_bytes(broken)
        try:
            quant_json_json(read_quant_json(path))
            read += 1
        except FileError:
            pass
    assert 0 < read < 300
