"""A Program from c_info.json: what each key becomes, and the compiler's claims on public files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuscope.errors import FileError
from npuscope.graph.model import Quant
from npuscope.program.c_info import program_from_c_info, read_c_info
from npuscope.program.calls import unknown_ops
from npuscope.program.claims import max_cycles
from npuscope.program.model import Access, Call, Claims, EpochKind, Program
from npuscope.program.verify import verify
from program.c_info.small import (
    ARTEFACTS,
    MD5,
    access,
    buffer,
    document,
    operator,
    validated,
    written,
)

VERSIONS = ("2.0.0", "2.1.0-20194 329b0e98d", "2.2.0-20266", "3.0.0-20426", "4.0.1")


@pytest.fixture
def read(tmp_path: Path):
    return lambda value: program_from_c_info(read_c_info(written(tmp_path, value)))


@pytest.mark.parametrize("version", VERSIONS)
def test_epochs_in_the_words_of_every_version(version: str, read) -> None:
    program = read(document(version))
    assert [(e.number, e.kind, e.operators) for e in program.epochs] == [
        (1, EpochKind.HW, ("Conv", "Add")),
        (2, EpochKind.HW, ("MaxPool",)),
        (3, EpochKind.SW, ("Softmax",)),
        (4, EpochKind.HYBRID, ("Transpose", "Cast")),
    ]
    assert all(epoch.groups is None for epoch in program.epochs)
    assert program.epochs[0].origin == ("Conv2D_3", "Conv2D_3_off_bias_12")
    assert program.epochs[2].call == Call("Softmax", ("z",), ("s",))
    assert program.epochs[3].call == Call("Cast", ("s",), ("out",))
    verify(program)


@pytest.mark.parametrize(
    ("version", "generation"),
    [
        ("2.0.0", "2.0"),
        ("2.1.0-20194 329b0e98d", "2.1"),
        ("2.2.0-20266", "2.2"),
        ("3.0.0-20426 123672867", "3.0"),
        ("4.0.1", "4.0"),
        ("unknown", "4.0"),
    ],
)
def test_generation(version: str, generation: str, read) -> None:
    assert read(document(version)).generation == generation


def test_the_whole(read) -> None:
    program = read(document())
    assert (program.name, program.machine, program.source) == ("network", "stm32n6", "c_info")
    assert (program.model_file, program.model_md5) == ("m.tflite", MD5)
    assert (program.inputs, program.outputs) == (("x",), ("out",))
    assert not program.epoch_controller


def test_pools(read) -> None:
    ram, flash, virtual = read(document()).pools
    assert (ram.name, ram.address, ram.size_bytes) == ("ram", 0x34201000, 4096)
    assert (ram.byte_width, ram.freq_ratio, ram.score, ram.used_bytes) == (8, 1.25, 94, 128)
    assert (ram.writable, ram.cacheable, ram.file_name) == (True, False, "RAM")
    assert (flash.writable, flash.cacheable) == (False, True)
    assert virtual.subpools == ("ram",) and virtual.file_name == ""


def test_a_pool_that_the_linker_places(read) -> None:
    value = document()
    value["memory_pools"][0]["address"] = "NULL"
    program = read(value)
    assert program.pools[0].address == 0
    assert program.notes == ("pool 'ram' has no fixed address",)


def test_buffers(read) -> None:
    x, y, z, weights, s, out = read(document()).buffers
    assert (x.shape, x.batch, x.signed) == ((1, 4, 4, 8), 8, True)
    assert (y.shape, y.batch, y.signed) == ((1, 4, 4, 2), 2, False)
    assert (z.shape, z.batch) == ((1, 2, 2, 2), 1)
    assert (weights.shape, weights.is_param, weights.pool) == ((2, 1, 1, 8), True, "flash")
    assert weights.quant == Quant((0.5, 0.25), (0, 0), 0)
    assert (s.shape, s.batch) == ((1, 8), 8)
    assert (out.is_float, out.nbits, out.quant) == (True, 32, None)
    assert (x.first, x.last, x.offset) == (0, 1, 256)
    assert x.quant == Quant((float(np.float32(0.0235294122)),), (-128,))


@pytest.mark.parametrize(
    ("shape", "flags", "batch", "expected"),
    [
        ([1, 8, 4, 5], (False, True), 8, ((1, 4, 5, 8), 8)),
        ([1, 8, 4, 5], (True, False), 1, ((1, 4, 5, 8), 1)),
        ([1, 8, 4, 5], (False, False), 4, ((1, 4, 5, 8), 4)),
        ([16, 1, 1], (False, True), 16, ((1, 1, 16), 16)),  # coefficients of a unit
        ([48, 1, 1], (False, False), 24, ((1, 1, 48), 24)),
        ([1, 512, 16], (True, True), 1, ((1, 512, 16), 16)),  # plain rows
        ([1, 8, 20], (True, False), 1, ((1, 20, 8), 1)),
        ([1, 10], (True, True), 1, ((1, 10), 10)),
        ([3], (True, True), 1, ((3,), 3)),
        ([], (True, True), 1, ((1,), 1)),
        ([1, 6, 2, 3, 4], (False, True), 1, ((1, 2, 3, 4, 6), 6)),
    ],
)
def test_shapes(shape, flags, batch, expected, read) -> None:
    value = document()
    first, last = flags
    changed = {"channel_first": first, "channel_last": last, "batch": batch}
    value["buffers"].append(buffer(7, "new", shape, **changed))
    made = read(value).buffers[-1]
    assert (made.shape, made.batch) == expected


@pytest.mark.parametrize(
    ("format", "sign", "signed", "is_float"),
    [
        ("STAI_FORMAT_S8", 0, True, False),
        ("STAI_FORMAT_U8", 1, False, False),
        ("STAI_FORMAT_Q", 1, True, False),
        ("STAI_FORMAT_Q", 0, False, False),
        ("STAI_FORMAT_S16", 1, True, False),
        ("STAI_FORMAT_FLOAT", 0, True, True),
        ("STAI_FORMAT_NONE", 0, False, False),
    ],
)
def test_number_formats(format, sign, signed, is_float, read) -> None:
    value = document()
    value["buffers"][2] |= {"format": format, "qmn": {"m": 7, "n": 0, "sign": sign}}
    made = read(value).buffers[2]
    assert (made.signed, made.is_float) == (signed, is_float)


def test_a_buffer_that_the_user_places(read) -> None:
    value = document()
    value["buffers"][0] |= {"offset_start": -1, "mpool_id": 0}
    made = read(value).buffers[0]
    assert (made.pool, made.offset) == ("", 0)


def test_live_buffers_at_one_place_are_views(read) -> None:
    """A reshape: the same bytes, alive at the same time; a dead buffer there is no home."""
    value = document()
    value["buffers"].append(buffer(7, "y_flat", [1, 32], offset_start=512))
    value["buffers"].append(buffer(8, "late", [1, 32], offset_start=512))
    value["buffers"][-1]["epochs"] = {"start": 3, "end": 4}
    made = read(value).buffer_map()
    assert [made[name].view_of for name in ("y", "y_flat", "late")] == ["", "y", ""]


def test_claims_are_exact(read) -> None:
    conv, pooling, softmax, hybrid = read(document()).epochs
    accesses = (Access("ram", 128, 32, 20.0, 5.0), Access("flash", 16, 0, 2.0, 0.0))
    assert conv.claims == Claims(544, 128, 128, accesses)
    assert pooling.claims == hybrid.claims == Claims()
    assert softmax.claims == Claims(0, 522, 522)


def test_a_run_of_controlled_epochs_is_a_blob(read) -> None:
    program = read(document("2.1.0", controlled=True))
    assert [epoch.blob for epoch in program.epochs] == [1, 1, None, None]
    assert program.epoch_controller and program.epochs[0].kind is EpochKind.HW


def test_listed_blobs(read) -> None:
    value = document("2.2.0", controlled=True)
    ids = [node["id"] for node in value["graphs"][0]["nodes"]]
    rows = [("_ec_blob_Default_1", ids[1]), ("_ec_blob_Default_2", ids[2])]
    value["ec_blobs_info"] = [
        {"name": name, "encrypted": False, "nodes_id": [id]} for name, id in rows
    ]
    assert [epoch.blob for epoch in read(value).epochs] == [1, 2, None, None]


def test_blobs_that_hold_their_epochs(read) -> None:
    value = document("4.0.0")
    nodes = value["graphs"][0]["nodes"]
    held = operator(90, "_ec_blob_net_1", "", "NODE_EC", early=False, subgraph_nodes=nodes[1:3])
    value["graphs"][0]["nodes"] = [nodes[0], held, *nodes[3:]]
    value["ec_blobs_info"] = [{"blob_id": 90, "encrypted": False}]
    program = read(value)
    assert [epoch.number for epoch in program.epochs] == [1, 2, 3, 4]
    assert [epoch.blob for epoch in program.epochs] == [1, 1, None, None]
    assert program.epochs[0].claims.ops == 544


def test_empty_objects_stand_for_nothing(read) -> None:
    value = document("2.0.0")
    value["graphs"][0] |= {"original_inputs": {}, "original_outputs": {}}
    for row in value["buffers"]:
        row["qmn"] = {}
    value["buffers"][0]["intq"] = {}
    program = read(value)
    assert program.buffers[0].quant is None
    assert program.buffers[1].quant is not None


def test_units_and_streams_of_an_epoch(read) -> None:
    value = document("4.0.0")
    epoch = value["graphs"][0]["nodes"][1]
    conv, add = epoch["subgraph_nodes"]
    conv |= {"inputs": [1, 4], "attributes": {"HWUnit": "CONV_ACC_V2 0"}}
    add |= {"outputs": [2], "attributes": {"HWUnit": "ARITH_ACC_V2 1"}}
    program = read(value)
    assert program.unit_counts(program.epochs[0]) == {"CONVACC": 1, "ARITH": 1, "STRENG": 3}
    assert program.streams(program.epochs[0]) == (2, 1)
    assert program.unit_counts(program.epochs[2]) == {}


def test_a_cpu_target_is_told(read) -> None:
    value = document()
    for row in value["memory_pools"]:
        del row["attributes"]["byte_width"], row["attributes"]["freq_ratio"]
    with pytest.raises(FileError, match="was made for the CPU only"):
        read(value)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Concat", EpochKind.HYBRID),
        ("Transpose", EpochKind.HYBRID),
        ("DepthToSpace", EpochKind.HYBRID),
        ("Split", EpochKind.HYBRID),
        ("Softmax", EpochKind.SW),
        ("Resize", EpochKind.SW),
    ],
)
def test_library_calls_that_move_data_are_hybrid(kind: str, expected: EpochKind, read) -> None:
    """As the flags of the same block in network.c say."""
    value = document("2.2.0-20266")
    (inner,) = value["graphs"][0]["nodes"][3]["subgraph_nodes"]
    inner["description"] = f"Node kind={kind}"
    assert read(value).epochs[2].kind is expected


def test_scratch_memory_of_a_kernel_is_no_operand(read) -> None:
    """Files list it among inputs and outputs; its size says nothing of the work."""
    value = document()
    value["buffers"].append(buffer(60, "scratch", [1, 1, 257, 1], nbits=32))
    node = value["graphs"][0]["nodes"][3]
    node["inputs"].append(60)
    node["outputs"].append(60)
    assert read(value).epochs[2].call == Call("Softmax", ("z",), ("s",))


def test_an_empty_epoch_keeps_its_number(read) -> None:
    value = document()
    value["graphs"][0]["nodes"][2]["mapping"] = "NODE_NO_X"
    epoch = read(value).epochs[1]
    assert (epoch.number, epoch.kind, epoch.operators) == (2, EpochKind.EMPTY, ("MaxPool",))


def with_moves(*kinds: str, mapping: str = "NODE_HW", early: bool = True) -> dict[str, Any]:
    """The second hardware epoch only moves data, and the file claims no cycles for it."""
    value = document("2.2.0-20266")
    value["graphs"][0]["nodes"][2] |= {
        "mapping": mapping,
        "subgraph_nodes": [
            operator(40 + i, kind, kind, mapping, early) for i, kind in enumerate(kinds)
        ],
    }
    return value


@pytest.mark.parametrize(
    "kinds", [("Reshape",), ("Transpose",), ("Reshape", "Reshape"), ("Concat",)]
)
def test_an_epoch_that_moves_nothing_has_no_code(kinds: tuple[str, ...], read) -> None:
    """network.c of the same builds has no block for it: it is a second name for the same bytes."""
    program = read(with_moves(*kinds))
    epoch = program.epochs[1]
    assert (epoch.number, epoch.kind, epoch.operators) == (2, EpochKind.EMPTY, kinds)
    assert unknown_ops(program) == ()


def test_an_epoch_that_moves_bytes_stays(read) -> None:
    value = with_moves("Reshape")
    node = value["graphs"][0]["nodes"][2]["id"]
    value["memory_accesses"].append(access(node, 1, 64, 64, read_cycles=8, write_cycles=8))
    assert read(value).epochs[1].kind is EpochKind.HW
    # Nor does the rule hold for what computes, or where the file claims nothing of any epoch.
    assert read(with_moves("Reshape", "Add")).epochs[1].kind is EpochKind.HW
    bare = with_moves("Reshape") | {"power_estimates": [], "memory_accesses": []}
    assert read(bare).epochs[1].kind is EpochKind.HW


def first_epoch(*operators: dict[str, Any]) -> dict[str, Any]:
    value = document("2.2.0-20266")
    value["graphs"][0]["nodes"][1]["subgraph_nodes"] = list(operators)
    return value


def test_coefficients_that_the_processor_writes(read) -> None:
    """As many as the longest vector of an arithmetic unit; one alone is a register, and a table of
    more than a unit holds is streamed."""

    def entries(*shapes: list[int]) -> int:
        vectors = [
            buffer(50 + i, f"v{i}", shape, is_param=True, mpool_id=2)
            for i, shape in enumerate(shapes)
        ]
        value = first_epoch(
            operator(40, "c", "Conv", "NODE_HW", True, inputs=[1, 4]),
            *(
                operator(41 + i, f"a{i}", "Add", "NODE_HW", True, inputs=[50 + i])
                for i in range(len(shapes))
            ),
        )
        value["buffers"] += vectors
        return read(value).stated_units[0].entries

    assert entries([24, 1, 1]) == 24
    assert entries([1], [16, 1, 1], [24, 1, 1]) == 24
    assert entries([1]) == 0
    assert entries([1024, 1, 1]) == 0


def test_a_second_name_of_an_output_is_no_stream(read) -> None:
    """The epoch writes one; a reshape in it calls the same bytes `view`, and only that is read."""
    value = first_epoch(
        operator(40, "c", "Conv", "NODE_HW", True, inputs=[1, 4]),
        operator(41, "a", "Add", "NODE_HW", True, outputs=[60]),
        operator(42, "r", "Reshape", "NODE_HW", True, inputs=[60], outputs=[61]),
    )
    place = {"offset_start": 3000, "epochs": {"start": 1, "end": 1}}
    value["buffers"] += [
        buffer(60, "written", [1, 4, 2, 2], **place),
        buffer(61, "view", [1, 16], **place | {"epochs": {"start": 1, "end": 2}}),
    ]
    value["graphs"][0]["nodes"][2]["inputs"] = [61]
    program = read(value)
    assert program.streams(program.epochs[0]) == (2, 1)
    # A sum that nobody reads under any name is read again by the epoch itself.
    value["graphs"][0]["nodes"][1]["subgraph_nodes"][1]["outputs"] = [60, 62]
    value["buffers"].append(buffer(62, "sums", [1, 4, 2, 2], offset_start=3500))
    program = read(value)
    assert program.streams(program.epochs[0]) == (3, 2)


def streams_of(read: Any, rows: list[dict[str, Any]], *operators: dict[str, Any]) -> list[tuple]:
    """(buffer, writes, chain, copies, elements, run, again) of the first epoch."""
    value = first_epoch(*operators)
    value["buffers"] += rows
    found = read(value).stated_units[0].streams
    return [(s.buffer, s.writes, s.chain, s.copies, s.elements, s.run, s.again) for s in found]


def hardware(id: int, kind: str, inputs: list[int], outputs: list[int]) -> dict[str, Any]:
    return operator(id, f"o{id}", kind, "NODE_HW", True, inputs=inputs, outputs=outputs)


def test_streams_of_a_copy(read) -> None:
    """From pixels with all channels together to blocks of two; a part of a join stands for all."""
    rows = [
        buffer(60, "pixels", [1, 8, 4, 4], batch=8),
        buffer(61, "blocks", [1, 8, 4, 4], batch=2),
        buffer(62, "part", [1, 4, 4, 4], batch=4),
    ]
    assert streams_of(read, rows, hardware(40, "Identity", [60], [61])) == [
        ("pixels", False, 0, True, 128, 2, 0),
        ("blocks", True, 0, True, 128, 0, 0),
    ]
    join = hardware(40, "Concat", [62], [60])
    assert streams_of(read, rows, join, hardware(41, "Reshape", [], [])) == [
        ("part", False, 0, True, 128, 0, 0),
        ("pixels", True, 0, True, 128, 4, 0),
    ]


def test_streams_of_a_product_with_a_computed_vector(read) -> None:
    """The vector is read anew for every frame: of as many channels as lie together."""
    rows = [
        buffer(60, "tensor", [1, 8, 4, 4], batch=2),
        buffer(61, "gate", [1, 8, 1, 1], batch=8),
        buffer(62, "bias", [8, 1, 1], is_param=True, mpool_id=2),
        buffer(63, "result", [1, 8, 4, 4], batch=2),
    ]
    product = hardware(40, "Mul", [60, 61], []), hardware(41, "Add", [62], [63])
    assert streams_of(read, rows, *product) == [
        ("tensor", False, 0, False, 128, 0, 0),
        ("gate", False, 0, False, 8, 0, 2),
        ("result", True, 0, False, 128, 0, 0),
    ]


def test_an_operator_that_reads_after_a_result_begins_a_chain(read) -> None:
    rows = [buffer(id, f"b{id}", [1, 8, 4, 4], batch=8) for id in (60, 61, 62, 63)]
    chains = [
        hardware(40, "Add", [60], [61]),
        hardware(41, "Reshape", [], []),
        hardware(42, "Add", [62], []),
        hardware(43, "Sub", [], [63]),
    ]
    found = streams_of(read, rows, *chains)
    assert [(name, chain) for name, _, chain, *_ in found] == [
        ("b60", 0),
        ("b61", 0),
        ("b62", 1),
        ("b63", 1),
    ]


def layer_of(
    read: Any, weights: list[int], depth: int, *behind: dict[str, Any], **more: Any
) -> Any:
    """A layer of 24 channels on 20x20 pixels; `more` are its outputs and the compiler's cycles."""
    side = more.get("side", 20)
    value = first_epoch(
        *(hardware(40 + i, "Conv", [60, 61], []) for i in range(more.get("units", 1) - 1)),
        hardware(46, "Conv", [60, 61], more.get("sums", [])),
        *behind,
        hardware(49, "Relu", [], [62]),
    )
    value["buffers"] += [
        buffer(60, "features", [1, 24, 20, 20], batch=24),
        buffer(61, "kernels", weights, batch=depth, is_param=True, mpool_id=2),
        buffer(62, "results", [1, weights[0], side, side], batch=weights[0]),
        buffer(63, "sums", [1, weights[0], side, side], batch=4, nbits=16),
        buffer(64, "scale", [weights[0], 1, 1], batch=6, is_param=True, mpool_id=2),
    ]
    value["power_estimates"][1]["compute_cycles"] = more.get("cycles", 128)
    (row, *_) = read(value).stated_units
    return row.pipes[0] if row.pipes else None


def test_frames_of_a_layer_follow_from_how_its_weights_and_sums_are_stored(read) -> None:
    pipe = layer_of(read, [32, 24, 3, 3], 8, sums=[63])
    assert (pipe.depth, pipe.kernels, pipe.frames, pipe.sums) == (8, 4, 24, True)
    assert (pipe.pixels, pipe.results, pipe.window, pipe.drained) == (400, 400, (3, 3), 40)
    strided = layer_of(read, [32, 24, 3, 3], 8, sums=[63], side=10)
    assert (strided.results, strided.drained) == (100, -1)
    series = layer_of(read, [32, 24, 3, 3], 8, sums=[63], units=3)
    assert (series.units, series.frames, series.sums) == (3, 8, False)


def test_layers_that_contradict_themselves_are_left_to_the_claims(read) -> None:
    assert layer_of(read, [24, 8, 3, 3], 48) is None  # deeper frames than there are channels
    assert layer_of(read, [32, 24, 3, 3], 8, sums=[63], side=0) is None
    assert layer_of(read, [32, 24, 3], 8, sums=[63]) is None


def test_kernels_at_once_where_no_sums_are_stored(read) -> None:
    """By the coefficients behind; else the largest share of a 1x1 layer, or the group's depth."""
    scaled = layer_of(read, [36, 24, 3, 3], 8, hardware(47, "Mul", [64], []))
    assert (scaled.kernels, scaled.frames) == (6, 18)
    assert layer_of(read, [36, 24, 3, 3], 8) is None
    assert layer_of(read, [96, 24, 1, 1], 24).kernels == 24
    assert layer_of(read, [64, 24, 1, 1], 24).kernels == 16
    grouped = layer_of(read, [24, 8, 3, 3], 8)
    assert (grouped.kernels, grouped.frames, grouped.grouped) == (8, 3, True)
    # The compiler's cycles tell that the features are read twice.
    twice = layer_of(read, [24, 8, 3, 3], 8, cycles=2 * 24 * 400)
    assert (twice.kernels, twice.frames) == (4, 6)


def edited(**node: Any) -> dict[str, Any]:
    value = document()
    value["graphs"][0]["nodes"][1] |= node
    return value


@pytest.mark.parametrize(
    ("value", "message", "where"),
    [
        (validated(), "has no network, only measurements", "$.graphs"),
        (
            {"specializations": []},
            "this JSON file is not a c_info.json of the vendor's compiler",
            "",
        ),
        (
            edited(name="conv_1"),
            "expected 'epoch_<number>', found 'conv_1'",
            "$.graphs[0].nodes[1].name",
        ),
        (edited(name="epoch_7"), "epoch 2 follows epoch 7", "$.graphs[0].nodes"),
        (
            edited(mapping="NODE_GPU"),
            "unknown mapping 'NODE_GPU'; known: NODE_HW, NODE_EC, NODE_SW, NODE_SW_INTEGER, "
            "NODE_SW_HW, NODE_NO_X, NODE_UNDEF",
            "$.graphs[0].nodes[1].mapping",
        ),
    ],
)
def test_refusals(value, message, where, read) -> None:
    with pytest.raises(FileError) as caught:
        read(value)
    assert (caught.value.message, caught.value.where) == (message, where)


# Public builds.


def public_programs() -> Iterator[tuple[str, Program]]:
    files = sorted(ARTEFACTS.rglob("*c_info.json"))
    if not files:
        pytest.skip("the public builds are not on this machine")
    for file in files:
        yield file.name, program_from_c_info(read_c_info(file))


def test_public_programs_hold_together() -> None:
    for _, program in public_programs():
        verify(program, error=FileError)
        assert len(program.model_md5) == 32


def test_the_slowest_term_is_every_stated_maximum() -> None:
    """Computation or a pool, whichever takes longest; exact, as files state whole cycles."""
    checked = 0
    for name, program in public_programs():
        pools = program.pool_map()
        for epoch in program.epochs:
            claims = epoch.claims
            found = int(max_cycles(claims.compute_cycles, claims.accesses, pools))
            assert found == claims.max_cycles, (name, epoch.number)
            checked += 1
    assert checked > 400
