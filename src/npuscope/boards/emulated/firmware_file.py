"""Firmware files: what lies where, and where names are."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from npuscope.errors import FileError, TargetError

INSTALL_HINT = "pip install 'npuscope[board]'"


@dataclass(frozen=True, slots=True)
class Firmware:
    """Bytes by address, and the addresses of global names."""

    segments: tuple[tuple[int, bytes], ...] = field(repr=False)
    symbols: dict[str, int] = field(repr=False)
    entry: int = 0


def read_firmware(data: bytes, name: str = "firmware") -> Firmware:
    """The loadable parts of an ELF file for Arm."""
    try:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
    except ImportError as error:
        message = "firmware files need pyelftools, which is not installed"
        raise TargetError(message, hint=INSTALL_HINT) from error
    try:
        file = ELFFile(BytesIO(data))
        if file["e_machine"] != "EM_ARM":
            raise FileError("is not firmware for Arm", where=name)
        loads = [s for s in file.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_filesz"]]
        segments = tuple((int(part["p_paddr"]), bytes(part.data())) for part in loads)
        table: Any = file.get_section_by_name(".symtab")
        symbols = {s.name: int(s["st_value"]) for s in table.iter_symbols()} if table else {}
        entry = int(file["e_entry"])
    # What the reader raises on damaged files depends on where the damage is.
    except (ELFError, ValueError, LookupError, TypeError, AttributeError, UnicodeError) as error:
        raise FileError(f"is not an ELF file: {error}", where=name) from error
    if not segments:
        raise FileError("has nothing to load", where=name)
    return Firmware(segments, symbols, entry)
