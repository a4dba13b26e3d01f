"""Tables of a flatbuffer: where the fields of each form of table lie is read once in a file."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

# What struct, numpy and the schema package raise when an offset in the file leads nowhere.
WILD_OFFSET = (
    struct.error,
    IndexError,
    ValueError,
    TypeError,
    OverflowError,
    AttributeError,
    MemoryError,
)
_SIGNED = struct.Struct("<i").unpack_from
_SHORT = struct.Struct("<H").unpack_from
WORD = struct.Struct("<I").unpack_from
_MOST_SLOTS = 64  # the schema's largest table has fewer
_SLOTS = tuple(struct.Struct(f"<{count}H").unpack_from for count in range(_MOST_SLOTS + 1))


@lru_cache(1024)
def _form(form: str) -> Callable[[bytes, int], tuple[Any, ...]]:
    return struct.Struct(f"<{form}").unpack_from


class Table:
    """A table of the file. Fields are named by their slot, the place in the vtable."""

    __slots__ = ("data", "pos", "slots", "vtables")

    def __init__(
        self, data: bytes, pos: int, vtables: dict[int, tuple[int, ...]] | None = None
    ) -> None:
        self.data, self.pos = data, pos
        # Tables of one form share a vtable: the slots of each are read once in a file.
        self.vtables = vtables = {} if vtables is None else vtables
        vtable = pos - _SIGNED(data, pos)[0]
        if vtable not in vtables:
            if vtable < 0:
                raise IndexError  # a negative position would be read from the end
            count = min((_SHORT(data, vtable)[0] + 1) // 2, _MOST_SLOTS)
            vtables[vtable] = _SLOTS[count](data, vtable)
        self.slots = vtables[vtable]

    def place(self, slot: int) -> int:
        """Where a field lies; 0 where it is absent."""
        index = slot >> 1
        offset = self.slots[index] if index < len(self.slots) else 0
        return self.pos + offset if offset else 0

    def number(self, slot: int, form: str, default: Any = 0) -> Any:
        slots, index = self.slots, slot >> 1  # as in `place`: fields are most of a file
        if index >= len(slots) or not slots[index]:
            return default
        return _form(form)(self.data, self.pos + slots[index])[0]

    def table(self, slot: int) -> Table | None:
        place = self.place(slot)
        if not place:
            return None
        return Table(self.data, place + WORD(self.data, place)[0], self.vtables)

    def vector(self, slot: int) -> tuple[int, int]:
        """Count and start; (0, 0) where it is absent."""
        slots, index = self.slots, slot >> 1
        if index >= len(slots) or not slots[index]:
            return 0, 0
        place = self.pos + slots[index]
        start = place + WORD(self.data, place)[0]
        return WORD(self.data, start)[0], start + 4

    def numbers(self, vector: tuple[int, int], form: str) -> tuple[Any, ...]:
        count, start = vector
        return _form(f"{count}{form}" if count > 1 else form)(self.data, start) if count else ()

    def item(self, vector: tuple[int, int], index: int) -> Table:
        """One of a vector of tables."""
        place = vector[1] + 4 * index
        return Table(self.data, place + WORD(self.data, place)[0], self.vtables)
