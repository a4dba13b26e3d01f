"""A Profile from a device: run the passes, put them together, join what the program says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import median

from msgspec import Struct
from msgspec.structs import asdict

from npuscope.boards.device import Device, DeviceInfo, NetworkDesc, TensorDesc
from npuscope.boards.runtime import BlockFlag
from npuscope.boards.simulated import SIMULATED
from npuscope.errors import DeviceError
from npuscope.graph.model import Graph
from npuscope.machine.load import load_machine
from npuscope.machine.model import Machine
from npuscope.machine.set_keys import with_overrides
from npuscope.profiling.model import (
    UNKNOWN_FIT,
    UNKNOWN_MEMORY,
    EpochProfile,
    MachineInfo,
    ModelInfo,
    Profile,
    Provenance,
    Run,
    RunClocks,
    Spread,
    TensorInfo,
)
from npuscope.profiling.passes import CounterPlan, Inputs, Measured, run_passes
from npuscope.profiling.run import profile as simulate
from npuscope.profiling.run import time_shares
from npuscope.profiling.run_notes import run_notes
from npuscope.program.model import Access, Claims, EpochKind, Program
from npuscope.sim.counters import (
    Bound,
    BusTraffic,
    EngineActivity,
    EpochCounters,
    PoolTraffic,
)
from npuscope.structs import replace

# --- What the program states about the epochs of a measured block ---

# Only for a device without its program: engines 0 to 4 are on bus interface 0, 5 to 9 on 1.
ENGINES_PER_BUSIF = 5


class Said(Struct, frozen=True):
    """One epoch, or those of a blob added up; none without a program."""

    epochs: tuple[EpochProfile, ...] = ()

    @property
    def claims(self) -> Claims:
        return added_claims(epoch.claims for epoch in self.epochs)

    @property
    def bound(self) -> Bound:
        """Of the longest of them."""
        if not self.epochs:
            return Bound.UNKNOWN
        return max(self.epochs, key=lambda epoch: epoch.ms).counters.bound

    @property
    def units(self) -> dict[str, int]:
        return dict(sum((Counter(epoch.units) for epoch in self.epochs), Counter()))

    @property
    def traffic(self) -> tuple[PoolTraffic, ...]:
        total: dict[str, tuple[int, int]] = {}
        for row in (row for epoch in self.epochs for row in epoch.counters.traffic):
            reads, writes = total.get(row.pool, (0, 0))
            total[row.pool] = reads + row.read_bytes, writes + row.write_bytes
        return tuple(PoolTraffic(pool, *moved) for pool, moved in total.items())

    def moved(self, engine: tuple[int, str]) -> tuple[str, int]:
        """The pool an engine moved most bytes of, and all its bytes."""
        rows = [r for e in self.epochs for r in e.counters.engines if (r.id, r.dir) == engine]
        pools = Counter[str]()
        for row in rows:
            pools[row.pool] += row.bytes
        return (pools.most_common(1)[0][0], pools.total()) if pools else ("", 0)

    def busif(self, engine: int) -> int:
        rows = (r for e in self.epochs for r in e.counters.engines if r.id == engine)
        return next((r.busif for r in rows), engine // ENGINES_PER_BUSIF)


def added_claims(claims: Iterable[Claims]) -> Claims:
    rows = tuple(claims)
    return Claims(
        sum(row.ops for row in rows),
        sum(row.compute_cycles for row in rows),
        sum(row.max_cycles for row in rows),
        _accesses(access for row in rows for access in row.accesses),
    )


def _accesses(rows: Iterable[Access]) -> tuple[Access, ...]:
    total: dict[str, Access] = {}
    for row in rows:
        one = total.get(row.pool, Access(row.pool))
        total[row.pool] = Access(
            row.pool,
            one.reads + row.reads,
            one.writes + row.writes,
            one.read_cycles + row.read_cycles,
            one.write_cycles + row.write_cycles,
        )
    return tuple(total.values())


_EMULATED = "emulated"  # the word that the emulated board's firmware sends


def collect(
    device: Device,
    network: str,
    plan: CounterPlan,
    inputs: Inputs = None,
    batch: int = 1,
    program: Program | None = None,
    machine: Machine | None = None,
    graph: Graph | None = None,
) -> Profile:
    """Counters of `batch` inferences per pass; with the program, what it says of each epoch."""
    info = device.info()
    described = next((net for net in info.networks if net.name == network), None)
    if described is None:
        names = ", ".join(net.name for net in info.networks) or "none"
        raise DeviceError(f"the device has no network '{network}'", hint=f"it has: {names}")
    measured = run_passes(device, network, plan, inputs, batch)
    source = provenance(device, info)
    if machine is None and program is not None:
        machine = load_machine(
            program.machine,
            generation=program.generation,
            epoch_controller=program.epoch_controller,
        )
    hertz = info.clocks
    values = (hertz.mcu_hz, hertz.npu_hz, hertz.noc_hz, hertz.nic_hz)
    mcu, npu, noc, nic = (value / 1e6 for value in values)
    clocks = RunClocks(mcu, npu, noc, nic)
    machine = machine and _at_clocks(machine, clocks)
    predicted = simulate(program, machine, graph) if program and machine else None
    epochs = tuple(
        _epoch(index, one, predicted, clocks, source) for index, one in enumerate(measured)
    )
    programmed = _programmed_ms(predicted, machine, clocks)
    profile = _bare(info, described, measured, epochs, clocks, source, batch, programmed)
    if program is None or machine is None or predicted is None:
        return profile
    complete = _with_program(profile, predicted, epochs)
    return replace(complete, notes=(*complete.notes, *run_notes(program, machine, complete)))


def provenance(device: Device, info: DeviceInfo) -> Provenance:
    """A virtual board is known by the word it sends, over any kind of link."""
    texts = (info.description, info.protocol, *(net.runtime for net in info.networks))
    # The link proves nothing: a simulated board answers over serial lines and TCP too.
    if any(SIMULATED in text for text in texts):
        return Provenance.SIMULATION
    if any(_EMULATED in text for text in texts):
        return Provenance.EMULATION
    return Provenance(device.source)


def _at_clocks(machine: Machine, clocks: RunClocks) -> Machine:
    """Predictions beside a run are for the clocks that the device states."""
    stated = {f"clocks.{name}": mhz for name, mhz in asdict(clocks).items()}
    return with_overrides(machine, {key: mhz for key, mhz in stated.items() if mhz > 0})


# --- One epoch ---


def _said(one: Measured, predicted: Profile | None) -> Said:
    if predicted is None:
        return Said()
    first, last = one.node.number, one.node.last
    # A device counts blocks, and a blob is one block of several epochs.
    return Said(tuple(e for e in predicted.epochs if first <= e.first and e.last <= last))


def _epoch(
    index: int, one: Measured, predicted: Profile | None, clocks: RunClocks, source: Provenance
) -> EpochProfile:
    node, said = one.node, _said(one, predicted)
    times = [_ms(sample, clocks) for sample in one.samples]
    # A simulation beside itself would look like a perfect prediction.
    beside = bool(said.epochs) and source is not Provenance.SIMULATION
    return EpochProfile(
        index=index,
        name=node.name,
        first=node.number,
        last=node.last,
        kind=node.kind,
        blob=said.epochs[0].blob if said.epochs else None,
        operators=tuple(name for epoch in said.epochs for name in epoch.operators),
        origin=tuple(dict.fromkeys(name for epoch in said.epochs for name in epoch.origin)),
        units=said.units,
        claims=said.claims,
        counters=_counters(one, said, source),
        ms=_ms(one.cycles, clocks),
        provenance=source,
        spread=Spread(min(times), median(times), max(times), len(times)),
        predicted_ms=sum(epoch.ms for epoch in said.epochs) if beside else None,
    )


def _ms(cycles: tuple[float, float, float], clocks: RunClocks) -> float:
    pre, core, post = cycles
    return ((pre + post) / clocks.mcu_mhz + core / clocks.npu_mhz) / 1000


def _counters(one: Measured, said: Said, source: Provenance) -> EpochCounters:
    engines = tuple(
        EngineActivity(id_, way, said.busif(id_), cycles, *said.moved((id_, way)))
        for (id_, way), cycles in sorted(one.engines.items())
    )
    return EpochCounters(
        one.node.number,
        one.node.last,
        *one.cycles,
        said.bound,
        engines,
        _bus(one),
        one.cache,
        said.traffic,
        # A simulated MCU counts nothing of its own.
        None if source is Provenance.SIMULATION else one.core_mcu_cycles,
    )


def _bus(one: Measured) -> tuple[BusTraffic, ...]:
    """Blocks that do not use the NPU show no bursts at all."""
    if not any(map(any, one.bursts.values())):
        return ()
    none = (0, 0, 0, 0)
    return tuple(
        BusTraffic(id_, one.bursts.get((id_, "r"), none), one.bursts.get((id_, "w"), none))
        for id_ in sorted({id_ for id_, _ in one.bursts})
    )


# --- The whole profile ---


def _bare(
    info: DeviceInfo,
    network: NetworkDesc,
    measured: tuple[Measured, ...],
    epochs: tuple[EpochProfile, ...],
    clocks: RunClocks,
    source: Provenance,
    batch: int,
    programmed_ms: float,
) -> Profile:
    """What is known from the device alone."""
    total_ms = sum(epoch.ms for epoch in epochs)
    blobs = sum(bool(one.node.flags & BlockFlag.BLOB) for one in measured)
    kinds = {kind.value: sum(e.kind is kind for e in epochs) for kind in EpochKind}
    del kinds[EpochKind.EMPTY.value]
    return Profile(
        program_hash="",
        model=ModelInfo(
            network.name,
            "",
            tuple(map(_tensor, network.inputs)),
            tuple(map(_tensor, network.outputs)),
            network.macc,
            network.params_bytes,
        ),
        machine=MachineInfo(info.description, "", blobs > 0, clocks.mcu_mhz, clocks.npu_mhz),
        runs=(Run(source, clocks, batch),),
        epochs=epochs,
        total_ms=total_ms,
        interval_ms=(sum(e.spread.min for e in epochs), sum(e.spread.max for e in epochs)),
        model_error="",
        time=time_shares(epochs, clocks.npu_mhz, programmed_ms),
        memory=UNKNOWN_MEMORY,
        fit=UNKNOWN_FIT,
        counts=kinds | {"blobs": blobs},
    )


def _with_program(bare: Profile, compiled: Profile, epochs: tuple[EpochProfile, ...]) -> Profile:
    """What was compiled: the model, where it lies, and a prediction's error if it is one."""
    predicted = bare.runs[0].source is Provenance.SIMULATION and compiled.total_ms > 0
    # The device may run at other clocks than the machine; the relative error stays the same.
    scale = bare.total_ms / compiled.total_ms if predicted else 0.0
    return replace(
        bare,
        program_hash=compiled.program_hash,
        model=compiled.model,
        machine=replace(
            compiled.machine, mcu_mhz=bare.machine.mcu_mhz, npu_mhz=bare.machine.npu_mhz
        ),
        interval_ms=_scaled(compiled.interval_ms, scale) if predicted else bare.interval_ms,
        model_error=compiled.model_error if predicted else "",
        memory=compiled.memory,
        fit=compiled.fit,
        # The program knows the epochs inside blobs, which the device counts as one.
        counts=compiled.counts,
        unknown_ops=compiled.unknown_ops if predicted else (),
        notes=(*compiled.notes, *_strange(epochs, compiled)),
    )


def _strange(epochs: tuple[EpochProfile, ...], compiled: Profile) -> list[str]:
    """Blocks whose borders are not borders of epochs: the device runs another build."""
    firsts, lasts = {e.first for e in compiled.epochs}, {e.last for e in compiled.epochs}
    names = [e.name for e in epochs if e.first not in firsts or e.last not in lasts]
    if not names:
        return []
    count = f"{len(names)} of {len(epochs)} blocks"
    return [f"{count} are not in the program, the first is {names[0]}"]


def _scaled(interval: tuple[float, float | None], scale: float) -> tuple[float, float | None]:
    low, high = interval
    return low * scale, None if high is None else high * scale


def _programmed_ms(predicted: Profile | None, machine: Machine | None, clocks: RunClocks) -> float:
    """What the epoch controller adds to the cores of its epochs."""
    if predicted is None or machine is None:
        return 0.0
    epochs = sum(e.kind is EpochKind.HW and e.blob is not None for e in predicted.epochs)
    return epochs * machine.generation.control.controller_cycles / clocks.npu_mhz / 1000


def _tensor(tensor: TensorDesc) -> TensorInfo:
    scale, zero = (tensor.scale, tensor.zero_point) if tensor.scale else (None, None)
    return TensorInfo(tensor.name, tensor.shape, tensor.dtype, scale, zero, tensor.size_bytes)
