"""The firmware's callbacks and debug services on this machine, on our debug unit."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from pathlib import Path

from firmware.host_npu import FIRMWARE, INCLUDES, WARNINGS, zig_cc
from npuscope.boards.device import NodeCounters
from npuscope.boards.emulated.npu_debug import CacheRegisters, DebugRegisters
from npuscope.boards.runtime import EpochBlock
from npuscope.program.ec_blob.registers import clock_gate, page_of
from npuscope.sim.debug_unit import DebugUnit

SOURCES = (
    *sorted((FIRMWARE / "npu").glob("*.c")),
    FIRMWARE / "validation" / "instrument.c",
    FIRMWARE / "validation" / "describe.c",
    FIRMWARE / "validation" / "wire_fields.c",
    FIRMWARE / "validation" / "wire_frame.c",
)
CACHE = 0xFFFFFC00
DEBUG = page_of("DEBUG_TRACE", 0)
HOOKS = """\
#include "instrument.h"
void (*host_write)(uint32_t, uint32_t);
uint32_t (*host_read)(uint32_t);
uint32_t (*host_cycles)(void);
void npu_test_write(uint32_t offset, uint32_t value) { host_write(offset, value); }
uint32_t npu_test_read(uint32_t offset) { return host_read(offset); }
uint8_t npu_test_load(uintptr_t address) { return *(const uint8_t *)address; }
uint32_t instrument_mcu_cycles(void) { return host_cycles(); }
static validation_node found;
static void keep(void *who, const validation_node *node, const NPUSCOPE_ITEM *block) {
  (void)block;
  found = *node;
  ++*(uint32_t *)who;
}
static uint32_t nodes;
const validation_node *host_node(void) { return &found; }
uint32_t host_nodes(void) { return nodes; }
void host_start(uint32_t options) { nodes = 0; instrument_start(options, keep, &nodes); }
"""
_WRITE = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32)
_READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)
_CYCLES = ctypes.CFUNCTYPE(ctypes.c_uint32)
WORD = ctypes.c_uint32


class Item(ctypes.Structure):
    _fields_ = (
        ("start", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
        ("blob", ctypes.c_size_t),
        ("wait_mask", WORD),
        ("flags", ctypes.c_uint16),
        ("first", ctypes.c_int16),
        ("last", ctypes.c_int16),
        ("inputs", WORD),
        ("outputs", WORD),
        ("npu_cycles", ctypes.c_uint64),
        ("total_cycles", ctypes.c_uint64),
    )


class Engine(ctypes.Structure):
    _fields_ = (("engine", ctypes.c_uint8), ("way", ctypes.c_char), ("cycles", WORD))


class Node(ctypes.Structure):
    _fields_ = (
        ("number", ctypes.c_int32),
        ("last", ctypes.c_int32),
        ("flags", WORD),
        ("block", ctypes.c_int),
        ("mcu_cycles", WORD * 3),
        ("has_npu_cycles", ctypes.c_bool),
        ("has_bursts", ctypes.c_bool),
        ("has_cache", ctypes.c_bool),
        ("npu_cycles", WORD * 3),
        ("engine_way", ctypes.c_char),
        ("active_engines", WORD),
        ("henv_engines", WORD),
        ("active", Engine * 16),
        ("henv", Engine * 16),
        ("bursts", WORD * 4 * 2 * 2),
        ("cache", WORD * 8),
    )


def build_instrument(folder: Path) -> ctypes.CDLL:
    (folder / "hooks.c").write_text(HOOKS, encoding="utf-8")
    includes = [*INCLUDES, *(f"-I{FIRMWARE / part}" for part in ("validation", "runtime"))]
    defines = ("-DNPU_TEST_REGISTERS", "-DLL_ATON_EB_DBG_INFO")
    flags = ("-shared", "-fPIC", *WARNINGS, *includes, *defines)
    files = (*map(str, SOURCES), str(folder / "hooks.c"))
    messages = zig_cc(*flags, *files, "-o", "instrument.so", folder=folder)
    assert messages == "", messages
    loaded = ctypes.CDLL(str(folder / "instrument.so"))
    loaded.host_node.restype = ctypes.POINTER(Node)
    return loaded


@dataclass
class Bench:
    """The registers that the firmware sees: our debug unit's, the cache's, and clock gates."""

    library: ctypes.CDLL
    unit: DebugUnit
    gates: int = 0
    faults: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._debug, self._cache = DebugRegisters(self.unit), CacheRegisters(self.unit)
        self._hooks = (
            ("host_write", _WRITE(self._write)),
            ("host_read", _READ(self._read)),
            ("host_cycles", _CYCLES(lambda: self.unit.mcu_cycles & 0xFFFFFFFF)),
        )
        for name, hook in self._hooks:
            place = ctypes.c_void_p.in_dll(self.library, name)
            place.value = ctypes.cast(hook, ctypes.c_void_p).value

    def _write(self, offset: int, value: int) -> None:
        if offset >= CACHE:
            self._cache.write((offset - CACHE) // 4, value)
        elif offset // 4096 == DEBUG:
            if not self.gates >> clock_gate(DEBUG) & 1:
                self.faults.append(offset)
            self._debug.write(offset % 4096 // 4, value)
        else:
            self.gates = value

    def _read(self, offset: int) -> int:
        if offset >= CACHE:
            return self._cache.read((offset - CACHE) // 4)
        return self._debug.read(offset % 4096 // 4) if offset // 4096 == DEBUG else self.gates


def node_of(found: Node, block: EpochBlock) -> NodeCounters:
    """What the firmware counted, as our own record."""
    active = found.active[: found.active_engines]
    bursts = {
        (port, way): tuple(found.bursts[port][at]) for port in (0, 1) for at, way in enumerate("wr")
    }
    cache = tuple(found.cache)
    return NodeCounters(
        block.name,
        found.number,
        found.last,
        block.kind,
        flags=found.flags,
        mcu_cycles=tuple(found.mcu_cycles),
        npu_cycles=tuple(found.npu_cycles) if found.has_npu_cycles else None,
        engines={(row.engine, row.way.decode()): row.cycles for row in active},
        henv={row.engine: row.cycles for row in found.henv[: found.henv_engines]},
        bursts=bursts if found.has_bursts else {},
        cache_read=cache[:4] if found.has_cache else None,
        cache_write=cache[4:] if found.has_cache else None,
    )


def item_of(block: EpochBlock) -> Item:
    return Item(
        flags=block.flags,
        first=block.number,
        last=block.last_number,
        inputs=block.in_mask,
        outputs=block.out_mask,
    )
