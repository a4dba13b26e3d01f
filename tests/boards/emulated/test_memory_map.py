"""The addresses in Python are those of the C header."""

from __future__ import annotations

import re

from boards.emulated.programs import FIRMWARE
from npuscope.boards.emulated import memory as memory_map
from npuscope.boards.emulated.memory import BoardMemory, UnitMemory
from npuscope.machine.load import load_machine

HEADER = (FIRMWARE / "board" / "emulated" / "hardware.h").read_text(encoding="utf-8")
NUMBER = r"(?:BOARD_SEEN\()?(\(1u << \d+\)|0x[0-9A-Fa-f]+u|\d+)"  # seen from the secure world
DEFINE = re.compile(rf"^#define (\w+) {NUMBER}", re.MULTILINE)


def value_of(text: str) -> int:
    shifted = re.fullmatch(r"\(1u << (\d+)\)", text)
    return 1 << int(shifted[1]) if shifted else int(text.rstrip("u"), 0)


def test_every_number_of_the_header_is_here() -> None:
    defined = {name: value_of(text) for name, text in DEFINE.findall(HEADER)}
    known = {name: getattr(memory_map, name, None) for name in defined}
    assert len(defined) > 20 and known == defined


def test_the_machines_pools_cover_all_memories() -> None:
    memory, machine = BoardMemory(), load_machine()
    pools = sorted(UnitMemory(memory, machine).pools, key=lambda pool: pool.address)
    for part in memory.memories:
        inside = [p for p in pools if part.address <= p.address < part.end]
        ends = [part.address, *(p.address + p.size_bytes for p in inside)]
        assert [p.address for p in inside] == ends[:-1] and ends[-1] == part.end
    for pool in machine.pools:
        if pool.size_bytes:
            place = UnitMemory(memory, machine).place(pool.address + pool.size_bytes - 1)
            assert place.buffer == pool.name
