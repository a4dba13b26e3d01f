"""A small network as a runtime-loadable image: two software epochs that add numbers.

It has one pool of each kind: read-only parameters and external RAM that are relocated, one pool
that is copied and one that is cleared. The packing here is the tests' own, apart from the
package's, so that the loader is checked against the format and not against the packager.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from firmware.bare_build import (
    FIRMWARE,
    TARGET,
    WARNINGS,
    Core,
    built,
    segments_and_symbols,
    zig,
)

COUNT = 8  # numbers in each tensor
WEIGHTS = tuple(range(100, 100 + COUNT))
COPIED = tuple(range(7, 7 + COUNT))
BIAS = 1000

_SOURCE = Path(__file__).with_name("sample_network.c")

# Moves relative to R9 count from the first section of a PT_LOAD: RAM needs one of its own.
_SCRIPT = """
ENTRY(ec_network_init)
PHDRS { ro PT_LOAD; rw PT_LOAD; }
weights_symbol = 0x80000000;
middle_symbol = 0x90000000;
SECTIONS {
  . = 0x20000000;
  .header : { . += 95; BYTE(0) } :ro
  .text : { *(.text .text.*) *(.rodata .rodata.*) . = ALIGN(8); } :ro
  code_end = .;
  . = 0x40000000;
  .data : { *(.data .data.*) data_end = .; *(.context) *(.pools)
            got_start = .; *(.got_words) got_end = .; . = ALIGN(8); } :rw
  bss_start = .;
  .bss : { *(.bss .bss.* COMMON) . = ALIGN(8); } :rw
  bss_end = .;
  /DISCARD/ : { *(.ARM.exidx*) *(.ARM.attributes) *(.comment) }
}
"""

_HEADER_WORDS = """
    magic flags data_start data_end data_data bss_start bss_end got_start got_end rel_start
    rel_end params_start params_offset ec_network_init ec_inference_init input_setter
    input_getter output_setter output_getter get_epoch_items get_output_buffers_info
    get_input_buffers_info get_internal_buffers_info ctx
"""
_CONTEXT_WORDS = """
    state file_addr ram_addr rom_addr callbacks c_name acts_sz params_sz ext_ram_sz
    rt_version_desc rt_version rt_version_extra params_bin_sz params_bin_crc32 struct_sizes
    ll_instance interface
"""
HEADER = tuple(_HEADER_WORDS.split())
CONTEXT = tuple(_CONTEXT_WORDS.split())
POOL = ("name", "flags", "foff", "dst", "size")


@dataclass(frozen=True, slots=True)
class Board:
    """Where things lie on a board that runs the sample."""

    core: Core
    file: int
    params: int
    exec_ram: int
    ext_ram: int
    copy_pool: int
    reset_pool: int
    buffers: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The image without its trailer, and its parameters when they are apart."""

    body: bytes
    params: bytes = b""

    @property
    def sealed(self) -> bytes:
        return seal(self.body)

    def word(self, name: str) -> int:
        return int(struct.unpack_from("<I", self.body, 4 * HEADER.index(name))[0])

    def stored(self, address: int) -> int:
        """Where a RAM address lies in the file."""
        return (self.word("data_data") + address) & 0xFFFFFFF

    def patched(self, at: int, value: int) -> Sample:
        body = bytearray(self.body)
        struct.pack_into("<I", body, at, value & 0xFFFFFFFF)
        return replace(self, body=bytes(body))

    def with_header(self, name: str, value: int) -> Sample:
        return self.patched(4 * HEADER.index(name), value)

    def with_context(self, name: str, value: int) -> Sample:
        return self.patched(self.stored(self.word("ctx")) + 4 * CONTEXT.index(name), value)

    def with_pool(self, index: int, name: str, value: int) -> Sample:
        pool = self.stored(self.word("params_start")) + 20 * index
        return self.patched(pool + 4 * POOL.index(name), value)

    def relocations(self) -> list[int]:
        start, end = (self.word(name) & 0xFFFFFFF for name in ("rel_start", "rel_end"))
        return [place for (place,) in struct.iter_unpack("<I", self.body[start:end])]


def seal(data: bytes) -> bytes:
    return data + struct.pack("<4I", 0x5254504E, 1, len(data), zlib.crc32(data))


def parameters() -> bytes:
    return struct.pack(f"<{2 * COUNT}i", *WEIGHTS, *COPIED)


def expected(inputs: tuple[int, ...], inference: int) -> tuple[int, ...]:
    rows = zip(inputs, WEIGHTS, COPIED, strict=True)
    return tuple(sum(row) + BIAS + 2 * inference for row in rows)


def build_sample(board: Board, split: bool = False, defines: tuple[str, ...] = ()) -> Sample:
    return _pack(_link(board, defines), board.core, split)


def _link(board: Board, defines: tuple[str, ...]) -> Path:
    pools = (f"COPY_POOL={board.copy_pool:#x}", f"RESET_POOL={board.reset_pool:#x}")
    flags = [*TARGET, *WARNINGS, f"-mcpu={board.core.cpu}", "-Os", "-fropi", "-frwpi", "-c"]
    flags += [f"-D{name}" for name in ("LL_ATON_EB_DBG_INFO", *pools, *defines)]
    headers = sorted((FIRMWARE / "include").glob("*.h"))
    memory = FIRMWARE / "runtime/memory.c"

    def make(target: Path) -> None:
        script = target.with_suffix(".ld")
        script.write_text(_SCRIPT)
        objects = [target.with_suffix(".o"), target.with_suffix(".memory.o")]
        for file, result in zip((_SOURCE, memory), objects, strict=True):
            zig("cc", *flags, f"-I{FIRMWARE / 'include'}", file, "-o", result)
        zig("ld.lld", "-T", script, "--emit-relocs", *objects, "-o", target)

    return built(".rel.elf", [*flags, _SOURCE, _SCRIPT, memory, *headers], make)


def _absolute_words(elf: Path) -> list[int]:
    """Addresses of the words that hold an address (R_ARM_ABS32)."""
    elffile = pytest.importorskip("elftools.elf.elffile")
    with elf.open("rb") as stream:
        sections = elffile.ELFFile(stream).iter_sections()
        tables = [section for section in sections if section.name.startswith(".rel.")]
        return [
            entry["r_offset"]
            for table in tables
            for entry in table.iter_relocations()
            if entry["r_info_type"] == 2
        ]


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _pack(elf: Path, core: Core, split: bool) -> Sample:
    loads, symbols = segments_and_symbols(elf)
    at = symbols.__getitem__
    code = dict(loads)[0x20000000].ljust(at("code_end") - 0x20000000, b"\0")
    data = dict(loads)[0x40000000].ljust(at("bss_start") - 0x40000000, b"\0")
    places = [p for p in _absolute_words(elf) if not at("got_start") <= p < at("got_end")]
    rel = struct.pack(f"<{len(places)}I", *places)
    start = len(code) + len(data)
    params_offset = 0 if split else start + len(_padded(rel))
    header = _header(at, core, (len(code), start, start + len(rel), params_offset))
    body = header + code[len(header) :] + data + _padded(rel)
    return Sample(body, parameters()) if split else Sample(body + parameters())


def _header(at: Callable[[str], int], core: Core, sizes: tuple[int, int, int, int]) -> bytes:
    code, rel_start, rel_end, params_offset = sizes
    flags = 0x80000000 | 7 << 20 | 9 << 16 | 2 << 13 | 1 << 12 | core.part
    words = [0x4E49424E, flags, 0x40000000, at("data_end"), 0x20000000 | code]
    words += [at(name) for name in ("bss_start", "bss_end", "got_start", "got_end")]
    words += [0x20000000 | rel_start, 0x20000000 | rel_end, at("pools"), params_offset]
    words += [at(name) | 1 for name in HEADER[13:23]]
    return struct.pack("<24I", *words, at("context"))
