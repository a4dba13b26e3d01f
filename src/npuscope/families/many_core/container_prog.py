"""`osb.prog`: what the simulator needs of a program beyond its layout, as compact JSON.

An op is [oc, waits, transfer, semaphore, port, vtcm]: waits is core, oc, core, oc and so on,
transfer is [bytes, source, target, receivers, multicast, port, peer] or null."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
from msgspec import Struct

from npuscope.errors import FileError
from npuscope.families.many_core.layout import CoreOpInfo, Layout, Specialization
from npuscope.families.many_core.layout_json import parse, valid_text
from npuscope.families.many_core.program import (
    Binding,
    CoreOp,
    CoreProgram,
    DeviceProgram,
    MulticastEntry,
    Pace,
    Space,
    Transfer,
)
from npuscope.plain_data import U64, Node

# --- constants.bin and constantsdesc.bin ---

ALIGNMENT = 64
# static and dynamic bytes, error correction of each, padding
_DESC = struct.Struct("<QQBB6x")
_DTYPE = re.compile(r"[|][biu]1|<[iu][248]|<f[248]")
_MOST_DIMENSIONS = 32


class ConstantsDesc(Struct, frozen=True):
    static_bytes: int
    dynamic_bytes: int
    static_ecc: bool
    dynamic_ecc: bool


def constants_desc(static_bytes: int) -> bytes:
    """The description of constants of which none change at run time."""
    return _DESC.pack(static_bytes, 0, 0, 0)


def read_constants_desc(data: bytes) -> ConstantsDesc:
    if len(data) < _DESC.size:
        raise FileError(f"has {len(data)} bytes, expected {_DESC.size}", where="constantsdesc.bin")
    static, dynamic, static_ecc, dynamic_ecc = _DESC.unpack_from(data)
    return ConstantsDesc(static, dynamic, bool(static_ecc), bool(dynamic_ecc))


def placed_at(constants: Mapping[str, np.ndarray]) -> list[int]:
    """Where each constant starts."""
    starts, at = [], 0
    for array in constants.values():
        starts.append(at)
        at += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    return starts


def pack_constants(constants: Mapping[str, np.ndarray]) -> bytes:
    parts = []
    for array in constants.values():
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        parts += [data, bytes(-len(data) % ALIGNMENT)]
    return b"".join(parts)


def constants_index(constants: Mapping[str, np.ndarray]) -> list[list[object]]:
    """Name, type, shape and place of each: what the program has to say about them."""
    starts = placed_at(constants)
    return [
        [name, array.dtype.newbyteorder("<").str, list(array.shape), start]
        for (name, array), start in zip(constants.items(), starts, strict=True)
    ]


def unpack_constants(index: Node, data: bytes) -> dict[str, np.ndarray]:
    """The arrays, as views of `data`."""
    constants = {}
    for row in index.items():
        name, kind, shape, start = row.exactly(4)
        if not _DTYPE.fullmatch(kind.text()):
            raise kind.error(f"expected a type of numbers such as <f4, found {kind.shown()}")
        dtype = np.dtype(kind.text())
        dims = tuple(entry.integer() for entry in shape.items(_MOST_DIMENSIONS))
        count = math.prod(dims)
        if count * dtype.itemsize > len(data) - start.integer(len(data)):
            raise row.error("leaves constants.bin")
        flat = np.frombuffer(data, dtype, count, start.integer()) if count else np.zeros(0, dtype)
        try:
            constants[name.text()] = flat.reshape(dims)
        except ValueError:  # dimensions that NumPy cannot multiply, one of them 0
            raise shape.error("is not a shape of an array") from None
    return constants


FORMAT = "osb.prog"
VERSION = (1, 0)
_U16, _U32 = 0xFFFF, 0xFFFFFFFF
MOST_PACE = 1_000_000


def program_json(program: CoreProgram) -> bytes:
    record = {
        "format": FORMAT,
        "version": VERSION,
        "devices": [
            {
                "name": valid_text(device.name),
                "multicast": [[entry.receivers, entry.bytes] for entry in device.multicast],
                "vtcm_bytes": device.vtcm_bytes,
                "ops": [[[_op_json(op) for op in group] for group in core] for core in device.ops],
            }
            for device in program.devices
        ],
        "inputs": [_binding_json(binding) for binding in program.inputs],
        "outputs": [_binding_json(binding) for binding in program.outputs],
        "constants": constants_index(program.constants),
        "constant_bytes": program.constant_bytes,
        "macs": program.macs,
        "warnings": [valid_text(warning) for warning in program.warnings],
        "pace": [program.pace.alone, *program.pace.slowdowns],
    }
    return orjson.dumps(record, option=orjson.OPT_SERIALIZE_NUMPY)


def _op_json(op: CoreOp) -> list[Any]:
    waits = [number for pair in op.waits_for for number in pair]
    move, transfer = op.transfer, None
    if move is not None:
        ends = [int(move.source), int(move.target)]
        transfer = [move.bytes, *ends, move.receivers, move.multicast, move.port, move.peer]
    return [op.info.oc, waits, transfer, op.semaphore, op.port_wait, op.vtcm_offset]


def _binding_json(binding: Binding) -> dict[str, Any]:
    return {
        "name": valid_text(binding.name),
        "shape": binding.shape,
        "dtype": binding.dtype,
        "bytes": binding.bytes,
    }


def program_of(data: bytes, layout: Layout, constants: bytes) -> CoreProgram:
    """The program, its ops joined with those of the layout."""
    root = parse(data, FORMAT)
    version = root.get("version").integers()
    if root.get("format").text() != FORMAT or version[:1] != VERSION[:1]:
        raise root.error(f"is of an unknown version, known is {VERSION[0]}.x")
    devices = list(root.get("devices").items())
    if len(devices) != len(layout.specializations):
        raise root.error("has another number of devices than the layout")
    parts = zip(devices, layout.specializations, strict=True)
    pace, node = Pace(), root.find("pace")  # older containers do without
    if node is not None:
        alone, *slowdowns = (one.integer(MOST_PACE, 1) for one in node.items(_U16))
        pace = Pace(alone, tuple(slowdowns))
    return CoreProgram(
        layout=layout,
        devices=tuple(_device(node, part) for node, part in parts),
        inputs=tuple(_binding(node) for node in root.get("inputs").items()),
        outputs=tuple(_binding(node) for node in root.get("outputs").items()),
        constants=unpack_constants(root.get("constants"), constants),
        constant_bytes=root.get("constant_bytes").integer(),
        macs=root.get("macs").integer(),
        warnings=root.get("warnings").texts(),
        pace=pace,
    )


def _device(node: Node, part: Specialization) -> DeviceProgram:
    keys = {(core, op.oc) for core, ops in enumerate(part.ops) for row in ops for op in row}
    table = node.get("ops")
    rows = table.value
    lengths = [list(map(len, core)) for core in part.ops]
    is_table = _lists(rows) and all(_lists(core) for core in rows)
    if not is_table or [list(map(len, core)) for core in rows] != lengths:
        raise table.error("does not have the ops of the layout")
    ops = tuple(
        tuple(
            tuple(
                _op(Node(row, f"{table.path}[{core}][{group}][{i}]"), info, core, group, keys)
                for i, (row, info) in enumerate(zip(rows[core][group], infos, strict=True))
            )
            for group, infos in enumerate(groups)
        )
        for core, groups in enumerate(part.ops)
    )
    entries = [entry.exactly(2) for entry in node.get("multicast").items(0xFFFF)]
    multicast = tuple(MulticastEntry(cores.integer(U64), size.integer()) for cores, size in entries)
    return DeviceProgram(node.get("name").text(), ops, multicast, node.get("vtcm_bytes").integers())


def _lists(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, list) for entry in value)


def _op(node: Node, info: CoreOpInfo, core: int, group: int, keys: set[tuple[int, int]]) -> CoreOp:
    oc, waits, transfer, semaphore, port, offset = node.exactly(6)
    if oc.integer() != info.oc:
        raise oc.error(f"expected {info.oc} as in the layout, found {oc.shown()}")
    numbers = waits.integers(_U32)
    pairs = tuple(zip(numbers[::2], numbers[1::2], strict=False))
    if len(numbers) % 2 or not keys.issuperset(pairs):
        raise waits.error("names an op that does not exist")
    return CoreOp(
        info=info,
        core=core,
        group=group,
        waits_for=pairs,
        transfer=None if transfer.value is None else _transfer(transfer),
        semaphore=semaphore.optional(_U32),
        port_wait=port.optional(0xFFFF),
        vtcm_offset=offset.optional(),
    )


def _transfer(node: Node) -> Transfer:
    size, source, target, receivers, multicast, port, peer = node.exactly(7)
    return Transfer(
        bytes=size.integer(),
        source=Space(source.integer(max(Space))),
        target=Space(target.integer(max(Space))),
        receivers=receivers.integer(U64),
        multicast=multicast.optional(0xFFFF),
        port=port.optional(0xFFFF),
        peer=peer.optional(0xFFFF),
    )


def _binding(node: Node) -> Binding:
    shape = node.get("shape").integers()
    texts = node.get("name").text(), node.get("dtype").text()
    return Binding(texts[0], shape, texts[1], node.get("bytes").integer())
