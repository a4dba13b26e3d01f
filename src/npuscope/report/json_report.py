"""Profiles as the JSON objects that other programs rely on. Keys are added, never renamed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from npuscope.profiling.model import (
    UNKNOWN_FIT,
    UNKNOWN_MEMORY,
    EpochProfile,
    MemoryUse,
    Profile,
    Run,
    RunClocks,
    Spread,
    TensorInfo,
)
from npuscope.report.figures import clocks_of, phases
from npuscope.rulebook.finding import Finding, finding_json
from npuscope.sim.counters import BusTraffic, CacheCounts

ESTIMATE_SCHEMA = "npuscope/estimate/1"
PROFILE_SCHEMA = "npuscope/profile/1"


def estimate_json(profile: Profile, findings: Iterable[Finding] = ()) -> dict[str, Any]:
    """The object of `npuscope estimate --json`."""
    epochs = [_epoch(epoch) for epoch in profile.epochs]
    return _shared(profile, ESTIMATE_SCHEMA, epochs, findings)


def profile_json(profile: Profile, findings: Iterable[Finding] = ()) -> dict[str, Any]:
    """The object of `npuscope profile --json`: the estimate's keys, runs and counters."""
    clocks = clocks_of(profile)
    epochs = [_epoch(epoch) | _counted(epoch, clocks) for epoch in profile.epochs]
    shared = _shared(profile, PROFILE_SCHEMA, epochs, findings)
    return shared | {"runs": [_run(r) for r in profile.runs]}


def _shared(
    profile: Profile, schema: str, epochs: list[dict[str, Any]], findings: Iterable[Finding]
) -> dict[str, Any]:
    return {
        "schema": schema,
        "model": _model(profile),
        "machine": asdict(profile.machine),
        "total_ms": _ms(profile.total_ms),
        "interval_ms": [None if limit is None else _ms(limit) for limit in profile.interval_ms],
        "unknown_ops": list(profile.unknown_ops),
        "model_error": profile.model_error,
        "inferences_per_s": round(profile.inferences_per_s, 3),
        "time": {name: _ms(value) for name, value in asdict(profile.time).items()},
        "memory": _memory(profile.memory),
        "fit": None if profile.fit == UNKNOWN_FIT else asdict(profile.fit),
        "counts": dict(profile.counts),
        "epochs": epochs,
        "findings": [finding_json(finding) for finding in findings],
        "notes": list(profile.notes),
    }


def _model(profile: Profile) -> dict[str, Any]:
    model = profile.model
    return {
        "file": model.file,
        "md5": model.md5,
        "inputs": [_tensor(tensor) for tensor in model.inputs],
        "outputs": [_tensor(tensor) for tensor in model.outputs],
        "macs": model.macs,
        "params": model.params,
    }


def _tensor(tensor: TensorInfo) -> dict[str, Any]:
    return asdict(tensor) | {"shape": list(tensor.shape)}


def _memory(memory: MemoryUse) -> dict[str, Any] | None:
    if memory == UNKNOWN_MEMORY:
        return None
    return {
        "internal_ram_bytes": memory.internal_ram_bytes,
        "external_ram_bytes": memory.external_ram_bytes,
        "weights_bytes": memory.weights_bytes,
        "lower_bound_bytes": memory.lower_bound_bytes,
        "pools": [asdict(pool) for pool in memory.pools],
    }


def _epoch(epoch: EpochProfile) -> dict[str, Any]:
    counters = epoch.counters
    return {
        "index": epoch.index,
        "name": epoch.name,
        "first": epoch.first,
        "last": epoch.last,
        "kind": epoch.kind.value,
        "blob": epoch.blob,
        "ops": list(epoch.operators),
        "origin": list(epoch.origin),
        "compute_cycles": epoch.claims.compute_cycles,
        "max_cycles": epoch.claims.max_cycles,
        "core_cycles": round(counters.core_cycles),
        "pre_cycles": round(counters.pre_cycles),
        "post_cycles": round(counters.post_cycles),
        "ms": _ms(epoch.ms),
        "provenance": epoch.provenance.value,
        "bound": counters.bound.value,
        "units": dict(epoch.units),
        "pools": {
            row.pool: {"read_bytes": row.read_bytes, "write_bytes": row.write_bytes}
            for row in counters.traffic
        },
    }


def _counted(epoch: EpochProfile, clocks: RunClocks) -> dict[str, Any]:
    counters = epoch.counters
    cycles = phases(epoch, clocks)
    return {
        "spread": _spread(epoch.spread),
        "predicted_ms": None if epoch.predicted_ms is None else _ms(epoch.predicted_ms),
        "counters": {
            "mcu_cycles": [round(value) for value in cycles.mcu_cycles],
            "npu_cycles": [round(value) for value in cycles.npu_cycles],
            "stream_engines": [asdict(engine) for engine in counters.engines],
            "busif": [_bus(bus) for bus in counters.busif],
            "npu_cache": _cache(counters.cache),
        },
    }


def _spread(spread: Spread) -> dict[str, float | int]:
    return {
        "min": _ms(spread.min),
        "median": _ms(spread.median),
        "max": _ms(spread.max),
        "n": spread.n,
    }


def _bus(bus: BusTraffic) -> dict[str, Any]:
    return {
        "id": bus.id,
        "read_bursts": list(bus.read_bursts),
        "write_bursts": list(bus.write_bursts),
    }


def _cache(cache: CacheCounts) -> dict[str, dict[str, int]]:
    return {
        "read": {
            "hit": cache.read_hit,
            "miss": cache.read_miss,
            "alloc_miss": cache.read_alloc_miss,
            "evict": cache.read_evict,
        },
        "write": {
            "hit": cache.write_hit,
            "miss": cache.write_miss,
            "alloc_miss": cache.write_alloc_miss,
            "through": cache.write_through,
        },
    }


def _run(run: Run) -> dict[str, Any]:
    return {"source": run.source.value, "clocks": asdict(run.clocks), "n": run.n}


def _ms(value: float) -> float:
    """Whole nanoseconds; finer digits are noise."""
    return round(value, 6)
