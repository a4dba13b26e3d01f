"""A Layout as JSON, segment `osb.layout`: what makes a stats buffer readable by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import orjson

from npuscope.errors import FileError
from npuscope.families.many_core.layout import (
    Capacity,
    CoreOpInfo,
    CorePort,
    CoreThread,
    Dependency,
    Engine,
    Layout,
    MemorySpace,
    Pmu,
    Specialization,
    ThreadGroup,
)
from npuscope.families.many_core.opstats.lever import Lever, LeverKind
from npuscope.families.many_core.records import PMU_COUNTERS, SECTIONS, UTIMER_HZ, Section
from npuscope.plain_data import I63, Node
from npuscope.structs import replace
from npuscope.text import safe_terminal

# --- Reading `osb.layout`: types, ranges, and whether its parts agree ---

SEGMENT = "osb.layout"
_U16, _U32 = 0xFFFF, 0xFFFFFFFF
# Tables by core, thread and op are made from these; real devices have 16 and 6.
_MOST_CORES, _MOST_THREADS = 1024, 64
_UUID = re.compile(r"[0-9a-f]{32}")
_ENGINES = {engine.value: engine for engine in Engine}
_MEMORIES = {memory.value: memory for memory in MemorySpace}
# The keys of an op with their types: checked as one tuple, since there may be very many ops.
_OP_TYPES: dict[str, type] = {
    "oc": int,
    "name": str,
    "kind": str,
    "memory": str,
    "dtypes": list,
    "shape": list,
    "out_bytes": int,
    "attrs": str,
    "operands": list,
    "macs": int,
    "rd_bytes": int,
    "wr_bytes": int,
    "async": bool,
    "origin": list,
}
_WANTED = tuple(_OP_TYPES.values())
_op_values = itemgetter(*_OP_TYPES)


def parse(data: bytes, segment: str) -> Node:
    """A segment's JSON."""
    try:
        return Node(orjson.loads(data), segment)
    except orjson.JSONDecodeError as error:
        raise FileError(
            f"is not valid JSON: {error.msg}", where=f"{segment}, byte {error.pos}"
        ) from None


def valid_text(text: str) -> str:
    """The text as UTF-8 can hold it: names of models may have half characters in them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def layout_of(data: bytes, format_name: str, major: int) -> Layout:
    """A layout of this format and major version."""
    root = parse(data, SEGMENT)
    name = root.get("format")
    if name.text() != format_name:
        raise name.error(f"expected '{format_name}', found {name.shown()}")
    version = root.get("version").integers(_U16)
    if not version or version[0] != major:
        raise root.get("version").error(
            f"expected {major}.x, found {'.'.join(map(str, version)) or 'none'}"
        )
    groups = tuple(
        ThreadGroup(node.get("name").text(), node.get("threads").integers(_U16))
        for node in root.get("groups").items(_U16)
    )
    cores = root.get("cores").integer(_MOST_CORES, 1)
    uuid = root.get("program_uuid")
    if not _UUID.fullmatch(uuid.text()):
        raise uuid.error(f"expected 32 hexadecimal digits, found {uuid.shown()}")
    layout = Layout(
        program_uuid=uuid.text(),
        network=root.get("network").text(),
        stats_level=root.get("stats_level").integer(_U16),
        stats_batch=root.get("stats_batch").integer(_U32, 1),
        ddr_stats=root.get("ddr_stats").flag(),
        core_hz=_core_hz(root.get("clocks")),
        cores=cores,
        threads=_threads(root.get("threads"), groups),
        groups=groups,
        ports=tuple(_port(node) for node in root.get("ports").items(_U16)),
        pmu=_pmu(root.get("pmu")),
        specializations=_specializations(root.get("specializations"), cores, len(groups)),
        notes=root.get("notes").texts(),
        capacity=_capacity(root.find("machine")),
        levers=_levers(root.find("levers")),
    )
    return with_edges(layout, _edges(root.get("deps")))


# Parts of a second and of a gain in which levers are written.
_NS_PER_MS, _GAIN_PARTS = 1_000_000, 1_000_000
_LEVER_NUMBERS = ("batch", "cores", "copies", "in_flight")


def _levers(node: Node | None) -> tuple[Lever, ...]:
    """Containers of older versions have none."""
    if node is None:
        return ()
    kinds = {kind.name: kind for kind in LeverKind}
    return tuple(
        Lever(
            _choice(row.get("kind"), kinds),
            row.get("gain").integer() / _GAIN_PARTS,
            row.get("ns").integer() / _NS_PER_MS,
            bound=row.get("bound").flag(),
            obstacle=row.get("obstacle").text(),
            **{name: row.get(name).integer(_U16) for name in _LEVER_NUMBERS},
        )
        for row in node.items(_U16)
    )


def _written_lever(lever: Lever) -> dict[str, Any]:
    return {
        "kind": lever.kind.name,
        "gain": round(lever.gain * _GAIN_PARTS),
        "ns": round(lever.ms * _NS_PER_MS),
        "bound": lever.bound,
        "obstacle": lever.obstacle,
        **{name: getattr(lever, name) for name in _LEVER_NUMBERS},
    }


def _core_hz(node: Node) -> int:
    for clock in node.items(_U16):
        if clock.get("name").text() == "core":
            return clock.get("hz").integer(least=1)
    raise node.error("has no clock 'core'")


def _threads(node: Node, groups: Sequence[ThreadGroup]) -> tuple[CoreThread, ...]:
    threads = tuple(
        CoreThread(
            entry.get("id").integer(_U16),
            _choice(entry.get("engine"), _ENGINES),
            entry.get("group").integer(len(groups) - 1),
        )
        for entry in node.items(_MOST_THREADS)
    )
    ids = [thread.id for thread in threads]
    members = [thread for group in groups for thread in group.threads]
    if not ids or len(set(ids)) != len(ids) or sorted(members) != sorted(ids):
        raise node.error("do not match the groups: each thread belongs to exactly one group")
    return threads


def _choice(node: Node, choices: Mapping[str, Any]) -> Any:
    choice = choices.get(node.text())
    if choice is None:
        raise node.error(f"expected one of {', '.join(choices)}, found {node.shown()}")
    return choice


def _port(node: Node) -> CorePort:
    incoming = _choice(node.get("dir"), {"in": (True,), "out": (False,)})[0]
    peer = node.get("peer").optional(_U16)
    number = node.get("id").integer(_U16)
    return CorePort(number, incoming, node.get("type").text(), node.get("name").text(), peer)


def _capacity(node: Node | None) -> Capacity | None:
    """Containers of older versions do not have it."""
    if node is None or node.value is None:
        return None
    return Capacity(
        node.get("name").text(),
        *(node.get(name).integer(least=1) for name in _CAPACITIES),
    )


_CAPACITIES = ("cores", "vtcm_bytes", "macs_per_cycle", "ddr_bytes_per_s")


def _pmu(node: Node) -> Pmu:
    events = tuple(event.integer(_U32) for event in node.get("events").items(PMU_COUNTERS))
    return Pmu(node.get("recipe").text(), events)


def _specializations(node: Node, cores: int, groups: int) -> tuple[Specialization, ...]:
    parts = []
    for entry in node.items(_U16):
        table = [_core_ops(one, groups) for one in entry.get("ops").items(cores)]
        if len(table) != cores:
            raise entry.get("ops").error(f"has {len(table)} cores, the layout {cores}")
        parts.append(Specialization(entry.get("name").text(), tuple(table)))
    if not parts:
        raise node.error("is empty")
    return tuple(parts)


def _core_ops(node: Node, groups: int) -> tuple[tuple[CoreOpInfo, ...], ...]:
    ops = tuple(tuple(map(_op, group.items())) for group in node.items(groups))
    if len(ops) != groups:
        raise node.error(f"has {len(ops)} thread groups, the layout {groups}")
    numbers = [op.oc for group in ops for op in group]
    if len(set(numbers)) != len(numbers):
        raise node.error("has two ops with the same number")
    return ops


def _op(node: Node) -> CoreOpInfo:
    try:
        values = _op_values(node.value)
    except (KeyError, TypeError):
        raise _odd_op(node) from None
    if tuple(map(type, values)) != _WANTED:
        raise _odd_op(node)
    oc, name, kind, memory, dtypes, shape, out, attrs, operands, macs, rd, wr, wait, origin = values
    dims = _all(node, shape, int)
    sizes = (out, macs, rd, wr, *dims)
    if oc > _U32 or min(oc, *sizes) < 0 or max(sizes) > I63:
        raise node.error("has a number out of range")
    return CoreOpInfo(
        oc=oc,
        name=name,
        kind=kind,
        memory=_MEMORIES.get(memory) or _choice(node.get("memory"), _MEMORIES),
        dtypes=_all(node, dtypes, str),
        shape=dims,
        out_bytes=out,
        macs=macs,
        rd_bytes=rd,
        wr_bytes=wr,
        attributes=attrs,
        operands=_all(node, operands, str),
        asynchronous=wait,
        origin=_all(node, origin, str),
    )


def _all(node: Node, values: list[Any], kind: type) -> tuple[Any, ...]:
    if set(map(type, values)) - {kind}:
        raise node.error(f"has a list with an entry that is not a {kind.__name__}")
    return tuple(values)


def _odd_op(node: Node) -> FileError:
    """Names the first key that is missing or of another type."""
    for key, kind in _OP_TYPES.items():
        entry = node.get(key)
        if type(entry.value) is not kind:
            return entry.error(f"expected {kind.__name__}, found {entry.shown()}")
    return node.error("is not an op")


Edge = tuple[int, Dependency]  # index of the specialization, and the edge


def _edges(node: Node) -> list[Edge]:
    edges = []
    for entry in node.items():
        ends = [entry.get(name).integers(_U32) for name in ("src", "dst")]
        if any(len(end) != 2 for end in ends):
            raise entry.error("does not lead from [core, oc] to [core, oc]")
        source, target = ((end[0], end[1]) for end in ends)
        number = entry.get("specialization").integer(_U16)
        edges.append((number, Dependency(source, target, entry.get("true").flag())))
    return edges


def with_edges(layout: Layout, edges: Iterable[Edge]) -> Layout:
    """The layout with dependencies, each between ops that exist."""
    lists: list[list[Dependency]] = [[] for _ in layout.specializations]
    keys = [
        {(core, op.oc) for core, groups in enumerate(part.ops) for group in groups for op in group}
        for part in layout.specializations
    ]
    for number, edge in edges:
        if number >= len(lists) or not {edge.source, edge.target} <= keys[number]:
            ends = safe_terminal(f"{edge.source} to {edge.target}")
            raise FileError(
                f"a dependency from {ends} of specialization {number} has no op at an end",
                where="osb.deps",
            )
        lists[number].append(edge)
    parts = zip(layout.specializations, lists, strict=True)
    return replace(
        layout,
        specializations=tuple(
            replace(part, dependencies=(*part.dependencies, *own)) for part, own in parts
        ),
    )


FORMAT = "osb"
VERSION = (1, 0)
PMU_WIDTH = 32  # bits of a counter; differences are meant modulo this


def layout_json(layout: Layout, *, dependencies: bool = True) -> bytes:
    """The layout with keys in a fixed order. A container has the dependencies in their segment."""
    core_clock = {"name": "core", "hz": layout.core_hz}
    record = {
        "format": FORMAT,
        "version": VERSION,
        "program_uuid": layout.program_uuid,
        "network": valid_text(layout.network),
        "stats_level": layout.stats_level,
        "stats_batch": layout.stats_batch,
        "ddr_stats": layout.ddr_stats,
        "clocks": [{"name": "utimer", "hz": UTIMER_HZ}, core_clock],
        "cores": layout.cores,
        "threads": [
            {"id": thread.id, "engine": thread.engine.value, "group": thread.group}
            for thread in layout.threads
        ],
        "groups": [{"name": group.name, "threads": group.threads} for group in layout.groups],
        "ports": [
            {
                "id": port.id,
                "dir": "in" if port.incoming else "out",
                "type": port.kind,
                "name": valid_text(port.name),
                "peer": port.peer,
            }
            for port in layout.ports
        ],
        "pmu": {
            "recipe": layout.pmu.recipe,
            "events": layout.pmu.events,
            "width": PMU_WIDTH,
        },
        "specializations": [_written_specialization(part) for part in layout.specializations],
        "sections": [_section(section) for section in SECTIONS.values()],
        "deps": [
            {"specialization": index, "src": edge.source, "dst": edge.target, "true": edge.data}
            for index, part in enumerate(layout.specializations)
            for edge in part.dependencies
        ]
        if dependencies
        else [],
        "notes": [valid_text(note) for note in layout.notes],
        "machine": _written_capacity(layout.capacity),
        "levers": [_written_lever(lever) for lever in layout.levers],
    }
    return orjson.dumps(record, option=orjson.OPT_SERIALIZE_NUMPY)


def _written_capacity(capacity: Capacity | None) -> dict[str, Any] | None:
    if capacity is None:
        return None
    numbers = {name: getattr(capacity, name) for name in _CAPACITIES}
    return {"name": valid_text(capacity.machine), **numbers}


def layout_from_json(data: bytes) -> Layout:
    """Read a layout; every number is checked before anything relies on it."""
    return layout_of(data, FORMAT, VERSION[0])


def _written_specialization(part: Specialization) -> dict[str, Any]:
    ops = [[[_written_op(op) for op in group] for group in groups] for groups in part.ops]
    return {"name": valid_text(part.name), "ops": ops}


def _written_op(op: CoreOpInfo) -> dict[str, Any]:
    return {
        "oc": op.oc,
        "name": valid_text(op.name),
        "kind": valid_text(op.kind),
        "memory": op.memory.value,
        "dtypes": op.dtypes,
        "shape": op.shape,
        "out_bytes": op.out_bytes,
        "attrs": valid_text(op.attributes),
        "operands": [valid_text(operand) for operand in op.operands],
        "macs": op.macs,
        "rd_bytes": op.rd_bytes,
        "wr_bytes": op.wr_bytes,
        "async": op.asynchronous,
        "origin": [valid_text(name) for name in op.origin],
    }


def _section(section: Section) -> dict[str, Any]:
    names = ("name", "type", "unit", "meaning")
    # The fields that distinguish one record from another.
    keys = ("core", "thread", "oc", "sample", "port", "seq", "src_dev", "dst_dev", "txn")
    own = {field[0] for field in section.fields}
    return {
        "id": int(section.id),
        "name": section.id.name,
        "min_level": section.min_level,
        "needs": section.needs.name.lower(),
        "record": [dict(zip(names, field, strict=True)) for field in section.fields],
        "index": ",".join(key for key in keys if key in own),
    }
