"""An estimate of a many-core inference, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import asdict

from npuscope.families.interface import Report
from npuscope.families.many_core.compiler.metrics import perf_metrics
from npuscope.families.many_core.inference import CoreInference
from npuscope.families.many_core.report.opstats_json import node_json
from npuscope.families.many_core.report.setups import setup_json, setup_line
from npuscope.families.many_core.rules import FAMILY
from npuscope.profiling.model import Profile
from npuscope.records import encode
from npuscope.report.figures import machine_line
from npuscope.rulebook.finding import finding_json
from npuscope.shown import significant
from npuscope.text import safe_terminal

SCHEMA = "npuscope/estimate/1"
_SHOWN_LEVERS = 8
_SHOWN_SHARE = 0.0005


def core_screen(profile: Profile) -> Report | None:
    """None for a run that was read: only a simulated one has a program."""
    if not isinstance(profile.payload, CoreInference):
        return None
    return Report("\n".join(_lines(profile, profile.payload)), core_json(profile, profile.payload))


def _lines(profile: Profile, timed: CoreInference) -> Iterator[str]:
    build, metrics = timed.build, perf_metrics(timed.build.program)
    low, high = profile.interval_ms
    assert high is not None  # every op of the family has a cost
    per_s = significant(profile.inferences_per_s, 4)
    speed = f"{significant(profile.total_ms, 4)} ms, {per_s} inf/s"
    yield f"{profile.fit_words}; {speed} (predicted)"
    yield machine_line(profile)
    ops = sum(len(part.all_ops()) for part in build.program.devices)
    macs, params = metrics.macs / 1e6, build.graph.parameters() / 1e6
    millions = f"{macs:,.2f} M MACs, {params:,.2f} M parameters"
    yield f"model    {safe_terminal(build.file)}: {millions}, {ops:,} ops"
    timing = timed.prediction
    limits = f"{significant(low, 4)} to {significant(high, 4)} ms"
    yield f"range    {limits} (80 % of published runs of other networks)"
    yield (
        f"time     device {significant(timing.device_ms, 4)} ms, "
        f"host {significant(timing.host_ms, 4)} ms"
    )
    yield ""
    yield "Shares of the time, which overlap in part"
    for name, share in timed.tables.verdict.shares:
        if share >= _SHOWN_SHARE:
            yield f"  {name:<16}{100 * share:>6.1f}%"
    yield ""
    peak = build.machine.ddr.peak_gb_per_s
    yield (
        f"DDR      {timing.ddr_bytes / 1e6:,.1f} MB per run, "
        f"{timing.ddr_gb_per_s:.1f} GB/s of {peak:g}"
    )
    most = max(core.vtcm_bytes for core in metrics.cores) / 1024
    room = build.machine.memory.vtcm_bytes / 1024
    yield f"VTCM     {most:,.0f} of {room:,.0f} KB on the fullest core"
    if timed.tables.roofline is not None:
        yield f"roofline {timed.tables.roofline.sentence}"
    if timed.tables.path:
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in timed.tables.path)
        yield f"path     op by op: {shares}"
    yield f"limit    {timing.limit_words}"
    if timed.scaling is not None:
        yield f"cores    {timed.scaling.sentence}"
    yield from (f"lever    {lever.sentence}" for lever in timed.levers[:_SHOWN_LEVERS])
    for objective, row in timed.setups.items():
        yield f"set-up   best {objective}: {setup_line(row)}"
    yield from (f"note     {safe_terminal(note)}" for note in build.program.layout.notes)


def core_json(profile: Profile, timed: CoreInference) -> dict[str, Any]:
    build = timed.build
    metrics = perf_metrics(build.program)
    return {
        "schema": SCHEMA,
        "model": {
            "file": build.file,
            "md5": build.md5,
            "inputs": [asdict(binding) for binding in build.program.inputs],
            "outputs": [asdict(binding) for binding in build.program.outputs],
            "macs": metrics.macs,
            "params": build.graph.parameters(),
        },
        "machine": {
            "name": build.machine.name,
            "family": FAMILY,
            "cores": build.program.layout.cores,
            "core_mhz": build.machine.clocks.core_mhz,
        },
        "total_ms": round(profile.total_ms, 6),
        "interval_ms": [round(limit or 0.0, 6) for limit in profile.interval_ms],
        "unknown_ops": [],
        "model_error": profile.model_error,
        "device_ms": round(timed.prediction.device_ms, 6),
        "host_ms": round(timed.prediction.host_ms, 6),
        "inferences_per_s": round(profile.inferences_per_s, 3),
        "memory": {
            "vtcm_bytes": [core.vtcm_bytes for core in metrics.cores],
            "ddr_bytes": round(timed.prediction.ddr_bytes),
            "constant_bytes": metrics.constant_bytes,
        },
        "engines": {name: round(share, 6) for name, share in timed.tables.verdict.shares},
        "verdict": timed.tables.verdict.bound.name,
        "levers": [lever.plain() for lever in timed.levers],
        "setups": {str(one): setup_json(row) for one, row in timed.setups.items()},
        "scaling": None if timed.scaling is None else encode(timed.scaling, whole=True),
        "path": dict(timed.tables.path),
        "modules": [asdict(row) for row in timed.tables.modules],
        "nodes": [node_json(row) for row in timed.tables.nodes],
        "findings": [finding_json(finding) for finding in timed.findings],
        "notes": [*build.program.layout.notes, *build.program.warnings],
    }
