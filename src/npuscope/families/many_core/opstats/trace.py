"""The timeline of one or several stats buffers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct, field

from npuscope.errors import FileError, UsageError
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.opstats.host_trace import HostTrace, add_host, host_start_ns
from npuscope.families.many_core.opstats.index import (
    OpIndex,
    ddr_rows,
    event_name,
    op_index,
    pmu_rows,
)
from npuscope.families.many_core.opstats.tables import longest_wait, port_rows
from npuscope.families.many_core.opstats.trace_ops import add_flows, add_ops
from npuscope.families.many_core.opstats.trace_rows import Rows, Scene
from npuscope.families.many_core.records import UTIMER_HZ, SectionId
from npuscope.text import safe_terminal
from npuscope.trace_builder import Args, TraceBuilder
from npuscope.trace_model import TraceModel, floats, ints, texts, ticks_to_ns

# --- Devices and cores: execution, doorbells, transfers to peers ---

_TICKS_PER_US = UTIMER_HZ / 1e6


class PeerSlices(Struct):
    """Both sides of transfers between devices, by (source, target, transaction)."""

    sent: dict[tuple[int, int, int], int] = field(default_factory=dict)
    received: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def connect(self, builder: TraceBuilder) -> None:
        both = [key for key in self.sent if key in self.received]
        builder.add_flows(
            np.array([self.sent[key] for key in both], np.int64),
            np.array([self.received[key] for key in both], np.int64),
            "p2p",
        )


def add_device(scene: Scene, peers: PeerSlices) -> None:
    _add_execution(scene)
    _add_cores(scene)
    _add_doorbells(scene)
    _add_peers(scene, peers)


def _add_execution(scene: Scene) -> None:
    records = scene.stats.of(SectionId.THREAD_INF)
    if not len(records):
        return
    start, end = (np.array([t]) for t in (records["start_uc"].min(), records["end_uc"].max()))
    row = scene.rows.thread(scene.rows.device(scene.stats), scene.stats.network.name)
    args = {
        "inference": ints(scene.stats.inference),
        "ucycles": ints(int(end[0]) - int(start[0])),
        "statsLevel": ints(scene.stats.level),
    }
    name = f"Device_{scene.stats.device}_Execution"
    scene.builder.add_slices(row, scene.ns(start), scene.ns(end), name, "device", args)


def _add_cores(scene: Scene) -> None:
    """One slice per core, with what was counted for it as a whole."""
    records = scene.stats.of(SectionId.THREAD_INF)
    for core in np.unique(records["core"][scene.shown(records["core"])]).tolist():
        mine = records[records["core"] == core]
        start, end = mine["start_uc"].min(), mine["end_uc"].max()
        ticks = int((mine["end_uc"] - mine["start_uc"]).max())
        cycles = int((mine["end_pc"] - mine["start_pc"]).max())
        mhz = cycles * _TICKS_PER_US / ticks if ticks else 0.0
        process = scene.rows.core(scene.stats, core)
        scene.builder.add_slices(
            scene.rows.thread(process, f"{scene.stats.network.name}_Core_{core}"),
            scene.ns(np.array([start])),
            scene.ns(np.array([end])),
            f"Core-{core}-Execution",
            "core",
            {
                "ucycles": ints(ticks),
                "pcycles": ints(cycles),
                "effectiveFreq": floats(mhz),
                **_counted(scene, core),
            },
        )
        at = scene.ns(np.array([start, end]))
        scene.builder.add_samples(scene.rows.clock(scene.stats, core), at, mhz)


def _counted(scene: Scene, core: int) -> Args:
    """Port waits, PMU events and DDR bytes of a core, as far as they were collected."""
    values: dict[str, int] = {}
    ports = [row for row in port_rows(scene.stats) if row.core == core]
    for word, incoming in (("Input", True), ("Output", False)):
        wait = longest_wait(ports, incoming=incoming)
        if wait is not None:
            values[f"max{word}WaitUCycle"] = wait
    rows = [row.counts for row in pmu_rows(scene.stats) if row.core == core]
    for code, counts in zip(scene.stats.layout.pmu.events, zip(*rows, strict=False), strict=False):
        values[f"pmu {event_name(code)}"] = sum(counts)
    ddr = ddr_rows(scene.stats).get(core)
    if ddr is not None:
        values |= {"ddrReadBytes": ddr.read_bytes, "ddrWriteBytes": ddr.write_bytes}
    return {name: ints(value) for name, value in values.items()}


def _add_doorbells(scene: Scene) -> None:
    """When input arrived, one row per port."""
    records = scene.stats.of(SectionId.PORT_RING)
    records = records[scene.shown(records["core"])]
    for port in np.unique(records["port"]).tolist():
        mine = records[records["port"] == port]
        # Cores that notice it at the same time are one mark: marks at one place hide each other.
        keys = mine["uc"].astype(np.int64) << 16 | mine["seq"]
        _, first, cores = np.unique(keys, return_index=True, return_counts=True)
        mine = mine[first]
        layout = next(
            (candidate for candidate in scene.stats.layout.ports if candidate.id == port), None
        )
        kind = "Host_IO_Port" if layout is None or layout.kind == "host" else "P2P_Port"
        scene.builder.add_instants(
            scene.rows.thread(
                scene.rows.device(scene.stats),
                f"{scene.stats.network.name}_{kind}_{port}",
                sort=port,
            ),
            scene.ns(mine["uc"]),
            "doorbell",
            "port",
            {
                "port": ints(np.full(len(mine), port)),
                "core": ints(mine["core"]),
                "cores": ints(cores),
                "seq": ints(mine["seq"]),
            },
        )


def _add_peers(scene: Scene, peers: PeerSlices) -> None:
    """Transfers to and from other devices, one row per direction."""
    records = scene.stats.of(SectionId.P2P_REC)
    device = scene.stats.device
    for sending in (True, False):
        mine = records[(records["src_dev"] == device) == sending]
        if not len(mine):
            continue
        word = "send" if sending else "receive"
        ends_of = zip(mine["src_dev"].tolist(), mine["dst_dev"].tolist(), strict=True)
        directions = [f"{a}->{b}" if sending else f"{b}<-{a}" for a, b in ends_of]
        row = scene.rows.thread(
            scene.rows.device(scene.stats), f"{scene.stats.network.name}_P2P_{word}", sort=10_000
        )
        slices = scene.builder.add_slices(
            np.full(len(mine), row),
            scene.ns(mine["start_uc"]),
            scene.ns(mine["end_uc"]),
            f"P2P {word}",
            "p2p",
            {
                "PortDescription": texts(scene.builder.texts(directions)),
                "TransactionId": ints(mine["txn"]),
                "oc": ints(mine["oc"]),
                "port": ints(mine["port"]),
                "bytes": ints(mine["bytes"].astype(np.int64)),
            },
            overlapping=True,
        )
        keys = zip(*(mine[n].tolist() for n in ("src_dev", "dst_dev", "txn")), strict=True)
        ends = peers.sent if sending else peers.received
        ends.update(zip(keys, slices.tolist(), strict=True))


class TraceOptions(Struct, frozen=True):
    """What the timeline shows. None stands for all cores or devices."""

    cores: frozenset[int] | None = None
    devices: frozenset[int] | None = None
    merge_thread_groups: bool = True
    flows: bool = False
    barriers: bool = False
    host: HostTrace | None = None


def trace_of(
    stats: Sequence[Stats],
    options: TraceOptions | None = None,
    indices: Sequence[OpIndex] | None = None,
) -> TraceModel:
    """Devices beside each other, aligned by UTC where the buffers know it."""
    options = options or TraceOptions()
    _check_known("device", options.devices, {one.device for one in stats})
    cores = {int(core) for one in stats for core in one.of(SectionId.THREAD_INF)["core"]}
    _check_known("core", options.cores, cores)
    devices = options.devices
    selection = [(m, i) for i, m in enumerate(stats) if devices is None or m.device in devices]
    rows = Rows(TraceBuilder(), by_thread=not options.merge_thread_groups)
    offsets, base_ns = _alignment([one for one, _ in selection], options.host)
    if options.host is not None:
        add_host(rows.builder, options.host, base_ns)
    peers = PeerSlices()
    for place, (one, position) in enumerate(selection):
        index = indices[position] if indices else op_index(one.layout, one.specialization)
        scene = Scene(rows, one, index, offsets[place], options.cores)
        add_device(scene, peers)
        slices = add_ops(scene, barriers=options.barriers)
        if options.flows:
            add_flows(scene, slices)
    if options.flows:
        peers.connect(rows.builder)
    return rows.builder.build(", ".join(one.name for one, _ in selection))


def _check_known(what: str, selection: frozenset[int] | None, present: set[int]) -> None:
    missing = sorted((selection or frozenset()) - present)
    if missing:
        raise UsageError(
            f"no {what} {missing[0]} in these buffers",
            where=f"--select-{what}s",
            hint=f"there are {', '.join(map(str, sorted(present)))}",
        )


def _alignment(stats: Sequence[Stats], host: HostTrace | None) -> tuple[list[int], int]:
    """What to add to each device's time, and the UTC time that the trace calls 0.

    A single device keeps its own timer's time. Devices count from different moments, and the host
    has no such timer: there, time is UTC after the first of all.
    """
    unknown = next((one for one in stats if not one.utc_ns), None)
    alone = len({one.device for one in stats}) < 2 and host is None
    if alone or (host is None and unknown is not None):
        return [0] * len(stats), 0
    if unknown is not None:
        raise FileError(
            "this buffer does not say which time of day its timer started at, "
            "so a host trace cannot be laid beside it",
            where=safe_terminal(unknown.name),
            hint="leave out --host-trace",
        )
    starts = []
    for one in stats:
        ticks = one.of(SectionId.THREAD_INF)["start_uc"]
        first = ticks_to_ns(ticks.min() if len(ticks) else 0, UTIMER_HZ)
        starts.append(one.utc_ns + int(first))
    if host is not None:
        starts.append(host_start_ns(host))
    base = min(starts)
    return [one.utc_ns - base for one in stats], base


def undrawn_note(model: TraceModel) -> str | None:
    """What a reader of the trace should know about arrows that are not there."""
    if not model.undrawn_flows:
        return None
    share = model.undrawn_flows / (model.undrawn_flows + len(model.flows))
    return (
        f"{model.undrawn_flows} of the flows ({share:.0%}) are not drawn: "
        "their target does not come after their source"
    )
