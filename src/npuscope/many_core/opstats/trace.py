"""The timeline of one or several stats buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npuscope.errors import FileError, UsageError
from npuscope.many_core.buffer_format import Stats
from npuscope.many_core.opstats.host_trace import HostTrace, add_host, host_start_ns
from npuscope.many_core.opstats.index import OpIndex, op_index
from npuscope.many_core.opstats.trace_device import PeerSlices, add_device
from npuscope.many_core.opstats.trace_ops import add_flows, add_ops
from npuscope.many_core.opstats.trace_rows import Rows, Scene
from npuscope.many_core.records import UTIMER_HZ, SectionId
from npuscope.text import safe_terminal
from npuscope.trace_builder import TraceBuilder
from npuscope.trace_model import TraceModel, ticks_to_ns


@dataclass(frozen=True, slots=True)
class TraceOptions:
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
    chosen = _chosen(stats, options)
    rows = Rows(TraceBuilder(), by_thread=not options.merge_thread_groups)
    offsets, base_ns = _alignment([made for made, _ in chosen], options.host)
    if options.host is not None:
        add_host(rows.builder, options.host, base_ns)
    peers = PeerSlices()
    for place, (made, position) in enumerate(chosen):
        index = indices[position] if indices else op_index(made.layout, made.specialization)
        scene = Scene(rows, made, index, offsets[place], options.cores)
        add_device(scene, peers)
        slices = add_ops(scene, barriers=options.barriers)
        if options.flows:
            add_flows(scene, slices)
    if options.flows:
        peers.connect(rows.builder)
    return rows.builder.build(", ".join(made.name for made, _ in chosen))


def _chosen(stats: Sequence[Stats], options: TraceOptions) -> list[tuple[Stats, int]]:
    _check_known("device", options.devices, {made.device for made in stats})
    cores = {int(core) for made in stats for core in made.of(SectionId.THREAD_INF)["core"]}
    _check_known("core", options.cores, cores)
    wanted = options.devices
    return [(m, i) for i, m in enumerate(stats) if wanted is None or m.device in wanted]


def _check_known(what: str, wanted: frozenset[int] | None, known: set[int]) -> None:
    missing = sorted((wanted or frozenset()) - known)
    if missing:
        raise UsageError(
            f"no {what} {missing[0]} in these buffers",
            where=f"--select-{what}s",
            hint=f"there are {', '.join(map(str, sorted(known)))}",
        )


def _alignment(stats: Sequence[Stats], host: HostTrace | None) -> tuple[list[int], int]:
    """What to add to each device's time, and the UTC time that the trace calls 0.

    A single device keeps its own timer's time. Devices count from different moments, and the host
    has no such timer: there, time is UTC after the first of all.
    """
    unknown = next((made for made in stats if not made.utc_ns), None)
    alone = len({made.device for made in stats}) < 2 and host is None
    if alone or (host is None and unknown is not None):
        return [0] * len(stats), 0
    if unknown is not None:
        raise FileError(
            "this buffer does not say which time of day its timer started at, "
            "so a host trace cannot be laid beside it",
            where=safe_terminal(unknown.name),
            hint="leave out --host-trace",
        )
    starts = [made.utc_ns + _first_ns(made) for made in stats]
    if host is not None:
        starts.append(host_start_ns(host))
    base = min(starts)
    return [made.utc_ns - base for made in stats], base


def _first_ns(stats: Stats) -> int:
    ticks = stats.of(SectionId.THREAD_INF)["start_uc"]
    return int(ticks_to_ns(ticks.min() if len(ticks) else 0, UTIMER_HZ))


def undrawn_note(model: TraceModel) -> str | None:
    """What a reader of the trace should know about arrows that are not there."""
    if not model.undrawn_flows:
        return None
    share = model.undrawn_flows / (model.undrawn_flows + len(model.flows))
    return (
        f"{model.undrawn_flows} of the flows ({share:.0%}) are not drawn: "
        "their target does not come after their source"
    )
