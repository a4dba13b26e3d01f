"""programqpc.bin: a CoreProgram in the public container, and back.

Segments: networkdesc.bin and the constants as the vendor's runtime has them, then our own:
`osb.layout`, `osb.deps`, `osb.prog`. A container without `osb.layout` comes from the vendor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from npuscope.errors import FileError, InternalError
from npuscope.many_core.container_desc import networkdesc_of
from npuscope.many_core.container_prog import (
    constants_desc,
    pack_constants,
    program_json,
    program_of,
)
from npuscope.many_core.layout import Dependency, Layout
from npuscope.many_core.layout_json import Edge, layout_from_json, layout_json, with_edges
from npuscope.many_core.networkdesc import encode_networkdesc
from npuscope.many_core.program import CoreProgram
from npuscope.many_core.qpc import (
    CONSTANTS,
    CONSTANTS_DESC,
    NETWORK_DESC,
    Qpc,
    read_qpc,
    write_qpc,
)

LAYOUT, DEPENDENCIES, PROGRAM = "osb.layout", "osb.deps", "osb.prog"
FILE_NAME = "programqpc.bin"
_NO_ID = "0" * 32
_EDGE = np.dtype(
    [
        ("specialization", "<u2"),
        ("data", "<u2"),
        ("source_core", "<u2"),
        ("target_core", "<u2"),
        ("source_oc", "<u4"),
        ("target_oc", "<u4"),
    ]
)


def write_program(program: CoreProgram) -> bytes:
    """The container's bytes. Its id is that of the content, whatever the layout carries."""
    segments = _segments(program)
    layout = segments[LAYOUT].replace(_NO_ID.encode(), _digest(segments).encode(), 1)
    return write_qpc({**segments, LAYOUT: layout})


def with_program_id(program: CoreProgram) -> CoreProgram:
    """The program with the id that its container has: the last step of compiling."""
    layout = replace(program.layout, program_uuid=_digest(_segments(program)))
    return replace(program, layout=layout)


def read_layout(data: bytes) -> Layout:
    """The layout of our own container, dependencies included."""
    return _layout(_own(read_qpc(data)))


def read_program(data: bytes) -> CoreProgram:
    """The whole program of our own container."""
    qpc = _own(read_qpc(data))
    constants = qpc.get(CONSTANTS) or b""
    return program_of(qpc.need(PROGRAM), _layout(qpc), constants)


def is_own(qpc: Qpc) -> bool:
    """Whether the container has what we write beside the vendor's segments."""
    return LAYOUT in qpc.names


def _segments(program: CoreProgram) -> dict[str, bytes]:
    """All segments, with an empty id: it is computed from them."""
    _check(program)
    constants = pack_constants(program.constants)
    return {
        NETWORK_DESC: encode_networkdesc(networkdesc_of(program)),
        CONSTANTS_DESC: constants_desc(len(constants)),
        CONSTANTS: constants,
        LAYOUT: layout_json(replace(program.layout, program_uuid=_NO_ID), dependencies=False),
        DEPENDENCIES: _edges(program.layout).tobytes(),
        PROGRAM: program_json(program),
    }


def _check(program: CoreProgram) -> None:
    """The layout and the devices tell of the same ops; what is stored once must be the same."""
    parts, devices = program.layout.specializations, program.devices
    infos = [
        tuple(tuple(tuple(op.info for op in group) for group in core) for core in device.ops)
        for device in devices
    ]
    if infos != [part.ops for part in parts]:
        raise InternalError("the ops of the layout are not those of the program's devices")


def _digest(segments: Mapping[str, bytes]) -> str:
    """128 bits over names, sizes and bytes."""
    digest = hashlib.sha256()
    for name, data in segments.items():
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()[:32]


def _edges(layout: Layout) -> np.ndarray:
    rows = [
        (index, edge.data, edge.source[0], edge.target[0], edge.source[1], edge.target[1])
        for index, part in enumerate(layout.specializations)
        for edge in part.dependencies
    ]
    return np.array(rows, _EDGE)


def _read_edges(data: bytes) -> list[Edge]:
    if len(data) % _EDGE.itemsize:
        raise FileError(
            f"has {len(data):,} bytes, no multiple of {_EDGE.itemsize}", where=DEPENDENCIES
        )
    return [
        (index, Dependency((source_core, source), (target_core, target), bool(true)))
        for index, true, source_core, target_core, source, target in np.frombuffer(
            data, _EDGE
        ).tolist()
    ]


def _layout(qpc: Qpc) -> Layout:
    layout = layout_from_json(qpc.need(LAYOUT))
    return with_edges(layout, _read_edges(qpc.get(DEPENDENCIES) or b""))


def _own(qpc: Qpc) -> Qpc:
    if not is_own(qpc):
        raise FileError(
            f"the container has no {LAYOUT}: it comes from the vendor's compiler, and the layout "
            "of that one's stats buffers is not public",
            hint="compile with `npuscope manycore compile`, or give the vendor tool's summary or "
            "trace to `npuscope opstats`",
        )
    return qpc
