"""Which relocations an image can live with, and the words that a loader has to rebase."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from npuscope.errors import TargetError
from npuscope.loadable.codes import Segment, segment_of
from npuscope.loadable.pack_elf import Linked, Relocation
from npuscope.text import safe_terminal

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
_FROM_RAM_BASE = frozenset(
    {"R_ARM_THM_MOVW_BREL_NC", "R_ARM_THM_MOVW_BREL", "R_ARM_THM_MOVT_BREL", "R_ARM_SBREL32"}
)
# The offset of a word of the GOT, which the loader rebases; the symbol may be anywhere.
_THROUGH_GOT = frozenset({"R_ARM_GOT_BREL", "R_ARM_GOT32"})
_NOTHING = frozenset({"R_ARM_NONE", "R_ARM_V4BX"})
_SEGMENTS = frozenset({Segment.FLASH, Segment.RAM, Segment.PARAM_0, Segment.PARAM_1})
_GCC_HINT = "--toolchain gcc reaches such symbols through a table that can be rebased"


@dataclass(frozen=True, slots=True)
class Places:
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
        tuple(place for place in ordered if segment_of(place) == Segment.RAM),
        tuple(place for place in ordered if segment_of(place) == Segment.FLASH),
    )


def check_got(linked: Linked, start: int, end: int) -> None:
    for place in range(start, end, 4):
        word = linked.word(place)
        if word and segment_of(word) not in _SEGMENTS:
            raise TargetError(f"the GOT holds {word:#x}, which is no place of an image")


def _needs_rebase(linked: Linked, relocation: Relocation) -> bool:
    word = linked.word(relocation.place)
    if word == 0:
        return False  # a weak symbol that nobody defines
    if segment_of(word) in _SEGMENTS and not relocation.place % 4:
        return True
    raise TargetError(
        f"a word holds {word:#x} as address of {_shown(relocation)}, "
        "which is no place that an image has",
        where=safe_terminal(linked.holder(relocation.place)),
    )


def _check(relocation: Relocation) -> None:
    kind, segment = relocation.kind, segment_of(relocation.target)
    if kind in _NOTHING or kind in _THROUGH_GOT:
        return
    if kind in _FROM_CODE and segment == segment_of(relocation.place):
        return
    if kind in _FROM_RAM_BASE and segment == Segment.RAM:
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


def _shown(relocation: Relocation) -> str:
    return f"'{safe_terminal(relocation.symbol)}'" if relocation.symbol else "a constant"
