"""A linked network and its parameters as the bytes of a runtime-loadable image."""

from __future__ import annotations

import struct
from bisect import bisect_right
from io import BytesIO
from typing import Any

from msgspec import Struct

from npuscope.errors import InternalError, TargetError
from npuscope.loadable.codes import (
    AddressBase,
    FloatAbi,
    address_in,
    aligned,
    offset_of,
    segment_of,
)
from npuscope.loadable.layout import MAGIC, Flags, Header, Trailer
from npuscope.loadable.link import CONTEXT, GOT_END, GOT_START, POOLS, entry_functions
from npuscope.loadable.toolchain import INSTALL_HINT, Toolchain
from npuscope.text import safe_terminal

# --- The linked ELF file: two segments, symbols, relocations ---

FLASH, DATA, BSS = ".flash", ".data", ".bss"
_PLACED = (FLASH, DATA, BSS, ".params_0", ".params_1")
# SHF_ALLOC: the section takes memory on the target.
_ALLOCATED = 2
_ARM = "EM_ARM"


class ElfRelocation(Struct, frozen=True):
    """A place that the linker filled: by which rule, and with whose address."""

    kind: str
    place: int
    symbol: str
    target: int


class Linked(Struct, frozen=True):
    """`flash` begins with room for the header; `data` ends with the GOT."""

    flash: bytes
    data: bytes
    bss_end: int
    symbols: dict[str, int]
    relocations: tuple[ElfRelocation, ...]
    data_alignment: int

    def word(self, address: int) -> int:
        block = self.flash if segment_of(address) == AddressBase.FLASH else self.data
        offset = address & 0x0FFFFFFF
        return int.from_bytes(block[offset : offset + 4], "little")

    def symbol(self, name: str) -> int:
        if name not in self.symbols:
            raise InternalError(f"the linked image has no symbol {name}")
        return self.symbols[name]

    def holder(self, address: int) -> str:
        """The symbol whose bytes a place lies in, or before."""
        # Bit 0 of a function marks Thumb code; it is not part of the address.
        symbols = sorted((value & ~1, name) for name, value in self.symbols.items())
        # Sorts behind every symbol name at the same address.
        index = bisect_right(symbols, (address, "\x7f")) - 1
        return symbols[index][1] if index >= 0 else ""


def read_elf(data: bytes) -> Linked:
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError:
        raise TargetError("pyelftools is not installed", hint=INSTALL_HINT) from None
    elf = ELFFile(BytesIO(data))
    if elf["e_machine"] != _ARM:
        raise InternalError(f"the linker made an image for {elf['e_machine']}")
    sections = {section.name: section for section in elf.iter_sections()}
    # A loader moves code and data only; anything else would stay behind without a warning.
    for name, section in sections.items():
        if section["sh_flags"] & _ALLOCATED and section["sh_size"] and name not in _PLACED:
            raise TargetError(
                f"the source puts something into section '{safe_terminal(name)}', "
                "which images do not have",
                hint="remove the section attribute from network.c",
            )
    table: Any = sections[".symtab"]
    present = [sections[name] for name in (DATA, BSS) if name in sections]
    alignments = (int(section["sh_addralign"]) for section in present)
    return Linked(
        flash=_content(sections, FLASH),
        data=_content(sections, DATA),
        bss_end=max((section["sh_addr"] + section["sh_size"] for section in present), default=0),
        # Local names may repeat, those that we look up do not.
        symbols={
            symbol.name: int(symbol["st_value"])
            for symbol in table.iter_symbols()
            # $t, $d and the like mark code and data for disassemblers.
            if symbol.name and not symbol.name.startswith("$")
        },
        relocations=tuple(_relocations(elf, table)),
        data_alignment=max(alignments, default=1),
    )


def _content(sections: dict[str, Any], name: str) -> bytes:
    if name not in sections or sections[name]["sh_type"] == "SHT_NOBITS":
        return b""
    content: bytes = sections[name].data()
    return content


def _relocations(elf: Any, table: Any) -> list[ElfRelocation]:
    from elftools.elf.descriptions import describe_reloc_type

    relocations: list[ElfRelocation] = []
    for section in elf.iter_sections():
        if section["sh_type"] != "SHT_REL":
            continue
        # Debug sections have relocations too; they are not loaded.
        if not elf.get_section(section["sh_info"])["sh_flags"] & _ALLOCATED:
            continue
        for entry in section.iter_relocations():
            symbol = table.get_symbol(entry["r_info_sym"])
            kind = describe_reloc_type(entry["r_info_type"], elf)
            relocations.append(
                ElfRelocation(kind, entry["r_offset"], symbol.name, int(symbol["st_value"]))
            )
    return relocations


# --- Which relocations an image can keep, and which words a loader has to rebase ---

# Words that hold an address: the loader adds the base of its segment.
_ABSOLUTE = frozenset({"R_ARM_ABS32", "R_ARM_TARGET1"})
# Filled for good by the linker, as long as both ends move together.
_FROM_CODE = frozenset(
    {
        "R_ARM_THM_CALL",
        "R_ARM_THM_JUMP24",
        "R_ARM_THM_JUMP19",
        "R_ARM_THM_JUMP11",
        "R_ARM_THM_JUMP8",
        "R_ARM_THM_MOVW_PREL_NC",
        "R_ARM_THM_MOVT_PREL",
        "R_ARM_THM_ALU_PREL_11_0",
        "R_ARM_THM_PC12",
        "R_ARM_REL32",
    }
)
# Offsets from R9, which every entry point is called with: the base of the data in RAM.
_FROM_RAM_BASE = frozenset(
    {"R_ARM_THM_MOVW_BREL_NC", "R_ARM_THM_MOVW_BREL", "R_ARM_THM_MOVT_BREL", "R_ARM_SBREL32"}
)
# The offset of a word of the GOT, which the loader rebases; the symbol may be anywhere.
_THROUGH_GOT = frozenset({"R_ARM_GOT_BREL", "R_ARM_GOT32"})
_NOTHING = frozenset({"R_ARM_NONE", "R_ARM_V4BX"})
_SEGMENTS = frozenset(
    {AddressBase.FLASH, AddressBase.RAM, AddressBase.PARAM_0, AddressBase.PARAM_1}
)
_GCC_HINT = "--toolchain gcc reaches such symbols through a table that can be rebased"


class Places(Struct, frozen=True):
    """Addresses of words to rebase, by where they lie."""

    ram: tuple[int, ...]
    flash: tuple[int, ...]

    @property
    def listed(self) -> bytes:
        places = (*self.ram, *self.flash)
        return struct.pack(f"<{len(places)}I", *places)


def places_to_rebase(linked: Linked) -> Places:
    """Every relocation is looked at; one that cannot be kept ends the packaging."""
    absolute: set[int] = set()
    for relocation in linked.relocations:
        if relocation.kind in _ABSOLUTE:
            if _needs_rebase(linked, relocation):
                absolute.add(relocation.place)
        else:
            _check(relocation)
    ordered = sorted(absolute)
    return Places(
        tuple(place for place in ordered if segment_of(place) == AddressBase.RAM),
        tuple(place for place in ordered if segment_of(place) == AddressBase.FLASH),
    )


def check_got(linked: Linked, start: int, end: int) -> None:
    for place in range(start, end, 4):
        word = linked.word(place)
        if word and segment_of(word) not in _SEGMENTS:
            raise TargetError(f"the GOT holds {word:#x}, which is not an address in an image")


def _needs_rebase(linked: Linked, relocation: ElfRelocation) -> bool:
    word = linked.word(relocation.place)
    if word == 0:
        return False  # an undefined weak symbol
    if segment_of(word) in _SEGMENTS and not relocation.place % 4:
        return True
    raise TargetError(
        f"a word holds {word:#x} as address of {_shown(relocation)}, "
        "which is not an address in an image",
        where=safe_terminal(linked.holder(relocation.place)),
    )


def _check(relocation: ElfRelocation) -> None:
    kind, segment = relocation.kind, segment_of(relocation.target)
    if kind in _NOTHING or kind in _THROUGH_GOT:
        return
    # A distance is fixed only inside one segment: code and data are moved separately.
    if kind in _FROM_CODE and segment == segment_of(relocation.place):
        return
    if kind in _FROM_RAM_BASE and segment == AddressBase.RAM:
        return
    if kind in _FROM_RAM_BASE | _FROM_CODE:
        raise TargetError(
            f"code refers directly to {_shown(relocation)}, whose distance is not known before "
            "the image is loaded",
            hint=_GCC_HINT,
        )
    raise TargetError(
        f"code refers to {_shown(relocation)} in a way that cannot be moved ({kind})",
        hint="the source must be compiled as position-independent code",
    )


def _shown(relocation: ElfRelocation) -> str:
    return f"'{safe_terminal(relocation.symbol)}'" if relocation.symbol else "a constant"


# Words of the header before the ten functions; the context follows them.
_FUNCTIONS_FROM = 13
# The loader puts data right behind the code, rounded up to this.
LOADER_ALIGNMENT = 8

# Parameters start where the NPU can read whole bursts, as in the pool that they were placed in.
_BURST_BYTES = 64


class Packed(Struct, frozen=True):
    """`params` is None where the parameters are in the image's own file."""

    image: bytes
    params: bytes | None
    places: Places
    notes: tuple[str, ...]


def pack_image(
    linked: Linked,
    parameters: bytes,
    suffix: str,
    toolchain: Toolchain,
    *,
    secure: bool,
    split: bool,
) -> Packed:
    """Header, code, data, places to rebase, parameters, trailer."""
    got = linked.symbol(GOT_START), linked.symbol(GOT_END)
    check_got(linked, *got)
    places = places_to_rebase(linked)
    # Copied code and data lie one after the other, so the first must not spoil the second.
    data_at = aligned(len(linked.flash), max(LOADER_ALIGNMENT, linked.data_alignment))
    rel_at = aligned(data_at + len(linked.data))
    params_at = aligned(rel_at + len(places.listed), LOADER_ALIGNMENT if split else _BURST_BYTES)
    header = Header(
        magic=MAGIC,
        flags=_flags(toolchain, secure).pack(),
        data_start=address_in(AddressBase.RAM, 0),
        data_end=got[0],
        data_data=address_in(AddressBase.FLASH, data_at),
        bss_start=address_in(AddressBase.RAM, len(linked.data)),
        bss_end=address_in(AddressBase.RAM, max(offset_of(linked.bss_end), len(linked.data))),
        got_start=got[0],
        got_end=got[1],
        rel_start=address_in(AddressBase.FLASH, rel_at),
        rel_end=address_in(AddressBase.FLASH, rel_at + len(places.listed)),
        params_start=linked.symbol(POOLS),
        params_offset=0 if split else params_at,
        **_functions(linked, suffix),
        context=linked.symbol(CONTEXT),
    )
    # 0xff is what erased flash holds.
    code = (header.pack() + linked.flash[Header.BYTES :]).ljust(data_at, b"\xff")
    data = linked.data.ljust(rel_at - data_at, b"\0")
    image = (code + data + places.listed).ljust(params_at, b"\0")
    notes = _notes(linked)
    # Each file gets its own trailer, because each can be damaged on its own.
    if split:
        return Packed(_sealed(image), _sealed(parameters), places, notes)
    return Packed(_sealed(image + parameters), None, places, notes)


def xip_obstacle(linked: Linked, places: Places) -> str:
    """Why the code cannot stay in flash; nothing where it can."""
    if not places.flash:
        return ""
    names = dict.fromkeys(linked.holder(place) for place in places.flash)
    examples = ", ".join(safe_terminal(name) for name in list(names)[:3] if name)
    more = " and others" if len(names) > 3 else ""
    return (
        f"{len(places.flash)} words between the code hold addresses ({examples}{more}): "
        "the image must be copied to RAM"
    )


def _sealed(data: bytes) -> bytes:
    return data + Trailer.of(data).pack()


def _flags(toolchain: Toolchain, secure: bool) -> Flags:
    return Flags(
        secure=secure,
        debug_info=True,
        asynchronous=True,
        toolchain=toolchain.code,
        float_abi=FloatAbi.HARD,
        fpu=True,
        cpu=toolchain.target.part,
    )


def _functions(linked: Linked, suffix: str) -> dict[str, int]:
    """The ten entry points in the header's order, each with its Thumb bit."""
    names = Header.__struct_fields__[_FUNCTIONS_FROM:-1]
    functions = entry_functions(suffix)
    return {name: linked.symbol(functions[name]) for name in names}


def _notes(linked: Linked) -> tuple[str, ...]:
    if linked.data_alignment <= LOADER_ALIGNMENT:
        return ()
    return (
        f"data needs an alignment of {linked.data_alignment} bytes: give the loader RAM with that "
        f"alignment, it guarantees only {LOADER_ALIGNMENT}",
    )
