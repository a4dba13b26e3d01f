"""Linker scripts and maps: regions, sections and what they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuscope.application.linker import read_linker_file
from npuscope.errors import FileError

SCRIPT = """
/* MEMORY { WRONG : ORIGIN = 0, LENGTH = 1K } */
_Min_Heap_Size = 0x200;
_Min_Stack_Size = 4 * 1024;
RAM_SIZE = 2048K - 1K;
MEMORY
{
  AXISRAM1_2_S (xrw) : ORIGIN = 0x34000400, LENGTH = RAM_SIZE
  PSRAM (xrw)        : ORIGIN = 0x91000000, LENGTH = 16M
  NONE (rw)          : ORIGIN = 0x0, LENGTH = 0
}
SECTIONS
{
  .text : { *(.text) } >AXISRAM1_2_S
  .psram (NOLOAD) : { *(.psram_bss) } > PSRAM
}
"""
MAP = """
Memory Configuration

Name             Origin             Length             Attributes
RAM              0x34000400         0x000ffc00         xrw
PSRAM            0x91000000         0x01000000         xrw
*default*        0x00000000         0xffffffff

Linker script and memory map

.text           0x34000400    0x12345
 .text          0x34000400       0x88 a.o
.a_section_with_a_long_name
                0x34020000      0x100
.psram          0x91000000    0x26a700
"""


def test_regions_of_a_script(tmp_path: Path) -> None:
    (tmp_path / "a.ld").write_text(SCRIPT)
    layout = read_linker_file(tmp_path / "a.ld")
    rows = [(r.name, r.address, r.size_bytes) for r in layout.regions]
    assert rows == [("AXISRAM1_2_S", 0x34000400, 2047 * 1024), ("PSRAM", 0x91000000, 16 << 20)]
    assert (layout.heap_bytes, layout.stack_bytes) == (512, 4096)
    assert [(s.name, s.region) for s in layout.sections] == [
        (".text", "AXISRAM1_2_S"), (".psram", "PSRAM"),
    ]  # fmt: skip


def test_use_of_a_map(tmp_path: Path) -> None:
    (tmp_path / "a.map").write_text(MAP)
    layout = read_linker_file(tmp_path / "a.map")
    assert [layout.used_bytes(region) for region in layout.regions] == [0x1FD00, 0x26A700]


@pytest.mark.parametrize("text", ["", "MEMORY {", "MEMORY { A : ORIGIN = x, LENGTH = 1K }"])
def test_without_regions(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.ld").write_text(text)
    with pytest.raises(FileError):
        read_linker_file(tmp_path / "a.ld")
