"""c_info.json read and written again; what is wrong in it is named by its JSON path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npuscope.errors import FileError
from npuscope.program.c_info import Flavour, c_info_json, flavour, read_c_info
from program.c_info.small import ARTEFACTS, document, front_end, validated, written

DOCUMENTS = {
    "2.1": document("2.1.0-20194 329b0e98d", controlled=True),
    "2.2": document("2.2.0-20266 2adc00962"),
    "4.0": document(),
    "front end": front_end(),
    "validated": validated(),
    "merged": front_end() | validated(),
    "empty": {},
}


@pytest.mark.parametrize("value", DOCUMENTS.values(), ids=DOCUMENTS)
def test_nothing_is_lost(value: dict[str, Any], tmp_path: Path) -> None:
    assert c_info_json(read_c_info(written(tmp_path, value))) == value


def with_unknown(value: Any) -> Any:
    """The document with a key that no version has in every object."""
    if isinstance(value, list):
        return [with_unknown(entry) for entry in value]
    if isinstance(value, dict):
        return {key: with_unknown(entry) for key, entry in value.items()} | {"new": [None, 1.5]}
    return value


@pytest.mark.parametrize("value", DOCUMENTS.values(), ids=DOCUMENTS)
def test_unknown_keys_are_kept_at_every_level(value: dict[str, Any], tmp_path: Path) -> None:
    value = with_unknown(value)
    assert c_info_json(read_c_info(written(tmp_path, value))) == value


def test_every_public_file(capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(ARTEFACTS.rglob("*c_info.json"))
    if not files:
        pytest.skip("the public builds are not on this machine")
    for file in files:
        assert c_info_json(read_c_info(file)) == json.loads(file.read_text()), file
    with capsys.disabled():
        print(f" [{len(files)} public c_info.json without loss]")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (document(), Flavour.RAW),
        (front_end(), Flavour.FRONT_END),
        (validated(), Flavour.VALIDATED),
        (front_end() | validated(), Flavour.VALIDATED),
    ],
)
def test_flavours(value: dict[str, Any], expected: Flavour, tmp_path: Path) -> None:
    assert flavour(read_c_info(written(tmp_path, value))) is expected


def changed(*way: str | int, to: Any) -> dict[str, Any]:
    """The document with one value replaced, or taken away."""
    value: Any = document()
    root = value
    for step in way[:-1]:
        value = value[step]
    if to is DROP:
        del value[way[-1]]
    else:
        value[way[-1]] = to
    return root


DROP = object()
NODE = ("graphs", 0, "nodes", 1)

WRONG = [
    (
        changed("buffers", 0, "size_bytes", to=-1),
        "$.buffers[0].size_bytes: must not be negative, found -1",
    ),
    (
        changed("buffers", 1, "id", to="2"),
        "$.buffers[1].id: expected a whole number, found '2'",
    ),
    (changed("buffers", 1, "id", to=True), "$.buffers[1].id: expected a whole number, found true"),
    (changed("buffers", 1, "id", to=1), "$.buffers[1].id: 1 occurs twice"),
    (changed("buffers", 1, "name", to="x"), "$.buffers[1].name: 'x' occurs twice"),
    (changed("buffers", 0, "name", to=DROP), "$.buffers[0].name: this key is missing"),
    (changed("buffers", 0, "name", to=None), "$.buffers[0].name: this key is missing"),
    (changed("buffers", 2, "mpool_id", to=9), "$.buffers[2].mpool_id: no pool has the id 9"),
    (
        changed("buffers", 0, "epochs", to={"start": 3, "end": 2}),
        "$.buffers[0].epochs: ends before it starts",
    ),
    (
        changed("buffers", 3, "intq", "offsets", to=[0]),
        "$.buffers[3].intq: has 2 scales and 1 offsets",
    ),
    (
        changed("buffers", 0, "intq", to={"axis": -1, "scales": [], "offsets": []}),
        "$.buffers[0].intq.scales: has no scale",
    ),
    (
        changed("buffers", 0, "intq", "scales", to=[float("nan")]),
        "is not valid JSON: a number is not finite (nan)",
    ),
    (
        changed("buffers", 0, "size_bytes", to=1 << 64),
        "$.buffers[0].size_bytes: the number needs more than 64 bits",
    ),
    (
        changed("memory_pools", 0, "buffers", to=[1, 77]),
        "$.memory_pools[0].buffers[1]: no buffer has the id 77",
    ),
    (
        changed("memory_pools", 2, "subpools", to=[3]),
        "$.memory_pools[2].subpools[0]: no undivided pool has the id 3",
    ),
    (
        changed("memory_pools", 0, "attributes", "byte_width", to=0),
        "$.memory_pools[0].attributes.byte_width: is 0",
    ),
    (changed("graphs", 0, "inputs", to=[8]), "$.graphs[0].inputs[0]: no buffer has the id 8"),
    (
        changed(*NODE, "outputs", to=[2, 70]),
        "$.graphs[0].nodes[1].outputs[1]: no buffer has the id 70",
    ),
    (
        changed(*NODE, "subgraph_nodes", 1, "id", to=1),
        "$.graphs[0].nodes[1].subgraph_nodes[1].id: 1 occurs twice",
    ),
    (
        changed("graphs", 0, "edges", 0, "end", "node_id", to=0),
        "$.graphs[0].edges[0].end.node_id: no node has the id 0",
    ),
    (
        changed("memory_accesses", 1, "reads", to=1.5),
        "$.memory_accesses[1].reads: expected a whole number, found 1.5",
    ),
    (
        changed("memory_accesses", 1, "mpool_id", to=8),
        "$.memory_accesses[1].mpool_id: no pool has the id 8",
    ),
    (
        changed("power_estimates", 0, "max_cycles", to=-5),
        "$.power_estimates[0].max_cycles: must not be negative, found -5",
    ),
    (
        changed("ec_blobs_info", to=[{"name": "b", "nodes_id": [99]}]),
        "$.ec_blobs_info[0].nodes_id[0]: no node has the id 99",
    ),
    (changed("graphs", to={}), "$.graphs: expected a list, found an object"),
    ([], "$: expected an object, found a list"),
]


@pytest.mark.parametrize(("value", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_is_wrong_is_named(value: Any, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, value)
    with pytest.raises(FileError) as caught:
        read_c_info(path)
    assert caught.value.message == message
    assert caught.value.where == str(path)
