"""A Program as a Graphviz graph: one cluster per epoch, units inside, buffers between."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Protocol

from npuscope.program.conv_modes import conv_modes
from npuscope.program.model import Epoch, EpochKind, Group, Program
from npuscope.program.modes import ActivOp, ArithOp, PoolOp
from npuscope.program.units import (
    Activ,
    Arith,
    Convacc,
    PoolUnit,
    Port,
    Streng,
    Unit,
)
from npuscope.text import c_identifier, dot_string

Lines = list[str]
_COLOURS = {EpochKind.HW: "#dbe9f6", EpochKind.SW: "#fbe3d6", EpochKind.HYBRID: "#fff3cd"}
_OPERATIONS_PER_MAC = 2
_MAC_NOTE = "1.0 MAC/cycle are 2 operations, a product and a sum: the vendor's graph calls it 2 MAC"


class EpochTimes(Protocol):
    """What is used of a profile's epoch; Profile itself is in a higher layer."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def ms(self) -> float: ...
    @property
    def counters(self) -> Any: ...


class EpochTimeline(Protocol):
    @property
    def epochs(self) -> Sequence[EpochTimes]: ...


def dot_text(program: Program, profile: EpochTimeline | None = None) -> str:
    """The graph; with a profile, every epoch shows its time, MAC/cycle and what bounds it."""
    times = {(run.first, run.last): run for run in profile.epochs} if profile else {}
    lines = [
        f"digraph {dot_string(program.name)} {{",
        "  rankdir=TB; compound=true; fontname=sans;",
        f"  label={dot_string(_MAC_NOTE)};",
        '  node [shape=box, fontname=sans, fontsize=10, style=filled, fillcolor="#ffffff"];',
    ]
    for epoch in program.executed:
        run = times.get((epoch.number, epoch.last_number))
        label = "\\n".join(dot_string(line)[1:-1] for line in _title(epoch, run))
        lines += [
            f"  subgraph cluster_{epoch.number} {{",
            f'    label="{label}"; style=filled; color="{_COLOURS[epoch.kind]}";',
            *(f"    {line}" for line in _nodes(epoch)),
            "  }",
        ]
    return "\n".join([*lines, *_buffers(program), *_edges(program), "}", ""])


# Of a convolution, by what it is bound: weights wait for the flash at their port.
_PORTS = {name: name for name in ("weights", "features", "output", "accumulator")}
_PORTS["flash"] = "weights"


def choked_port(bound: str) -> str:
    """The port of a convolution at which the data wait; empty where it is none of them."""
    return _PORTS.get(bound, "")


def _title(epoch: Epoch, run: EpochTimes | None) -> list[str]:
    title = [f"epoch {epoch.number} ({epoch.kind.value})", ", ".join(epoch.operators)]
    if run is None:
        return title
    cycles = run.counters.core_cycles
    rate = f", {epoch.claims.ops / _OPERATIONS_PER_MAC / cycles:.1f} MAC/cycle" if cycles else ""
    bound, modes = run.counters.bound.value, conv_modes(epoch.units)
    lines = [*title, f"{run.ms:.3f} ms{rate}", f"bound by {bound}", *modes]
    return [*lines, f"choked ports = ({choked_port(bound)})"] if choked_port(bound) else lines


def _nodes(epoch: Epoch) -> Lines:
    if epoch.call is not None or not epoch.groups:
        kernel = epoch.call.kernel if epoch.call else ", ".join(epoch.operators) or "no registers"
        return [f"{_whole(epoch)} [label={dot_string(kernel)}];"]
    return [
        line
        for number, group in enumerate(epoch.groups)
        for line in [*_units(epoch, number, group), *_links(epoch, number, group)]
    ]


def _units(epoch: Epoch, number: int, group: Group) -> Lines:
    return [
        f"{_node(epoch, number, Port(unit.unit, unit.id))} [label={dot_string(_label(unit))}];"
        for unit in group.units
    ]


def _links(epoch: Epoch, number: int, group: Group) -> Lines:
    lines = []
    for link in group.links:
        ends = _node(epoch, number, link.source), _node(epoch, number, link.destination)
        port = f" [label={link.destination.port}]" if link.destination.port else ""
        lines.append(f"{ends[0]} -> {ends[1]}{port};")
    return lines


def _label(unit: Unit) -> str:
    return f"{unit.unit} {unit.id}{_detail(unit)}"


def _detail(unit: Unit) -> str:
    """The details that distinguish configurations."""
    if isinstance(unit, Convacc):
        window = f"{unit.kernelHeight}x{unit.kernelWidth}"
        (mode,) = conv_modes((unit,))
        return f": {window}, {unit.nKernels} kernels of {unit.batchDepth}, {mode}"
    if isinstance(unit, Arith):
        return f": {_word(ArithOp, unit.operation)}"
    if isinstance(unit, Activ):
        return f": {_word(ActivOp, unit.operation)}"
    if isinstance(unit, PoolUnit):
        return f": {_word(PoolOp, unit.operation)} {unit.poolWinY}x{unit.poolWinX}"
    if isinstance(unit, Streng):
        return f": {'out' if unit.dir else 'in'} {unit.total_bytes:,} B"
    return ""


def _word(kind: type[IntEnum], value: int) -> str:
    names = {int(member): member.name for member in kind}
    return names.get(value, f"operation {value}")


def _buffers(program: Program) -> Lines:
    """Activations, graph inputs and outputs; parameters would hide everything else."""
    return [
        f"  {name} [shape=ellipse, label={dot_string(label)}];"
        for name, label in (
            (f"b{index}", f"{b.name}  {'x'.join(map(str, b.shape))}  {b.pool}")
            for index, b in enumerate(program.buffers)
            if not b.is_param
        )
    ]


def _edges(program: Program) -> Lines:
    """Buffer -> reader and writer -> buffer, each once."""
    names = {b.name: f"b{i}" for i, b in enumerate(program.buffers) if not b.is_param}
    lines: dict[str, None] = {}
    for epoch in program.executed:
        for node, buffer, writes in _accesses(epoch):
            if buffer in names:
                pair = (node, names[buffer]) if writes else (names[buffer], node)
                lines[f"  {pair[0]} -> {pair[1]};"] = None
    # The same bytes under another name.
    pairs = [(b.view_of, b.name) for b in program.buffers if b.view_of in names and b.name in names]
    return [*lines, *[f"  {names[a]} -> {names[b]} [style=dashed, dir=none];" for a, b in pairs]]


def _accesses(epoch: Epoch) -> list[tuple[str, str, bool]]:
    """(node, buffer, whether it writes) of an epoch."""
    if epoch.call is not None:
        reads = [(_whole(epoch), name, False) for name in epoch.call.inputs]
        return reads + [(_whole(epoch), name, True) for name in epoch.call.outputs]
    return [
        (_node(epoch, number, Port(unit.unit, unit.id)), unit.addr_base.buffer, bool(unit.dir))
        for number, group in enumerate(epoch.groups or ())
        for unit in group.units
        if isinstance(unit, Streng)
    ]


def _whole(epoch: Epoch) -> str:
    return f"e{epoch.number}"


def _node(epoch: Epoch, group: int, port: Port) -> str:
    return f"e{epoch.number}_{group}_{c_identifier(port.unit)}_{port.id}"
