"""Files of a build that go into a firmware: network.c, its header, blobs, and images of weights."""

from __future__ import annotations

from dataclasses import replace

from npuscope.errors import TargetError
from npuscope.machine.model import Machine
from npuscope.program.ec_blob.binary import write_binary
from npuscope.program.ec_blob.header import blob_name, write_header
from npuscope.program.ec_blob.lower import binary_of
from npuscope.program.model import Pool, Program
from npuscope.program.network_c.writer import network_c_text, network_h_text
from npuscope.program.serialize import images
from npuscope.text import file_name

# The C side of a build: network.c, its header, and epoch-controller blobs.

Files = dict[str, str | bytes]


def code_files(program: Program, machine: Machine, name: str) -> tuple[tuple[str, ...], Files]:
    """C and blobs. What the blobs cannot hold the CPU starts; what the runtime cannot do at all
    leaves out the C."""
    try:
        blobs = blob_arrays(program, name)
        files: Files = {f"{name}_ecblobs.h": write_header(blobs)} if blobs else {}
        return (), files | _c_files(program, machine, name)
    except TargetError as error:
        note = f"no blobs were written, network.c starts epochs by the CPU: {_told(error)}"
    try:
        return (note,), _c_files(without_blobs(program), machine, name)
    except TargetError as error:
        return (f"no network.c was written: {_told(error)}",), {}


def _c_files(program: Program, machine: Machine, name: str) -> Files:
    return {
        f"{name}.c": network_c_text(program, machine, name),
        f"{name}.h": network_h_text(program, machine, name),
    }


def _told(error: TargetError) -> str:
    return f"{error.where}: {error.message}" if error.where else error.message


def without_blobs(program: Program) -> Program:
    epochs = tuple(replace(epoch, blob=None) for epoch in program.epochs)
    return replace(program, epoch_controller=False, epochs=epochs)


def blob_arrays(program: Program, name: str) -> dict[str, bytes]:
    """Epoch-controller code by array name; none when the CPU starts the epochs."""
    if not program.epoch_controller:
        return {}
    numbers = sorted({epoch.blob for epoch in program.executed if epoch.blob is not None})
    return {blob_name(name, n): write_binary(binary_of(program, n, name)) for n in numbers}


# Weight images: the bytes of each pool that holds parameters, as files to flash or to load.

_PREFIX = "atonbuf"
_HEX_BYTES = 32
_DATA, _END, _UPPER_ADDRESS = 0, 1, 4
_PAGE_BYTES = 0x10000
_ADDRESS_END = 1 << 32


def pool_images(program: Program) -> dict[str, bytes]:
    """File name -> image, from the pool's first byte to the last parameter; empty without any."""
    found = images(program)
    result: dict[str, bytes] = {}
    for pool in program.pools:
        name = image_name(pool)
        if name in result:
            raise TargetError(f"two pools have the file name '{name}'", where=f"pool '{pool.name}'")
        if not pool.virtual or pool.name in found:
            result[name] = found.get(pool.name, b"")
    return result


def image_name(pool: Pool) -> str:
    return f"{_PREFIX}.{file_name(pool.file_name or pool.name)}.raw"


def hex_text(data: bytes, address: int) -> str:
    """The bytes as Intel HEX, to be put at `address`."""
    if address < 0 or address + len(data) > _ADDRESS_END:
        raise TargetError(f"{len(data)} bytes at {address:#x} do not fit into 32 address bits")
    lines: list[str] = []
    upper = -1
    for start, piece in _pieces(data, address):
        if start >> 16 != upper:
            upper = start >> 16
            lines.append(_record(_UPPER_ADDRESS, 0, upper.to_bytes(2, "big")))
        lines.append(_record(_DATA, start & 0xFFFF, piece))
    return "\n".join([*lines, _record(_END, 0, b""), ""])


def _pieces(data: bytes, address: int) -> list[tuple[int, bytes]]:
    """Lines of equal length; none crosses the border where the upper address changes."""
    pieces = []
    place = 0
    while place < len(data):
        start = address + place
        room = min(_HEX_BYTES - start % _HEX_BYTES, _PAGE_BYTES - start % _PAGE_BYTES)
        pieces.append((start, data[place : place + room]))
        place += room
    return pieces


def _record(kind: int, address: int, data: bytes) -> str:
    body = bytes([len(data), *address.to_bytes(2, "big"), kind]) + data
    return f":{body.hex().upper()}{-sum(body) & 0xFF:02X}"
