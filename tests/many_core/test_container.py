"""Programs in their container: round trips, the id, and what a foreign container gets."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import orjson
import pytest

from many_core import samples
from npuscope.errors import FileError, InternalError
from npuscope.families.many_core.container import (
    is_own,
    read_layout,
    read_program,
    with_program_id,
    write_program,
)
from npuscope.families.many_core.container_prog import read_constants_desc
from npuscope.families.many_core.layout import Dependency
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.qpc import read_qpc, write_qpc
from npuscope.structs import replace

PROGRAM = samples.program()
DATA = write_program(PROGRAM)


def changed(**segments: bytes) -> bytes:
    """The container with other segments; `osb_prog` names osb.prog."""
    qpc = read_qpc(DATA)
    whole = {name: qpc.need(name) for name in qpc.names}
    return write_qpc({**whole, **{k.replace("_", "."): v for k, v in segments.items()}})


def prog(**entries: Any) -> bytes:
    record = orjson.loads(read_qpc(DATA).need("osb.prog"))
    return changed(osb_prog=orjson.dumps({**record, **entries}))


def refused(data: bytes) -> str:
    with pytest.raises(FileError) as caught:
        read_program(data)
    return str(caught.value)


@pytest.mark.parametrize("devices", [1, 2])
def test_what_is_written_reads_the_same(devices: int) -> None:
    program = samples.program(samples.layout(cores=3, devices=devices))
    data = write_program(program)
    again = read_program(data)
    assert again == program
    assert read_layout(data) == program.layout
    assert write_program(again) == data


def test_constants_come_back_as_they_were() -> None:
    constants = {
        "half": np.arange(6, dtype=np.float16).reshape(2, 3),
        "scalar": np.array(7, np.int64),
        "none": np.zeros((0, 4), np.float32),
        "other order": np.arange(5, dtype=">i4"),
        "odd": np.array([True, False, True]),
        "turned": np.arange(6, dtype=np.int8).reshape(2, 3).T,
    }
    again = read_program(write_program(replace(PROGRAM, constants=constants)))
    assert list(again.constants) == list(constants)
    for name, array in constants.items():
        np.testing.assert_array_equal(again.constants[name], array)
        assert again.constants[name].dtype == array.dtype.newbyteorder("<")


def test_the_segments_are_the_public_ones_and_ours() -> None:
    qpc = read_qpc(DATA)
    names = "networkdesc.bin constantsdesc.bin constants.bin osb.layout osb.deps osb.prog"
    assert list(qpc.names) == names.split()
    desc = qpc.need("constantsdesc.bin")
    assert desc == struct.pack("<QQ8x", len(qpc.need("constants.bin")), 0)
    assert read_constants_desc(desc).static_bytes == 128
    with pytest.raises(FileError, match="has 23 bytes, expected 24"):
        read_constants_desc(desc[:23])


def test_the_id_is_that_of_the_content() -> None:
    made = with_program_id(PROGRAM).layout.program_uuid
    assert made == read_layout(DATA).program_uuid == PROGRAM.layout.program_uuid
    assert len(made) == 32
    # Whatever the layout carried before does not matter; anything else does.
    other_id = replace(PROGRAM, layout=replace(PROGRAM.layout, program_uuid="f" * 32))
    assert write_program(other_id) == DATA
    others: list[CoreProgram] = [
        replace(PROGRAM, macs=1),
        replace(PROGRAM, constants={**PROGRAM.constants, "bias": np.zeros(6, np.int32)}),
        replace(PROGRAM, layout=replace(PROGRAM.layout, stats_level=40)),
    ]
    ids = {with_program_id(other).layout.program_uuid for other in others}
    assert len({made, *ids}) == 4


def test_a_name_like_an_empty_id_does_not_take_its_place() -> None:
    layout = replace(samples.layout(), network="0" * 32)
    again = read_layout(write_program(samples.program(layout)))
    assert again.network == "0" * 32
    assert again.program_uuid != "0" * 32


def test_ops_are_stored_once_so_they_have_to_be_the_same() -> None:
    with pytest.raises(InternalError, match="are not those of the program's devices"):
        write_program(replace(PROGRAM, layout=samples.layout(cores=1)))


def test_a_container_of_the_vendor() -> None:
    vendor = write_qpc({"network.elf": b"\x7fELF", "networkdesc.bin": b""})
    assert not is_own(read_qpc(vendor))
    assert is_own(read_qpc(DATA))
    with pytest.raises(FileError, match=r"(?s)comes from the vendor's compiler.*not public"):
        read_layout(vendor)


def test_dependencies_of_ops_that_do_not_exist() -> None:
    edge = Dependency((0, 0), (7, 7))
    part = replace(PROGRAM.layout.specializations[0], dependencies=(edge,))
    layout = replace(PROGRAM.layout, specializations=(part,))
    data = write_program(replace(PROGRAM, layout=layout))
    with pytest.raises(FileError, match=r"osb\.deps: a dependency from \(0, 0\) to \(7, 7\)"):
        read_layout(data)
    with pytest.raises(FileError, match=r"osb\.deps: has 15 bytes, not a multiple of 16"):
        read_layout(changed(osb_deps=bytes(15)))


def first_op(position: int, value: Any) -> bytes:
    record = orjson.loads(read_qpc(DATA).need("osb.prog"))
    record["devices"][0]["ops"][0][0][0][position] = value
    return changed(osb_prog=orjson.dumps(record))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (prog(version=[2, 0]), "unknown version"),
        (prog(devices=[]), "another number of devices"),
        (prog(inputs=[{"name": "x"}]), "osb.prog.inputs[0].shape: this key is missing"),
        (prog(macs=-1), "osb.prog.macs: expected a number from 0 to 9223372036854775807, found -1"),
        (prog(constants=[["w", "<f4", [1 << 40], 0]]), "leaves constants.bin"),
        (prog(constants=[["w", "<f4", [9], 96]]), "leaves constants.bin"),
        (prog(constants=[["w", "<f4", [4], 1 << 40]]), "osb.prog.constants[0][3]"),
        (prog(constants=[["w", "O", [4], 0]]), "expected a type of numbers"),
        (prog(constants=[["w", "<f4", [1] * 40, 0]]), "has 40 entries, at most 32"),
        (prog(constants=[["w", "<f4"]]), "osb.prog.constants[0]: expected 4 entries, found 2"),
        (prog(constants=[["w", "<f4", [0, 1 << 62, 1 << 62], 0]]), "is not a shape of an array"),
        (first_op(0, 99), "expected 3 as in the layout, found 99"),
        (first_op(1, [0]), "names an op that does not exist"),
        (first_op(1, [0, 99]), "names an op that does not exist"),
        (first_op(2, [1, 2]), "expected 7 entries, found 2"),
        (first_op(2, [1, 9, 0, 0, None, None, None]), "expected a number from 0 to 4, found 9"),
        (
            first_op(3, "s"),
            ".devices[0].ops[0][0][0][3]: expected a number from 0 to 4294967295, found 's'",
        ),
    ],
)
def test_programs_that_lie(data: bytes, words: str) -> None:
    assert words in refused(data)


def test_a_table_of_ops_of_another_form() -> None:
    record = orjson.loads(read_qpc(DATA).need("osb.prog"))
    for ops in ([], [[], []], None, [[1], [2]], record["devices"][0]["ops"][:1]):
        record["devices"][0]["ops"] = ops
        data = changed(osb_prog=orjson.dumps(record))
        assert "does not have the ops of the layout" in refused(data)
