"""The work of a Program, epoch by epoch, ready to be timed on several machines.

All of it follows from the Program and from the machine's mapping keys; timing keys only come in
when sim/epochs.py counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

import numpy as np
from msgspec import Struct

from npuscope.machine.model import Control, Machine, Stated
from npuscope.machine.npu_ops import OnCpu, support
from npuscope.ops.recurrent import GATES
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.program.addresses import copies_of
from npuscope.program.calls import call_graph
from npuscope.program.model import Buffer, Call, Epoch, EpochKind, Program
from npuscope.program.stated import StatedUnits
from npuscope.program.units import Activ, Arith, Ref, Streng
from npuscope.sim.counters import PoolTraffic
from npuscope.sim.group_work import GroupWork, group_work
from npuscope.sim.memory import Bank, Banks, Memory
from npuscope.sim.stated_work import stated_work
from npuscope.structs import replace

# --- Software kernels: the reference kernel of the same op, run on buffers ---


#
# Calls of foreign programs that only move data list their copies themselves.


def run_call(call: Call, memory: Memory) -> None:
    """Read the inputs, run the kernel, store the outputs."""
    copies = copies_of(call)
    if copies:
        for copy in copies:
            kind = np.dtype(f"<u{copy.element_bytes}")
            read = memory.address(Ref(call.inputs[copy.source])) + copy.start_in
            write = memory.address(Ref(call.outputs[copy.target])) + copy.start_out
            values = memory.window(read, copy.shape, copy.steps_in, kind).copy()
            memory.window(write, copy.shape, copy.steps_out, kind)[...] = values
        return
    from npuscope.ops.run import run

    buffers = {name: memory.buffer(name) for name in (*call.inputs, *call.outputs) if name}
    constants = {name: memory.read(name) for name, buffer in buffers.items() if buffer.is_param}
    graph = call_graph(call, buffers, constants)
    fed = {name: memory.read(name).reshape(graph.tensor(name).shape) for name in graph.inputs}
    results = run(graph, fed)
    for name in call.outputs:
        memory.write(name, results[name].reshape(buffers[name].shape))


# --- Around the core of an epoch: the work of the CPU or of the epoch controller ---


class ControlWork(Struct, frozen=True):
    """What has to be programmed around one epoch."""

    units: int
    engines: int
    entries: int  # channels whose coefficients the CPU writes before the start
    tables: int  # of functions that it writes too
    opens: bool  # the first epoch of its blob
    closes: bool
    operators: int = 0  # where a report names them, but no units


def control_works(program: Program) -> tuple[ControlWork, ...]:
    """By executed epoch."""
    elements = {b.name: b.size_bytes * 8 // b.nbits for b in program.buffers if b.is_param}
    first: dict[int | None, int] = {}
    last: dict[int | None, int] = {}
    for epoch in program.epochs:
        first.setdefault(epoch.blob, epoch.number)
        last[epoch.blob] = epoch.number
    stated = {row.epoch: row for row in program.stated_units}
    works = []
    for epoch in program.executed:
        row = stated.get(epoch.number) if epoch.groups is None else None
        if row is not None:
            units, engines, entries = len(row.units), row.reads + row.writes, row.entries
            tables = 0
        else:
            engines = sum(isinstance(unit, Streng) for unit in epoch.units)
            units, entries = len(epoch.units) - engines, _vector_entries(epoch, elements)
            tables = sum(isinstance(unit, Activ) and bool(unit.ROM0_vector) for unit in epoch.units)
        by_cpu = epoch.kind is EpochKind.HW and epoch.blob is None
        works.append(
            ControlWork(
                units=units,
                engines=engines,
                entries=entries if by_cpu else 0,
                tables=tables if by_cpu else 0,
                opens=epoch.number == first[epoch.blob],
                closes=epoch.number == last[epoch.blob],
                operators=len(epoch.operators) if epoch.groups is None and row is None else 0,
            )
        )
    return tuple(works)


def _vector_entries(epoch: Epoch, elements: Mapping[str, int]) -> int:
    """On boards, epochs with one and with two vectors per channel cost the same."""
    entries = 0
    for unit in epoch.units:
        if isinstance(unit, Arith):
            vectors = (unit.A_vector, unit.B_vector, unit.C_vector)
            own = (elements[ref.buffer] for ref in vectors if ref)
            entries = max(entries, *own, 0)
    return entries


def stated_phases(work: ControlWork, control: Control, stated: Stated) -> tuple[float, float]:
    """The same for an epoch whose operators alone are known."""
    typical = replace(
        work,
        units=round(stated.units_per_operator * work.operators),
        engines=round(stated.engines + stated.engines_per_operator * work.operators),
        entries=stated.entries,
    )
    return cpu_phases(typical, control)


def cpu_phases(work: ControlWork, control: Control) -> tuple[float, float]:
    """MCU cycles to configure and to close an epoch that the CPU schedules."""
    units, engines = work.units, work.engines
    pre = control.pre_fixed + control.pre_per_unit * units + control.pre_per_engine * engines
    pre += control.pre_per_entry * work.entries + control.pre_per_table * work.tables
    post = control.post_fixed + control.post_per_unit * units + control.post_per_engine * engines
    return pre, post


def controller_phases(work: ControlWork, control: Control) -> tuple[float, float]:
    """MCU cycles at the borders of a blob: only its first and last epoch see the CPU."""
    pre = control.controller_pre_cycles if work.opens else 0.0
    return pre, control.controller_post_cycles if work.closes else 0.0


class SoftwareWork(Struct, frozen=True):
    """A kernel on the CPU, how many elements it handles, and what else takes its time."""

    kernel: str
    elements: int
    macs: int = 0
    float_macs: bool = False
    depthwise: bool = False
    fetched: tuple[tuple[str, int], ...] = ()  # (bank, bytes) of parameters
    moved: tuple[tuple[str, int], ...] = ()  # the same of external RAM that a library call moves
    pixels: int = 0  # positions of the output


class ClaimedWork(Struct, frozen=True):
    """No unit registers: the compiler's computation, and the bytes by pool."""

    compute_cycles: float
    moved: tuple[tuple[str, float, int], ...]  # pool, its cycles per byte, bytes


HardwareWork = tuple[GroupWork, ...]


class EpochWork(Struct, frozen=True):
    epoch: Epoch
    work: HardwareWork | SoftwareWork | ClaimedWork
    control: ControlWork
    traffic: tuple[PoolTraffic, ...]


class ProgramWork(Struct, frozen=True):
    epochs: tuple[EpochWork, ...]
    banks: dict[str, Bank]


def program_work(program: Program, machine: Machine, banks: Banks | None = None) -> ProgramWork:
    banks = banks or Banks(program, machine)
    buffers = program.buffer_map()
    pairs = zip(program.executed, control_works(program), strict=True)
    stated = {row.epoch: row for row in program.stated_units}
    epochs = tuple(
        _epoch_work(epoch, control, program, banks, buffers, stated.get(epoch.number))
        for epoch, control in pairs
    )
    return ProgramWork(epochs, banks.by_name())


def _epoch_work(
    epoch: Epoch,
    control: ControlWork,
    program: Program,
    banks: Banks,
    buffers: dict[str, Buffer],
    stated: StatedUnits | None,
) -> EpochWork:
    if epoch.kind in (EpochKind.SW, EpochKind.HYBRID):
        traffic = _call_traffic(epoch.call, banks, buffers) if epoch.call else ()
        work = replace(_software(epoch.call, banks, buffers), moved=_moved(epoch, traffic, banks))
        return EpochWork(epoch, work, control, traffic)
    if epoch.groups is None:
        traffic = tuple(PoolTraffic(a.pool, a.reads, a.writes) for a in epoch.claims.accesses)
        group = stated_work(stated, banks, buffers) if stated else None
        if group is not None:
            return EpochWork(epoch, (group,), control, traffic)
        pools = program.pool_map()
        moved = []
        for access in epoch.claims.accesses:
            pool = pools[access.pool]
            rate = pool.freq_ratio / pool.byte_width
            moved.append((pool.name, rate, access.reads + access.writes))
        return EpochWork(
            epoch, ClaimedWork(float(epoch.claims.compute_cycles), tuple(moved)), control, traffic
        )
    groups = tuple(group_work(group, banks) for group in epoch.groups)
    engines = (engine for group in groups for engine in group.engines)
    return EpochWork(
        epoch,
        groups,
        control,
        _summed((engine.bank, engine.dir, engine.bytes) for engine in engines),
    )


def _software(call: Call | None, banks: Banks, buffers: dict[str, Buffer]) -> SoftwareWork:
    if call is None:
        return SoftwareWork("default", 0)
    copies = copies_of(call)
    if copies:
        return SoftwareWork(call.kernel, sum(copy.elements for copy in copies))
    names = [name for name in (*call.inputs, *call.outputs) if name]
    shapes = [buffers[name].shape for name in names if not buffers[name].is_param]
    if not shapes or not shapes[0]:
        return SoftwareWork(call.kernel, 0)
    elements = max(prod(shape) for shape in shapes)
    if support(call.kernel).on_cpu is OnCpu.BY_DMA:
        # A cut moves what it keeps.
        elements = sum(prod(buffers[name].shape) for name in call.outputs if name)
    params = [buffers[name] for name in call.inputs if name and buffers[name].is_param]
    fetched = tuple((banks.of_buffer(b.name).name, b.size_bytes) for b in params)
    floats = any(buffers[name].is_float for name in names[:1])
    macs = _macs(call, params, shapes)
    depthwise, pixels = False, prod(shapes[-1][:-1])
    if params:  # each weight belongs to one channel
        weights = max(params, key=lambda buffer: prod(buffer.shape)).shape
        depthwise = len(weights) == 4 and weights[-1] == 1 and shapes[0][-1] > 1
    kernel = _costed_as(call.kernel, shapes[0], elements)
    return SoftwareWork(kernel, elements, macs, floats, depthwise, fetched, pixels=pixels)


MOST_DMA_AXES = 4  # that the vendor's library leaves to the NPU's DMA when it transposes [code]


def _costed_as(kernel: str, shape: tuple[int, ...], elements: int) -> str:
    """The row of the machine file, where shapes decide how the library works."""
    if kernel == "Softmax" and elements // max(1, shape[-1]) > 1:
        return "SoftmaxRows"
    if kernel == "Transpose" and len(shape) > MOST_DMA_AXES:
        return "TransposeByCpu"
    return kernel


def _moved(
    epoch: Epoch, traffic: tuple[PoolTraffic, ...], banks: Banks
) -> tuple[tuple[str, int], ...]:
    """External RAM below a call that only moves data: such calls drive the NPU's DMA."""
    if epoch.call is None or support(epoch.call.kernel).on_cpu is not OnCpu.BY_DMA:
        return ()
    outside = {bank.name for bank in banks.by_name().values() if bank.read_cycles}
    return tuple((r.pool, r.read_bytes + r.write_bytes) for r in traffic if r.pool in outside)


def call_macs(call: Call, buffers: dict[str, Buffer]) -> int:
    """Products of a call, as far as its buffers are known."""
    names = [name for name in (*call.inputs, *call.outputs) if name]
    shapes = [buffers[name].shape for name in names if not buffers[name].is_param]
    params = [buffers[name] for name in call.inputs if name and buffers[name].is_param]
    return _macs(call, params, shapes) if shapes and shapes[0] else 0


_LAYERS = having(Trait.LAYER) | {"SvdfState", "SvdfOutput"}


def _macs(call: Call, params: list[Buffer], shapes: list[tuple[int, ...]]) -> int:
    """Every weight works once a position of the smaller side: input or, with a stride, output."""
    if call.kernel == "MatMul" and shapes[-1]:
        return prod(shapes[-1]) * shapes[0][-1]
    if call.kernel in GATES and len(shapes[0]) == 3:  # all weights, every step
        largest = sorted(prod(buffer.shape) for buffer in params)[-2:]
        return shapes[0][0] * shapes[0][1] * sum(largest)
    if call.kernel == "SequenceLSTM":  # the same, with weights of two axes
        return prod(shapes[0][:-1]) * sum(prod(b.shape) for b in params if len(b.shape) == 2)
    if call.kernel not in _LAYERS or not params:
        return 0
    positions = min(prod(shape[:-1]) for shape in (shapes[0], shapes[-1]))
    return positions * max(prod(buffer.shape) for buffer in params)


Moved = tuple[str, int, int]  # bank, direction, bytes


def _call_traffic(call: Call, banks: Banks, buffers: dict[str, Buffer]) -> tuple[PoolTraffic, ...]:
    copies = copies_of(call)
    if copies:
        return _summed(
            (banks.of_buffer(name).name, way, copy.elements * copy.element_bytes)
            for copy in copies
            for name, way in ((call.inputs[copy.source], 0), (call.outputs[copy.target], 1))
        )
    reads = [name for name in call.inputs if name]
    return _summed(
        (banks.of_buffer(name).name, way, buffers[name].size_bytes)
        for names, way in ((reads, 0), (call.outputs, 1))
        for name in names
    )


def _summed(moves: Iterable[Moved]) -> tuple[PoolTraffic, ...]:
    totals: dict[str, list[int]] = {}
    for bank, way, moved in moves:
        totals.setdefault(bank, [0, 0])[way] += moved
    return tuple(PoolTraffic(bank, read, write) for bank, (read, write) in totals.items())
