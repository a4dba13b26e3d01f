"""Boards to load images on, and what it means that one is accepted or refused."""

from __future__ import annotations

import struct
from dataclasses import replace

from firmware.bare import (
    CLEAR,
    COPY,
    M33,
    M55,
    BareM33,
    Code,
    Do,
    Install,
    Reply,
    build_firmware,
)
from firmware.sample_image import COUNT, Board, Sample, parameters

HERE = Board(
    M33, 0x70000000, 0x70200000, 0x34100000, 0x90000000, 0x34200000, 0x34270000, 0x90100000
)
THERE = Board(
    M55, 0x70000000, 0x70200000, 0x21000000, 0x90000000, 0x21200000, 0x21300000, 0x90100000
)
EXEC_BYTES = 0x10000
INPUTS = tuple(range(-3, COUNT - 3))
FLASH, RAM = 0x20000000, 0x40000000


def arguments(board: Board, size: int, split: bool = False) -> Install:
    params = {"params": board.params, "params_limit": len(parameters()) + 16} if split else {}
    places = (board.exec_ram, EXEC_BYTES, board.ext_ram, 0x1000)
    return Install(board.file, size, *places, **params, mode=COPY | CLEAR)


def memories(board: Board) -> tuple[int, ...]:
    return (2, board.copy_pool, 0x1000, board.reset_pool, 0x1000)


def new_board() -> BareM33:
    emulated = BareM33(build_firmware(M33), watch=True)
    emulated.command(Do.MEMORIES, *memories(HERE))
    return emulated


def installed(data: bytes, **changes: int) -> tuple[BareM33, Reply]:
    """Load a file and install it; `changes` are fields of `Install`."""
    emulated = new_board()
    config = replace(arguments(HERE, len(data)), **changes)
    emulated.load(config.file, data)
    return emulated, emulated.install(config)


def accepts(data: bytes, **changes: int) -> BareM33:
    emulated, reply = installed(data, **changes)
    assert (reply.status, reply.reason) == (Code.NONE, "")
    return emulated


def refuses(data: bytes, code: Code, reason: str, **changes: int) -> None:
    """With this code, and without a write, a call or a read behind the file."""
    emulated, reply = installed(data, **changes)
    assert (reply.status, reply.reason) == (code, reason)
    assert emulated.writes == []
    assert emulated.executed == []
    end = changes.get("file", HERE.file) + changes.get("file_limit", len(data))
    assert all(address + size <= end for address, size in emulated.reads)


def infer(emulated: BareM33, count: int) -> tuple[int, ...]:
    emulated.load(HERE.buffers, struct.pack(f"<{COUNT}i", *INPUTS))
    emulated.command(Do.SET_INPUT, 0, HERE.buffers, 4 * COUNT)
    emulated.command(Do.SET_OUTPUT, 0, HERE.buffers + 64, 4 * COUNT + 8)
    assert emulated.command(Do.RUN, count).status == Code.NONE
    return struct.unpack(f"<{COUNT}i", emulated.read(HERE.buffers + 64, 4 * COUNT))


def refuses_sample(sample: Sample, code: Code, reason: str, **changes: int) -> None:
    """Its checksum is right: only what the test changed is wrong."""
    refuses(sample.sealed, code, reason, **changes)
