"""The Program's invariants, checked after compilers and readers."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from math import inf

from msgspec import Struct
from msgspec.structs import asdict

from npuscope.errors import FileError, InternalError, NpuscopeError
from npuscope.program.addresses import reach
from npuscope.program.model import Buffer, Epoch, EpochKind, Group, Pool, Program
from npuscope.program.units import Activ, Arith, Port, Ref, Streng, Unit
from npuscope.text import safe_terminal

Problem = tuple[str, str]  # where, what
Placed = tuple[int, int, Buffer]  # first byte, and which of the buffers: no two compare equal

# A reading engine with 24-bit elements may fetch the rest of its last word past the end.
_TRIPLE_SLACK_BYTES = 2
# Fields of units by which amounts of data are divided; 0 is refused.
_DIVISORS = {"CONVACC": ("hstride", "vstride"), "POOL": ("inputX", "inputY", "batchSize")}


class Parts(Struct, frozen=True):
    """A program, taken apart once for all rules."""

    program: Program
    buffers: dict[str, Buffer]
    pools: dict[str, Pool]
    groups: list[tuple[Epoch, Group]]
    units: list[tuple[Epoch, Unit]]


Invariant = Callable[[Parts], Iterator[Problem]]


def parts_of(program: Program) -> Parts:
    groups = [(epoch, group) for epoch in program.epochs for group in epoch.groups or ()]
    units = [(epoch, unit) for epoch, group in groups for unit in group.units]
    return Parts(program, program.buffer_map(), program.pool_map(), groups, units)


def verify(
    program: Program,
    counts: Mapping[str, int] | None = None,
    error: type[NpuscopeError] = InternalError,
) -> None:
    """Raise `error` for the first broken rule; its text names the place and the rule.

    `counts`: units of each type that the machine has ("CONVACC": 4, ...). Compilers leave
    `error`: a broken program is our bug. Readers pass FileError, the file is at fault there.
    """
    for name, where, what in problems(program, counts):
        raise error(f"{what} (rule '{name}')", where=where)


def check_foreign(program: Program, where: str) -> None:
    """Check what timing and reports rely on: names that exist, and divisors that are not 0.

    Files of other compilers may break the other rules, which concern what can be executed.
    """
    parts = parts_of(program)
    for name, rule in _FOREIGN_RULES.items():
        for place, what in rule(parts):
            raise FileError(
                f"{safe_terminal(what)} (rule '{name}')",
                where=f"{where}: {safe_terminal(place)}",
                hint="the file is damaged, or comes from a compiler that npuscope does not know",
            )


def problems(
    program: Program, counts: Mapping[str, int] | None = None
) -> Iterator[tuple[str, str, str]]:
    """All broken rules as (rule, where, what)."""
    parts = parts_of(program)
    for name, rule in RULES.items():
        for where, what in rule(parts):
            yield name, safe_terminal(where), safe_terminal(what)
    limits = counts or {}
    for epoch, unit in parts.units:
        if unit.id < 0 or unit.id >= limits.get(unit.unit, unit.id + 1):
            what = f"the machine has {limits.get(unit.unit, 0)} units of this type"
            yield "unit-numbers", safe_terminal(_unit_place(epoch, unit)), what


def _unit_place(epoch: Epoch, unit: Unit) -> str:
    return f"{epoch.name}, {unit.unit} {unit.id}"


def _epoch_order(parts: Parts) -> Iterator[Problem]:
    for epoch in parts.program.epochs:
        if epoch.last_number < epoch.number:
            yield epoch.name, "the epoch ends before it starts"
    for before, after in pairwise(parts.program.epochs):
        if after.number <= before.last_number:
            yield after.name, f"the number does not follow {before.last_number}"


def _epoch_work(parts: Parts) -> Iterator[Problem]:
    """None stands for work that is not known."""
    for epoch in parts.program.epochs:
        has_units = epoch.kind is EpochKind.HW and epoch.groups is not None
        if has_units and not any(group.units for group in epoch.groups or ()):
            yield epoch.name, "the epoch runs on hardware but configures no unit"


def _unique_names(parts: Parts) -> Iterator[Problem]:
    for what, values in (("buffer", parts.program.buffers), ("pool", parts.program.pools)):
        names: set[str] = set()
        for value in values:
            if value.name in names:
                yield parts.program.name, f"two {what}s are named '{value.name}'"
            names.add(value.name)


def _unique_units(parts: Parts) -> Iterator[Problem]:
    for epoch, group in parts.groups:
        units: set[tuple[str, int]] = set()
        for unit in group.units:
            if (unit.unit, unit.id) in units:
                yield epoch.name, f"{unit.unit} {unit.id} is configured twice in one group"
            units.add((unit.unit, unit.id))


def _links(parts: Parts) -> Iterator[Problem]:
    for epoch, group in parts.groups:
        units = {(unit.unit, unit.id): unit for unit in group.units}
        fed: set[tuple[str, int, int]] = set()
        for link in group.links:
            source, end = link.source, link.destination
            start, reader = units.get((source.unit, source.id)), units.get((end.unit, end.id))
            if start is None:
                yield epoch.name, f"a link starts at {_port(source)}, which is not in the group"
            elif source.port != 0 or (isinstance(start, Streng) and start.dir):
                yield epoch.name, f"a link starts at {_port(source)}, which has no output"
            if reader is None:
                yield epoch.name, f"a link ends at {_port(end)}, which is not in the group"
            elif not 0 <= end.port < reader.ports_in or (
                isinstance(reader, Streng) and not reader.dir
            ):
                yield epoch.name, f"a link ends at {_port(end)}, which has no input"
            if (end.unit, end.id, end.port) in fed:
                yield epoch.name, f"{_port(end)} is fed twice"
            fed.add((end.unit, end.id, end.port))


def _port(port: Port) -> str:
    return f"{port.unit} {port.id} port {port.port}"


def _call_buffers(parts: Parts) -> Iterator[Problem]:
    for epoch in parts.program.epochs:
        if epoch.call is None:
            continue
        for name in (*epoch.call.inputs, *epoch.call.outputs):
            if name and name not in parts.buffers:
                yield epoch.name, f"the call names buffer '{name}', which does not exist"


def _interface(parts: Parts) -> Iterator[Problem]:
    for name in (*parts.program.inputs, *parts.program.outputs, *parts.program.constants):
        if name not in parts.buffers:
            yield parts.program.name, f"buffer '{name}' is named but does not exist"


def _named_buffers(parts: Parts) -> Iterator[Problem]:
    for epoch, unit in parts.units:
        for place in _references(unit):
            if place.buffer not in parts.buffers:
                yield _unit_place(epoch, unit), f"buffer '{place.buffer}' does not exist"


def _named_pools(parts: Parts) -> Iterator[Problem]:
    """A buffer that nothing reads or writes may name none."""
    used = {place.buffer for _, unit in parts.units for place in _references(unit)}
    for epoch in parts.program.epochs:
        used.update((*epoch.call.inputs, *epoch.call.outputs) if epoch.call else ())
    for buffer in parts.program.buffers:
        if buffer.pool not in parts.pools and (buffer.pool or buffer.name in used):
            yield f"buffer '{buffer.name}'", f"pool '{buffer.pool}' does not exist"
    for epoch in parts.program.epochs:
        for access in epoch.claims.accesses:
            if access.pool not in parts.pools:
                yield epoch.name, f"pool '{access.pool}' does not exist"


def _figures(parts: Parts) -> Iterator[Problem]:
    """Times and amounts are divided by them."""
    for pool in parts.program.pools:
        if pool.size_bytes and (pool.byte_width < 1 or not 0 < pool.freq_ratio < inf):
            yield (
                f"pool '{pool.name}'",
                f"{pool.byte_width} bytes per cycle and a clock ratio of {pool.freq_ratio}",
            )
    for epoch, unit in parts.units:
        for field in _DIVISORS.get(unit.unit, ()):
            if getattr(unit, field) < 1:
                yield _unit_place(epoch, unit), f"{field} is {getattr(unit, field)}"
    for epoch, group in parts.groups:
        for link in group.links:
            if min(link.frames0, link.frames1) < 0:
                yield epoch.name, f"a link passes {link.frames0} and {link.frames1} frames"


def _quantization(parts: Parts) -> Iterator[Problem]:
    """One scale per tensor, unless there is an axis for more."""
    for buffer in parts.program.buffers:
        quant = buffer.quant
        if quant is None or quant.per_channel:
            continue
        if len(quant.scales) != 1 or len(set(quant.zero_points)) != 1:
            yield (
                f"buffer '{buffer.name}'",
                f"{len(quant.scales)} scales and {len(quant.zero_points)} zero points "
                "without an axis",
            )


def _storable(parts: Parts) -> Iterator[Problem]:
    """What a fingerprint or a file of ours can hold."""
    import orjson

    epochs = ((epoch.name, epoch) for epoch in parts.program.epochs)
    places = ((f"buffer '{b.name}'", b) for b in parts.program.buffers)
    for where, part in (*epochs, *places):
        try:
            orjson.dumps(part, default=asdict, option=orjson.OPT_SERIALIZE_NUMPY)
        except orjson.JSONEncodeError as error:
            yield where, f"a value that cannot be stored: {error}"


def _engines(parts: Parts) -> Iterator[Problem]:
    """Every byte an engine touches lies in its buffer."""
    yield from _named_buffers(parts)
    for epoch, unit in parts.units:
        if isinstance(unit, Streng) and unit.addr_base.buffer in parts.buffers:
            buffer = parts.buffers[unit.addr_base.buffer]
            low, high = (unit.addr_base.offset + end for end in reach(unit))
            slack = _TRIPLE_SLACK_BYTES if unit.nbits_memory == 24 and not unit.dir else 0
            if low < 0 or high > buffer.size_bytes + slack:
                yield (
                    _unit_place(epoch, unit),
                    f"touches bytes {low} to {high - 1} of buffer '{buffer.name}', "
                    f"which has {buffer.size_bytes}",
                )


def _references(unit: Unit) -> list[Ref]:
    if isinstance(unit, Streng):
        return [unit.addr_base]
    references: tuple[Ref | None, ...] = ()
    if isinstance(unit, Arith):
        references = unit.A_vector, unit.B_vector, unit.C_vector
    elif isinstance(unit, Activ):
        references = unit.ROM0_vector, unit.ROM1_vector, unit.LUT_vector
    return [place for place in references if place is not None]


def _buffers_in_pools(parts: Parts) -> Iterator[Problem]:
    for buffer in parts.program.buffers:
        pool = parts.pools.get(buffer.pool)
        if pool is None:
            yield f"buffer '{buffer.name}'", f"pool '{buffer.pool}' does not exist"
        elif not 0 <= buffer.offset <= pool.size_bytes - buffer.size_bytes:
            yield (
                f"buffer '{buffer.name}'",
                f"bytes {buffer.offset} to {buffer.offset + buffer.size_bytes - 1} do not fit "
                f"pool '{pool.name}' of {pool.size_bytes}",
            )


def _overlaps(parts: Parts) -> Iterator[Problem]:
    """No two live buffers share bytes, unless one is a view into the other's memory.

    In the order of time: thousands of buffers may take turns at one address, but few live at once.
    Parameters are always live, and may share bytes with each other.
    """
    pools, buffers = parts.pools, parts.buffers
    placed = [
        (pools[buffer.pool].address + buffer.offset, index, buffer)
        for index, buffer in enumerate(parts.program.buffers)
        if buffer.pool in pools and buffer.size_bytes
    ]
    parameters = sorted(entry for entry in placed if entry[2].is_param)
    others = sorted((e for e in placed if not e[2].is_param), key=lambda entry: entry[2].first)
    longest_parameter, longest = (
        max((buffer.size_bytes for *_, buffer in part), default=0) for part in (parameters, others)
    )
    live: list[Placed] = []  # by address
    ends: list[tuple[int, Placed]] = []
    clashes: list[tuple[Placed, Placed]] = []
    for entry in others:
        buffer = entry[2]
        while ends and ends[0][0] < buffer.first:
            del live[bisect_left(live, heappop(ends)[1])]
        constants = _sharing(entry, parameters, longest_parameter)
        for other in (*constants, *_sharing(entry, live, longest)):
            # One that ends before it starts lives at no time.
            if not other[2].is_param and other[2].first > buffer.last:
                continue
            if _root(buffer, buffers) != _root(other[2], buffers):
                clashes.append((min(entry, other), max(entry, other)))
        insort(live, entry)
        heappush(ends, (buffer.last, entry))
    for lower, upper in sorted(clashes):
        yield (
            f"buffer '{upper[2].name}'",
            f"shares bytes at {upper[0]:#x} with '{lower[2].name}', both live",
        )


def _sharing(entry: Placed, placed: Sequence[Placed], longest: int) -> Iterator[Placed]:
    """Those among `placed`, which is sorted by address, that share bytes with an entry."""
    start, end = entry[0], entry[0] + entry[2].size_bytes
    at = bisect_left(placed, (end, -1, entry[2]))
    while at and placed[at - 1][0] + longest > start:
        at -= 1
        if placed[at][0] + placed[at][2].size_bytes > start:
            yield placed[at]


def _root(buffer: Buffer, buffers: Mapping[str, Buffer]) -> str:
    """The buffer that a chain of views lies in."""
    names = {buffer.name}
    while buffer.view_of in buffers and buffer.view_of not in names:
        names.add(buffer.view_of)
        buffer = buffers[buffer.view_of]
    return buffer.name


RULES: dict[str, Invariant] = {
    "epoch-order": _epoch_order,
    "epoch-work": _epoch_work,
    "unique-names": _unique_names,
    "unique-units": _unique_units,
    "links": _links,
    "call-buffers": _call_buffers,
    "interface": _interface,
    "engine-range": _engines,
    "buffer-in-pool": _buffers_in_pools,
    "no-overlap": _overlaps,
    "figures": _figures,
    "quantization": _quantization,
}
_FOREIGN_RULES: dict[str, Invariant] = {
    "unique-names": _unique_names,
    "links": _links,
    "call-buffers": _call_buffers,
    "interface": _interface,
    "named-buffers": _named_buffers,
    "named-pools": _named_pools,
    "figures": _figures,
    "quantization": _quantization,
    "storable": _storable,
}
