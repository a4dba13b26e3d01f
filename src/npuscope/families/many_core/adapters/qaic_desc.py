"""The ops of a program container: what would run where, without times.

Older containers list them in networkdesc.bin. Newer ones have opstatsdesc.bin, whose field
numbers are not public: it is read with descriptors that the user supplies."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from npuscope.bounded_file import DESCRIPTOR, read_bytes
from npuscope.errors import FileError
from npuscope.families.many_core.adapters.lanes import ENGINES
from npuscope.families.many_core.adapters.model import Companions, ProfileFile, Sheet, SheetOp
from npuscope.families.many_core.networkdesc import NetworkDesc, decode_networkdesc
from npuscope.families.many_core.qpc import MAGIC, NETWORK_DESC, Qpc, read_qpc_file
from npuscope.profiling.model import Provenance
from npuscope.protobuf import Table, decode_by, read_schema
from npuscope.text import safe_terminal

OPSTATS_DESC = "opstatsdesc.bin"
_ROOT = ".aicopstatsdesc.OpstatsDescriptor"


class _Op(Struct, frozen=True):
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
    engines = tuple(  # of each thread group, by its name
        next((engine for engine in ENGINES if engine.lower() in name.lower()), name)
        for name in (desc.thread_group_names if desc else ())
    )
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

    # Ops alike together, by core, those that write most first.
    counts: Counter[tuple[int, str, str, str, tuple[str, ...]]] = Counter()
    sizes: Counter[tuple[int, str, str, str, tuple[str, ...]]] = Counter()
    for op in ops:
        key = op.core, op.engine, op.kind, op.memory, op.dtypes
        counts[key] += 1
        sizes[key] += op.out_bytes
    rows = [
        SheetOp(*key, name="", count=count, us=None, out_bytes=sizes[key])
        for key, count in counts.items()
    ]
    return Sheet(
        adapter="qaic-desc",
        file=source.path.name,
        network=network,
        provenance=Provenance.VENDOR_FILE,
        ops=tuple(sorted(rows, key=lambda row: (row.core, -(row.out_bytes or 0), row.details))),
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
    message = decode_by(schema, _ROOT, data, f"{source.place}, {OPSTATS_DESC}")
    metadata = _dict(message.get("opstats_metadata"))
    parts = _list(metadata.get("specialization_metadata"))
    if not parts:
        return [], network
    details = _dict(_dict(metadata.get("common_metadata")).get("op_details"))
    names = _Strings(details)
    return list(_described(parts[0], names, engines)), str(parts[0].get("name", network))


class _Strings:
    """Kinds and memories by number."""

    def __init__(self, details: Table) -> None:
        self.kinds = _pairs(details.get("op_kind_id_str_pairs"))
        self.memories = _pairs(details.get("op_memory_id_str_pairs"))


def _pairs(rows: Any) -> dict[int, str]:
    return {int(row.get("id", 0)): str(row.get("str", "")).strip() for row in _list(rows)}


def _described(part: Table, names: _Strings, engines: tuple[str, ...]) -> Iterator[_Op]:
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


def _number(message: Table, name: str) -> int:
    value = message.get(name, 0)
    return value if isinstance(value, int) else 0


def _dict(value: Any) -> Table:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Table]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
