"""A Profile from a Program: count, derive, add up."""

from __future__ import annotations

import hashlib
from collections import Counter

import orjson

from npuscope.graph.model import Graph, Tensor
from npuscope.machine.model import Machine
from npuscope.profile.interval import error_text, half_width
from npuscope.profile.memory import fit, memory_use
from npuscope.profile.model import (
    EpochProfile,
    MachineInfo,
    ModelInfo,
    Profile,
    Provenance,
    Run,
    RunClocks,
    Spread,
    TensorInfo,
    TimeShares,
)
from npuscope.program.model import Buffer, Epoch, EpochKind, Program
from npuscope.sim.counters import EpochCounters
from npuscope.sim.epochs import count_epochs


def estimate(program: Program, machine: Machine, graph: Graph | None = None) -> Profile:
    """Timing model alone: no data is run."""
    return _profile(program, machine, graph, Provenance.ESTIMATE, 1)


def profile(
    program: Program, machine: Machine, graph: Graph | None = None, batch: int = 1
) -> Profile:
    """Run on the simulated device; its counters are the same in every inference."""
    return _profile(program, machine, graph, Provenance.SIMULATION, batch)


def _profile(
    program: Program, machine: Machine, graph: Graph | None, source: Provenance, batch: int
) -> Profile:
    counters = count_epochs(program, machine, bus=source is not Provenance.ESTIMATE)
    epochs = tuple(
        _epoch(index, epoch, counted, machine, source, batch)
        for index, (epoch, counted) in enumerate(zip(program.executed, counters, strict=True))
    )
    total_ms = sum(epoch.ms for epoch in epochs)
    time = _shares(epochs, machine)
    half = half_width(epochs, time, total_ms)
    return Profile(
        program_hash=_hash(program),
        model=_model(program, graph),
        machine=_machine(machine),
        runs=(Run(source, _clocks(machine), batch),),
        epochs=epochs,
        total_ms=total_ms,
        interval_ms=(total_ms * (1 - half), total_ms * (1 + half)),
        model_error=error_text(half),
        time=time,
        memory=memory_use(program, machine),
        fit=fit(program, machine),
        counts=_counts(program),
        notes=program.notes,
    )


def _hash(program: Program) -> str:
    """Fingerprint of what is executed and where; names of files and models do not count."""
    places = [(b.name, b.pool, b.offset, b.size_bytes) for b in program.buffers]
    return hashlib.sha256(orjson.dumps((places, program.epochs))).hexdigest()


def _epoch(
    index: int,
    epoch: Epoch,
    counted: EpochCounters,
    machine: Machine,
    source: Provenance,
    batch: int,
) -> EpochProfile:
    ms = _milliseconds(counted, machine)
    return EpochProfile(
        index=index,
        name=epoch.name,
        first=epoch.number,
        last=epoch.last_number,
        kind=epoch.kind,
        blob=epoch.blob,
        operators=epoch.operators,
        origin=epoch.origin,
        units=dict(Counter(unit.unit for unit in epoch.units)),
        claims=epoch.claims,
        counters=counted,
        ms=ms,
        provenance=source,
        spread=Spread(ms, ms, ms, batch),
    )


def _milliseconds(counted: EpochCounters, machine: Machine) -> float:
    mcu_cycles = counted.pre_cycles + counted.post_cycles
    clocks = machine.clocks
    return (mcu_cycles / clocks.mcu_mhz + counted.core_cycles / clocks.npu_mhz) / 1000


def _shares(epochs: tuple[EpochProfile, ...], machine: Machine) -> TimeShares:
    """Core time of the NPU without what the epoch controller adds to it, and the rest."""
    controller = machine.generation.control.controller_cycles / machine.clocks.npu_mhz / 1000
    blobs = sum(epoch.kind is EpochKind.HW and epoch.blob is not None for epoch in epochs)
    return time_shares(epochs, machine.clocks.npu_mhz, controller * blobs)


def time_shares(
    epochs: tuple[EpochProfile, ...], npu_mhz: float, programmed_ms: float
) -> TimeShares:
    hardware = [epoch for epoch in epochs if epoch.kind is EpochKind.HW]
    core = sum(e.counters.core_cycles for e in hardware) / npu_mhz / 1000
    core = max(0.0, core - programmed_ms)
    return TimeShares(
        npu_core_ms=core,
        control_ms=sum(epoch.ms for epoch in hardware) - core,
        software_ms=sum(epoch.ms for epoch in epochs if epoch.kind is EpochKind.SW),
        hybrid_ms=sum(epoch.ms for epoch in epochs if epoch.kind is EpochKind.HYBRID),
    )


def _counts(program: Program) -> dict[str, int]:
    kinds = {kind.value: program.count(kind) for kind in EpochKind if kind is not EpochKind.EMPTY}
    return kinds | {"blobs": len({e.blob for e in program.epochs if e.blob is not None})}


def _model(program: Program, graph: Graph | None) -> ModelInfo:
    if graph is None:
        buffers = program.buffer_map()
        inputs = tuple(_buffer_info(buffers[name]) for name in program.inputs)
        outputs = tuple(_buffer_info(buffers[name]) for name in program.outputs)
        params = sum(b.size_bytes for b in program.buffers if b.is_param)
        return ModelInfo(program.model_file, program.model_md5, inputs, outputs, 0, params)
    return ModelInfo(
        program.model_file,
        program.model_md5,
        tuple(_tensor_info(graph.tensor(name)) for name in graph.inputs),
        tuple(_tensor_info(graph.tensor(name)) for name in graph.outputs),
        graph.macs(),
        graph.parameters(),
    )


def _tensor_info(tensor: Tensor) -> TensorInfo:
    quant = tensor.quant
    scale = quant.scale if quant and not quant.per_channel else None
    zero = quant.zero_point if quant and not quant.per_channel else None
    return TensorInfo(tensor.name, tensor.shape, tensor.dtype.value, scale, zero, tensor.size_bytes)


def _buffer_info(buffer: Buffer) -> TensorInfo:
    kind = "float" if buffer.is_float else "int" if buffer.signed else "uint"
    scale = buffer.quant.scale if buffer.quant else None
    zero = buffer.quant.zero_point if buffer.quant else None
    return TensorInfo(
        buffer.name, buffer.shape, f"{kind}{buffer.nbits}", scale, zero, buffer.size_bytes
    )


def _machine(machine: Machine) -> MachineInfo:
    return MachineInfo(
        machine.name,
        machine.generation.name,
        machine.epoch_controller,
        machine.clocks.mcu_mhz,
        machine.clocks.npu_mhz,
    )


def _clocks(machine: Machine) -> RunClocks:
    clocks = machine.clocks
    return RunClocks(clocks.mcu_mhz, clocks.npu_mhz, clocks.noc_mhz, clocks.nic_mhz)
