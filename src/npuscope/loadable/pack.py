"""A linked network and its parameters as the bytes of a runtime-loadable image."""

from __future__ import annotations

from dataclasses import dataclass, fields

from npuscope.loadable.codes import FloatAbi, Segment, address_in, aligned, offset_of
from npuscope.loadable.layout import MAGIC, Flags, Header, Trailer
from npuscope.loadable.link import CONTEXT, GOT_END, GOT_START, POOLS, entry_functions
from npuscope.loadable.pack_elf import Linked
from npuscope.loadable.pack_relocations import Places, check_got, places_to_rebase
from npuscope.loadable.toolchain import Toolchain
from npuscope.text import safe_terminal

_FUNCTIONS_FROM = 13
LOADER_ALIGNMENT = 8

# Parameters start where the NPU can read whole bursts, as in the pool that they were placed in.
_BURST_BYTES = 64


@dataclass(frozen=True, slots=True)
class Packed:
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
        data_start=address_in(Segment.RAM, 0),
        data_end=got[0],
        data_data=address_in(Segment.FLASH, data_at),
        bss_start=address_in(Segment.RAM, len(linked.data)),
        bss_end=address_in(Segment.RAM, _ram_bytes(linked)),
        got_start=got[0],
        got_end=got[1],
        rel_start=address_in(Segment.FLASH, rel_at),
        rel_end=address_in(Segment.FLASH, rel_at + len(places.listed)),
        params_start=linked.symbol(POOLS),
        params_offset=0 if split else params_at,
        **_functions(linked, suffix),
        context=linked.symbol(CONTEXT),
    )
    code = (header.pack() + linked.flash[Header.BYTES :]).ljust(data_at, b"\xff")
    data = linked.data.ljust(rel_at - data_at, b"\0")
    image = (code + data + places.listed).ljust(params_at, b"\0")
    notes = _notes(linked)
    if split:
        return Packed(_sealed(image), _sealed(parameters), places, notes)
    return Packed(_sealed(image + parameters), None, places, notes)


def xip_obstacle(linked: Linked, places: Places) -> str:
    """Why the code cannot stay in flash; nothing where it can."""
    if not places.flash:
        return ""
    names = dict.fromkeys(linked.holder(place) for place in places.flash)
    shown = ", ".join(safe_terminal(name) for name in list(names)[:3] if name)
    more = " and others" if len(names) > 3 else ""
    return (
        f"{len(places.flash)} words between the code hold addresses ({shown}{more}): "
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
    names = [entry.name for entry in fields(Header)][_FUNCTIONS_FROM:-1]
    functions = entry_functions(suffix)
    return {name: linked.symbol(functions[name]) for name in names}


def _ram_bytes(linked: Linked) -> int:
    return max(offset_of(linked.bss_end), len(linked.data))


def _notes(linked: Linked) -> tuple[str, ...]:
    if linked.data_alignment <= LOADER_ALIGNMENT:
        return ()
    return (
        f"data asks for an alignment of {linked.data_alignment} bytes: give the loader RAM that "
        "is aligned so, it keeps 8 by itself",
    )
