"""Init structs, switch tables and their calls as unit configurations."""

from __future__ import annotations

import msgspec
from msgspec import field

from npuscope.errors import FileError
from npuscope.program.addresses import AddressMap, reach
from npuscope.program.model import Buffer, Group, Pool
from npuscope.program.network_c.c_values import Macro, Struct, Value
from npuscope.program.network_c.layout import (
    ADDRESS_FIELDS,
    BY_INIT,
    ENUM_VALUES,
    LIMIT_BYTES,
    LIST_FIELDS,
    UNITS,
)
from npuscope.program.network_c.parse_source import CallLine, Function
from npuscope.program.network_c.read_head import FOR_EVER, address_of
from npuscope.program.units import UNIT_TYPES, Link, Port, Ref, Streng, Unit

# A reading engine with 24-bit elements may fetch the rest of its last word past the end.
_TRIPLE_SLACK_BYTES = 2
_ENABLE = "LL_ATON_EnableUnits_Init"
_SWITCH = "LL_Switch_Init"


class UnitReader(msgspec.Struct):
    """Collects the groups of one function; each ends where its units are enabled."""

    function: Function
    places: AddressMap
    epoch: int
    groups: list[Group] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)  # fields that are set and not known
    scratch: list[Buffer] = field(default_factory=list)  # places that no table tells of

    def read(self) -> tuple[Group, ...]:
        arrays = self.function.declared
        for statement in self.function.statements:
            if not isinstance(statement, CallLine):
                continue
            if statement.name in BY_INIT:
                value = arrays[_name(statement.arguments[1])].value
                unit = BY_INIT[statement.name].unit
                number = statement.arguments[0]
                if isinstance(value, list):  # a list of one tensor
                    value = value[0] if value else Struct()
                if not isinstance(value, Struct) or not isinstance(number, int):
                    raise FileError(
                        f"{statement.name} has no init struct", where=f"epoch {self.epoch}"
                    )
                self.units.append(self._record(unit, number, value))
            elif statement.name == _SWITCH and statement.arguments[0] != "NULL":
                rows = arrays[_name(statement.arguments[0])].value
                self.links += [_link(row) for row in rows] if isinstance(rows, list) else []
            elif statement.name == _ENABLE:
                self._close()
        self._close()
        return tuple(self.groups)

    def _close(self) -> None:
        if self.units:
            self.groups.append(Group(tuple(self.units), tuple(self.links)))
            self.units, self.links = [], []

    def _record(self, unit: str, number: int, struct: Struct) -> Unit:
        kind = UNIT_TYPES[unit]
        names = set(kind.__struct_fields__)
        for name, value in struct.fields.items():
            if name not in names and value not in (0, []):
                self.unknown.append(f"{unit} {number}: {name} = {value}")
        values = {name: self._value(unit, name, struct) for name in names - {"id"}}
        if unit == "STRENG":
            # The engine's bytes, counted from the buffer it works on.
            base = address_of(struct.fields.get("addr_base", 0))
            start, end, limit = (
                value if isinstance(value := struct.fields.get(name, 0), int) else 0
                for name in ("offset_start", "offset_end", "offset_limit")
            )
            place = self._found(base, struct)
            shift = place.offset - start
            # The usual limit follows from the end, and means nothing to the values.
            usual = not end or limit == end + LIMIT_BYTES
            values |= {
                "addr_base": Ref(place.buffer),
                "offset_start": place.offset,
                "offset_end": end + shift if end else 0,
                "offset_limit": 0 if usual or not limit else limit + shift,
            }
        return kind(id=number, **values)  # type: ignore[arg-type]

    def _value(self, unit: str, name: str, struct: Struct) -> object:
        value = struct.fields.get(name, 0)
        if name in ADDRESS_FIELDS:
            address = address_of(value) if value else 0
            return self.places.ref(address, self.epoch) if address else None
        if name in LIST_FIELDS:
            return tuple(value) if isinstance(value, list) and len(value) == 3 else (16, 16, 16)
        if isinstance(value, str):
            if value not in ENUM_VALUES:
                self.unknown.append(f"{unit}: {name} = {value}")
                return 0
            return ENUM_VALUES[value]
        if not isinstance(value, int):
            raise FileError(f"{unit}.{name}: expected a number", where=f"epoch {self.epoch}")
        return value

    def _found(self, base: int, struct: Struct) -> Ref:
        """The buffer that the engine's comment names, else the one that holds all its bytes; a
        place that no table tells of becomes a buffer of its own."""
        low, high = _span(struct)
        label = struct.notes.get("addr_base", "").split(" ")[0]
        start = struct.fields.get("offset_start", 0)
        back = (start if isinstance(start, int) else 0) - low
        if label and not self.places.knows(label):
            return Ref(self._new(label, base + low, high - low, struct), back)
        place = self.places.ref(base + low, self.epoch, label)
        if place.offset + high - low > self.places.size_of(place.buffer) + _TRIPLE_SLACK_BYTES:
            name = self._free_name(f"{label}@{self.epoch}")
            return Ref(self._new(name, base + low, high - low, struct), back)
        return Ref(place.buffer, place.offset + back)

    def _free_name(self, name: str) -> str:
        """Several engines of an epoch may reach beyond the same buffer."""
        return f"{name}.{len(self.scratch)}" if self.places.knows(name) else name

    def _new(self, name: str, address: int, size_bytes: int, struct: Struct) -> str:
        pool = self.places.pool_at(address, size_bytes)
        self.scratch.append(_scratch(name, pool, address, size_bytes, struct, self.epoch))
        self.places.add(self.scratch[-1])
        return name


def _span(struct: Struct) -> tuple[int, int]:
    """Bytes that the engine touches, from its base address."""
    names = set(Streng.__struct_fields__) - {"id", "addr_base"}
    numbers = {k: v for k, v in struct.fields.items() if k in names and isinstance(v, int)}
    low, high = reach(Streng(id=0, addr_base=Ref(""), **({"dir": 0} | numbers)))
    return low, high


def _scratch(
    name: str, pool: Pool, address: int, size_bytes: int, struct: Struct, epoch: int
) -> Buffer:
    """A buffer as far as an engine's walk tells of it."""
    sizes = [struct.fields.get(key, 0) for key in ("fheight", "fwidth", "nbits_in", "batch_offset")]
    height, width, nbits, pitch = (size if isinstance(size, int) else 0 for size in sizes)
    nbits = nbits if nbits in (8, 16) else 8
    pixels, elements = max(1, height * width), size_bytes * 8 // nbits
    flat = elements % pixels or pixels == 1
    shape = (elements,) if flat else (1, height, width, elements // pixels)
    return Buffer(
        name,
        size_bytes,
        shape,
        nbits,
        shape[-1] if flat else max(1, pitch * 8 // nbits),
        pool=pool.name,
        offset=address - pool.address,
        first=epoch,
        last=FOR_EVER,
        is_param=not pool.writable,
    )


def _name(value: Value) -> str:
    if not isinstance(value, str):
        raise FileError(f"expected a name, found {str(value)[:60]}")
    return value


def _link(row: Value) -> Link:
    """One destination with one or two contexts."""
    if not isinstance(row, Struct):
        raise FileError("a row of a switch table cannot be read")
    row_fields = row.fields
    frames = [_count(row_fields, f"LL_Switch_Init_Frames({n})") for n in (0, 1)]
    enabled = [_count(row_fields, f"LL_Switch_Init_Context({n})") for n in (0, 1)]
    return Link(
        _port(row_fields.get("LL_Switch_Init_Source(0)")),
        _port(row_fields.get("LL_Switch_Init_Dest()")),
        bool(enabled[0]),
        frames[0],
        bool(enabled[1]),
        frames[1],
    )


def _count(row_fields: dict[str, Value], name: str) -> int:
    value = row_fields.get(name, 0)
    return value if isinstance(value, int) else 0


def _port(value: Value | None) -> Port:
    """ATONN_SRCPORT(switch, 0, unit, number, port)."""
    if not isinstance(value, Macro) or len(value.arguments) != 5:
        raise FileError("a switch port cannot be read")
    unit, number, port = value.arguments[2:]
    if not isinstance(number, int) or not isinstance(port, int) or str(unit) not in UNITS:
        raise FileError(f"unknown switch port {unit} {number}")
    return Port(str(unit), number, port)


def engines(groups: tuple[Group, ...]) -> list[Streng]:
    return [u for group in groups for u in group.units if isinstance(u, Streng)]
