"""What a function with a library call declares: its tables, arrays and buffers."""

from __future__ import annotations

import msgspec

from npuscope.errors import FileError
from npuscope.program.addresses import AddressMap
from npuscope.program.model import Buffer
from npuscope.program.network_c.c_values import Struct, Value
from npuscope.program.network_c.parse_source import Function
from npuscope.program.network_c.read_head import Pools, read_buffer, tables_of
from npuscope.structs import replace


class LibraryReader(msgspec.Struct):
    function: Function
    places: AddressMap
    pools: Pools
    epoch: int
    views: list[Buffer] = msgspec.field(default_factory=list)

    def table(self, value: Value) -> list[Buffer]:
        """Buffers of the table that an argument names."""
        for name, rows in tables_of(self.function):
            if name == value:
                return [read_buffer(row, self.function, self.pools) for row in rows]
        raise self._missing(value)

    def _missing(self, value: Value) -> FileError:
        return FileError(f"'{str(value)[:60]}' is missing", where=f"epoch {self.epoch}")

    def array(self, value: Value) -> list[int]:
        """Numbers of the array that an argument names, maybe through an array of pointers."""
        declaration = self.function.declared.get(str(value))
        content = declaration.value if declaration else None
        if isinstance(content, list) and content and isinstance(content[0], str):
            return self.array(content[0])
        if not isinstance(content, list):
            raise self._missing(value)
        return [int(n) for n in content if isinstance(n, int | float)]

    def rows(self, value: Value) -> list[Struct]:
        declaration = self.function.declared.get(str(value))
        content = declaration.value if declaration else None
        rows = content if isinstance(content, list) else [content]
        tensors = [row for row in rows if isinstance(row, Struct)]
        if not tensors or len(tensors) != len(rows):
            raise self._missing(value)
        return tensors

    def first_row(self, value: Value) -> Struct:
        return self.rows(value)[0]

    def view(self, buffer: Buffer, number: int) -> str:
        """A row of a table as the kernel sees it."""
        name = f"epoch_{self.epoch}.{number}"
        owner, _ = self.known(buffer)
        view = replace(buffer, name=name, view_of=owner, first=self.epoch, last=self.epoch)
        self.views.append(view)
        return name

    def known(self, buffer: Buffer) -> tuple[str, int]:
        """The program's own buffer at that place, and the offset into it."""
        pool = next(pool for pool in self.pools.pools if pool.name == buffer.pool)
        place = self.places.ref(pool.address + buffer.offset, self.epoch, buffer.name)
        return place.buffer, place.offset
