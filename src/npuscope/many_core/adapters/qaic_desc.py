"""The ops of a program container: what would run where, without times.

Older containers list them in networkdesc.bin. Newer ones have opstatsdesc.bin, whose field
numbers are not public: it is read with descriptors that the user supplies."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from npuscope.boards.wire.protobuf import Wire, fields, read_varint
from npuscope.bounded_file import DESCRIPTOR, read_bytes
from npuscope.errors import DeviceError, FileError
from npuscope.many_core.adapters.lanes import ENGINES
from npuscope.many_core.adapters.model import Companions, OpRow, ProfileFile, Sheet
from npuscope.many_core.networkdesc import NetworkDesc, decode_networkdesc
from npuscope.many_core.qpc import MAGIC, NETWORK_DESC, Qpc, read_qpc_file
from npuscope.profiling.model import Provenance
from npuscope.text import safe_terminal

# --- Protobuf messages, read by a schema that the user supplies ---

Message = dict[str, Any]

_DEEPEST = 32
# Kinds of fields in descriptors.
_STRING, _MESSAGE, _BYTES, _SINT32, _SINT64 = 9, 11, 12, 17, 18
_INT64, _INT32, _ENUM = 3, 5, 14
_REPEATED = 3


@dataclass(frozen=True, slots=True)
class FieldDescriptor:
    name: str
    repeated: bool
    kind: int
    type_name: str


Schema = dict[str, dict[int, FieldDescriptor]]


def read_schema(data: bytes, place: str) -> Schema:
    """Messages by full name, of a FileDescriptorSet or of a single FileDescriptorProto."""
    try:
        found = dict(_set(data))
        # In a single file field 1 is its name, so that nothing was found in it.
        schema = found or dict(_file(data))
    except (DeviceError, RecursionError) as error:
        raise _broken(error, place) from error
    if not schema:
        raise FileError(
            "no message is described in this file",
            where=place,
            hint="expected a protobuf FileDescriptorSet (protoc --descriptor_set_out)",
        )
    return schema


def _set(data: bytes) -> Iterator[tuple[str, dict[int, FieldDescriptor]]]:
    for number, value, _ in fields(data):
        if number == 1 and isinstance(value, bytes):
            try:
                yield from list(_file(value))
            except DeviceError:  # a name, not a file
                continue


def _file(data: bytes) -> Iterator[tuple[str, dict[int, FieldDescriptor]]]:
    parts = list(fields(data))
    package = next((_text(value) for number, value, _ in parts if number == 2), "")
    for number, value, _ in parts:
        if number == 4 and isinstance(value, bytes):
            yield from _message(value, f".{package}" if package else "", 0)


def _message(
    data: bytes, scope: str, depth: int
) -> Iterator[tuple[str, dict[int, FieldDescriptor]]]:
    if depth > _DEEPEST:
        return
    parts = list(fields(data))
    name = next((_text(value) for number, value, _ in parts if number == 1), "")
    full = f"{scope}.{name}"
    described = [_field(value) for number, value, _ in parts if number == 2]
    yield full, dict(described)
    for number, value, _ in parts:
        if number == 3 and isinstance(value, bytes):
            yield from _message(value, full, depth + 1)


def _field(data: Wire) -> tuple[int, FieldDescriptor]:
    values = {
        number: value for number, value, _ in fields(data if isinstance(data, bytes) else b"")
    }
    return _int(values.get(3)), FieldDescriptor(
        _text(values.get(1)), _int(values.get(4)) == _REPEATED, _int(values.get(5)),
        _text(values.get(6)),
    )  # fmt: skip


def _text(value: Wire | None) -> str:
    return value[:1000].decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _int(value: Wire | None) -> int:
    return value if isinstance(value, int) else 0


def decode_by(schema: Schema, type_name: str, data: bytes, place: str) -> Message:
    """A message as names and values; repeated fields are lists, unknown ones are skipped."""
    if type_name not in schema:
        raise FileError(
            f"the descriptors do not know {type_name.lstrip('.')}",
            where=place,
            hint="take them from the tool that belongs to the program's SDK",
        )
    try:
        return _decode(schema, type_name, data, 0)
    except (DeviceError, RecursionError) as error:
        raise _broken(error, place) from error


def _decode(schema: Schema, type_name: str, data: bytes, depth: int) -> Message:
    if depth > _DEEPEST:
        raise DeviceError(f"messages are nested more than {_DEEPEST} deep")
    table = schema.get(type_name, {})
    found: Message = {}
    for number, wire, _ in fields(data):
        field = table.get(number)
        if field is None:
            continue
        values = [_value(schema, field, one, depth) for one in _several(field, wire)]
        if field.repeated:
            found.setdefault(field.name, []).extend(values)
        elif values:
            found[field.name] = values[-1]
    return found


def _several(field: FieldDescriptor, wire: Wire) -> Iterator[Wire]:
    """Numbers of a repeated field may be packed into one run of bytes."""
    numeric = field.kind not in (_STRING, _MESSAGE, _BYTES)
    if not (numeric and field.repeated and isinstance(wire, bytes)):
        yield wire
        return
    at = 0
    while at < len(wire):
        number, at = read_varint(wire, at)
        yield number


def _value(schema: Schema, field: FieldDescriptor, wire: Wire, depth: int) -> Any:
    if field.kind == _MESSAGE and isinstance(wire, bytes):
        return _decode(schema, field.type_name, wire, depth + 1)
    if field.kind == _STRING and isinstance(wire, bytes):
        return wire.decode("utf-8", "replace")
    if isinstance(wire, int):
        return _signed(field.kind, wire)
    return wire


def _signed(kind: int, value: int) -> int:
    if kind in (_SINT32, _SINT64):
        return (value >> 1) ^ -(value & 1)
    if kind in (_INT32, _INT64, _ENUM) and value >> 63:
        return value - (1 << 64)
    return value


def _broken(error: Exception, place: str) -> FileError:
    what = error.message if isinstance(error, DeviceError) else "nested too deeply"
    at = error.where if isinstance(error, DeviceError) else ""
    return FileError(safe_terminal(what), where=f"{place}, {at}" if at else place)


OPSTATS_DESC = "opstatsdesc.bin"
_ROOT = ".aicopstatsdesc.OpstatsDescriptor"


@dataclass(frozen=True, slots=True)
class _Op:
    core: int
    engine: str
    kind: str
    memory: str
    dtypes: tuple[str, ...]
    out_bytes: int


def probe(source: ProfileFile) -> int:
    if source.head[:4] == struct.pack("<I", MAGIC):
        return 80
    return 70 if source.path.name in (NETWORK_DESC, OPSTATS_DESC) else 0


def read(source: ProfileFile, companions: Companions) -> Sheet:
    desc, newer, notes = _parts(source)
    engines = _engines(desc) if desc else ()
    ops = list(_listed(desc, engines)) if desc else []
    network = desc.network_name if desc else ""
    if not ops and newer is not None:
        ops, network = _from_newer(newer, engines, companions, source, network)
    if not ops:
        raise FileError(
            "no ops are listed in this program",
            where=source.place,
            hint="compile it with -stats-level=70",
        )
    return Sheet(
        adapter="qaic-desc",
        file=source.path.name,
        network=network,
        provenance=Provenance.VENDOR_FILE,
        ops=_rows(ops),
        notes=("an inventory of ops: nothing was timed", *notes),
    )


def _parts(source: ProfileFile) -> tuple[NetworkDesc | None, bytes | None, tuple[str, ...]]:
    """The two descriptors of a container, or the one that the file is."""
    if source.path.name == OPSTATS_DESC:
        return None, source.read(DESCRIPTOR), ()
    if source.path.name == NETWORK_DESC:
        return decode_networkdesc(source.read(DESCRIPTOR)), None, ()
    qpc: Qpc = read_qpc_file(source.path)
    data = qpc.get(NETWORK_DESC)
    return (
        None if data is None else decode_networkdesc(data),
        qpc.get(OPSTATS_DESC),
        qpc.notes,
    )


def _engines(desc: NetworkDesc) -> tuple[str, ...]:
    """Of each thread group, by its name."""
    return tuple(
        next((engine for engine in ENGINES if engine.lower() in name.lower()), name)
        for name in desc.thread_group_names
    )


def _engine(engines: tuple[str, ...], group: int) -> str:
    return engines[group] if group < len(engines) else f"group {group}"


def _listed(desc: NetworkDesc, engines: tuple[str, ...]) -> Iterator[_Op]:
    for core, groups in enumerate(desc.stats.core_op_name_kinds if desc.stats else ()):
        for group, table in enumerate(groups.tg_op_name_kinds):
            for op in table.op_name_kinds:
                types = tuple(part.strip() for part in op.type.strip("()").split(",") if part)
                engine = _engine(engines, group)
                yield _Op(core, engine, op.kind.strip(), op.memory, types, op.output_size)


def _from_newer(
    data: bytes, engines: tuple[str, ...], companions: Companions, source: ProfileFile, network: str
) -> tuple[list[_Op], str]:
    if companions.descriptors is None:
        raise FileError(
            f"the ops of this program are in {OPSTATS_DESC}, whose schema is not public",
            where=source.place,
            hint="give the FileDescriptorSet of your SDK with --descriptors",
        )
    place = safe_terminal(str(companions.descriptors))
    schema = read_schema(read_bytes(companions.descriptors, DESCRIPTOR), place)
    found = decode_by(schema, _ROOT, data, f"{source.place}, {OPSTATS_DESC}")
    metadata = _dict(found.get("opstats_metadata"))
    parts = _list(metadata.get("specialization_metadata"))
    if not parts:
        return [], network
    details = _dict(_dict(metadata.get("common_metadata")).get("op_details"))
    names = _Strings(details)
    return list(_described(parts[0], names, engines)), str(parts[0].get("name", network))


class _Strings:
    """Kinds and memories by number."""

    def __init__(self, details: Message) -> None:
        self.kinds = _pairs(details.get("op_kind_id_str_pairs"))
        self.memories = _pairs(details.get("op_memory_id_str_pairs"))


def _pairs(rows: Any) -> dict[int, str]:
    return {int(row.get("id", 0)): str(row.get("str", "")).strip() for row in _list(rows)}


def _described(part: Message, names: _Strings, engines: tuple[str, ...]) -> Iterator[_Op]:
    for core, groups in enumerate(_list(part.get("core_op_name_kinds"))):
        for group, table in enumerate(_list(groups.get("tg_op_name_kinds"))):
            for op in _list(table.get("op_name_kinds")):
                kind, memory = _number(op, "kind_id"), _number(op, "memory_id")
                yield _Op(
                    core,
                    _engine(engines, group),
                    names.kinds.get(kind, f"kind {kind}"),
                    names.memories.get(memory, f"memory {memory}"),
                    (),
                    max(0, _number(op, "output_size")),
                )


def _number(message: Message, name: str) -> int:
    value = message.get(name, 0)
    return value if isinstance(value, int) else 0


def _dict(value: Any) -> Message:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Message]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _rows(ops: Iterable[_Op]) -> tuple[OpRow, ...]:
    """Ops alike together, by core, those that write most first."""
    counts: Counter[tuple[int, str, str, str, tuple[str, ...]]] = Counter()
    sizes: Counter[tuple[int, str, str, str, tuple[str, ...]]] = Counter()
    for op in ops:
        key = op.core, op.engine, op.kind, op.memory, op.dtypes
        counts[key] += 1
        sizes[key] += op.out_bytes
    rows = [
        OpRow(*key, name="", count=count, us=None, out_bytes=sizes[key])
        for key, count in counts.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.core, -(row.out_bytes or 0), row.details)))
