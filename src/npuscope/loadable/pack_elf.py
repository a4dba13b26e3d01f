"""A linked ELF file as the packer needs it: two segments, symbols, and what was relocated."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from npuscope.errors import InternalError, TargetError
from npuscope.loadable.codes import Segment, segment_of
from npuscope.loadable.toolchain import INSTALL_HINT
from npuscope.text import safe_terminal

FLASH, DATA, BSS = ".flash", ".data", ".bss"
_PLACED = (FLASH, DATA, BSS, ".params_0", ".params_1")
_ALLOCATED = 2
_ARM = "EM_ARM"


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place that the linker filled: by which rule, and with whose address."""

    kind: str
    place: int
    symbol: str
    target: int


@dataclass(frozen=True, slots=True)
class Linked:
    """`flash` begins with room for the header; `data` ends with the GOT."""

    flash: bytes
    data: bytes
    bss_end: int
    symbols: dict[str, int]
    relocations: tuple[Relocation, ...]
    data_alignment: int

    def word(self, address: int) -> int:
        block = self.flash if segment_of(address) == Segment.FLASH else self.data
        offset = address & 0x0FFFFFFF
        return int.from_bytes(block[offset : offset + 4], "little")

    def symbol(self, name: str) -> int:
        if name not in self.symbols:
            raise InternalError(f"the linked image has no symbol {name}")
        return self.symbols[name]

    def holder(self, address: int) -> str:
        """The symbol whose bytes a place lies in, or before."""
        known = sorted((value & ~1, name) for name, value in self.symbols.items())
        index = bisect_right(known, (address, "\x7f")) - 1
        return known[index][1] if index >= 0 else ""


def read_elf(data: bytes) -> Linked:
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError:
        raise TargetError("pyelftools is not installed", hint=INSTALL_HINT) from None
    elf = ELFFile(BytesIO(data))
    if elf["e_machine"] != _ARM:
        raise InternalError(f"the linker made an image for {elf['e_machine']}")
    sections = {section.name: section for section in elf.iter_sections()}
    _refuse_stray(sections)
    table = sections[".symtab"]
    return Linked(
        flash=_content(sections, FLASH),
        data=_content(sections, DATA),
        bss_end=_end(sections),
        symbols=_symbols(table),
        relocations=tuple(_relocations(elf, table)),
        data_alignment=max(_alignment(sections, name) for name in (DATA, BSS)),
    )


def _refuse_stray(sections: dict[str, Any]) -> None:
    for name, section in sections.items():
        if section["sh_flags"] & _ALLOCATED and section["sh_size"] and name not in _PLACED:
            raise TargetError(
                f"the source puts something into section '{safe_terminal(name)}', "
                "which images do not have",
                hint="remove the section attribute from network.c",
            )


def _content(sections: dict[str, Any], name: str) -> bytes:
    if name not in sections or sections[name]["sh_type"] == "SHT_NOBITS":
        return b""
    content: bytes = sections[name].data()
    return content


def _end(sections: dict[str, Any]) -> int:
    present = [sections[name] for name in (DATA, BSS) if name in sections]
    return max((section["sh_addr"] + section["sh_size"] for section in present), default=0)


def _alignment(sections: dict[str, Any], name: str) -> int:
    return int(sections[name]["sh_addralign"]) if name in sections else 1


def _symbols(table: Any) -> dict[str, int]:
    """Functions and variables; local names may repeat, those that we look up do not."""
    return {
        symbol.name: int(symbol["st_value"])
        for symbol in table.iter_symbols()
        if symbol.name and not symbol.name.startswith("$")
    }


def _relocations(elf: Any, table: Any) -> list[Relocation]:
    from elftools.elf.descriptions import describe_reloc_type

    found: list[Relocation] = []
    for section in elf.iter_sections():
        if section["sh_type"] != "SHT_REL":
            continue
        if not elf.get_section(section["sh_info"])["sh_flags"] & _ALLOCATED:
            continue
        for entry in section.iter_relocations():
            symbol = table.get_symbol(entry["r_info_sym"])
            kind = describe_reloc_type(entry["r_info_type"], elf)
            found.append(Relocation(kind, entry["r_offset"], symbol.name, int(symbol["st_value"])))
    return found
