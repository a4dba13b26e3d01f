"""Tables of a FlatBuffer, read with every offset checked against the file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from npuscope.errors import FileError


@dataclass(frozen=True, slots=True)
class FlatTable:
    """A table at a byte of the data; fields go by their number in the schema."""

    data: bytes
    at: int
    place: str

    def number(self, field: int, form: str, default: int = 0) -> int:
        """`form` is that of struct, without byte order."""
        at = self._field(field)
        return default if at is None else self._unpack(form, at)

    def table(self, field: int) -> FlatTable | None:
        at = self._field(field)
        return None if at is None else FlatTable(self.data, self._jump(at), self.place)

    def text(self, field: int, limit: int = 1000) -> str:
        at = self._field(field)
        if at is None:
            return ""
        start, size = self._vector(self._jump(at), 1)
        return self.data[start : start + min(size, limit)].decode("utf-8", "replace")

    def tables(self, field: int) -> Iterator[FlatTable]:
        at = self._field(field)
        if at is None:
            return
        start, count = self._vector(self._jump(at), 4)
        for i in range(count):
            yield FlatTable(self.data, self._jump(start + 4 * i), self.place)

    def _field(self, field: int) -> int | None:
        """Where it lies; None where it is absent."""
        vtable = self.at - self._unpack("i", self.at)
        size = self._unpack("H", vtable)
        slot = 4 + 2 * field
        offset = self._unpack("H", vtable + slot) if slot + 2 <= size else 0
        return self.at + offset if offset else None

    def _vector(self, at: int, item: int) -> tuple[int, int]:
        count = self._unpack("I", at)
        if count * item > len(self.data) - at - 4:
            raise self._broken(f"a vector of {count} entries, more than the file holds", at)
        return at + 4, count

    def _jump(self, at: int) -> int:
        return at + self._unpack("I", at)

    def _unpack(self, form: str, at: int) -> int:
        if at < 0 or at + struct.calcsize(f"<{form}") > len(self.data):
            raise self._broken("an offset leads out of the file", at)
        value: int = struct.unpack_from(f"<{form}", self.data, at)[0]
        return value

    def _broken(self, what: str, at: int) -> FileError:
        return FileError(what, where=f"{self.place}: byte {at}")


def root(data: bytes, place: str, start: int = 0) -> FlatTable:
    """The outermost table; a size-prefixed buffer starts at byte 4."""
    whole = FlatTable(data, start, place)
    return FlatTable(data, whole._jump(start), place)
