"""Profiles as the JSON objects that other programs rely on. Keys are added, never renamed.

What a saved Profile (profiling/saved.py) holds in full is rounded, renamed and sorted here; both
are made by the one encoder of records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npuscope.profiling.model import (
    UNKNOWN_FIT,
    UNKNOWN_MEMORY,
    EpochProfile,
    Profile,
    RunClocks,
)
from npuscope.records import encode
from npuscope.report.figures import clocks_of, phases, source_of
from npuscope.rulebook.finding import Finding, finding_json

ESTIMATE_SCHEMA = "npuscope/estimate/1"
PROFILE_SCHEMA = "npuscope/profile/1"


def estimate_json(profile: Profile, findings: Iterable[Finding] = ()) -> dict[str, Any]:
    """The object of `npuscope estimate --json`."""
    record = encode(profile, whole=True)
    return _shared(profile, record, ESTIMATE_SCHEMA, map(_epoch, record["epochs"]), findings)


def profile_json(profile: Profile, findings: Iterable[Finding] = ()) -> dict[str, Any]:
    """The object of `npuscope profile --json`: the estimate's keys, runs and counters."""
    record = encode(profile, whole=True)
    clocks = clocks_of(profile)
    pairs = zip(profile.epochs, record["epochs"], strict=True)
    epochs = (_epoch(entry) | _counted(epoch, entry, clocks) for epoch, entry in pairs)
    ran = {"runs": record["runs"]} | ({"device": record["device"]} if profile.device else {})
    return _shared(profile, record, PROFILE_SCHEMA, epochs, findings) | ran


def identity_json(profile: Profile) -> dict[str, Any]:
    """Which network on which machine, and where the times came from."""
    return {
        "model": {"file": profile.model.file, "md5": profile.model.md5},
        "machine": encode(profile.machine, whole=True),
        "provenance": source_of(profile).value,
    }


def _shared(
    profile: Profile,
    record: dict[str, Any],
    schema: str,
    epochs: Iterable[dict[str, Any]],
    findings: Iterable[Finding],
) -> dict[str, Any]:
    return {
        "schema": schema,
        "model": record["model"],
        "machine": record["machine"],
        # null where too little of the network is known for a figure; `time` is then of the rest
        "total_ms": None if profile.is_mostly_unknown else _ms(profile.total_ms),
        "interval_ms": [None if limit is None else _ms(limit) for limit in profile.interval_ms],
        "unknown_ops": list(profile.unknown_ops),
        "stops": record["stops"],
        "model_error": profile.model_error,
        "inferences_per_s": None
        if profile.is_mostly_unknown
        else round(profile.inferences_per_s, 3),
        "time": {name: _ms(value) for name, value in record["time"].items()},
        "memory": None if profile.memory == UNKNOWN_MEMORY else record["memory"],
        "fit": None if profile.fit == UNKNOWN_FIT else record["fit"],
        "counts": record["counts"],
        "epochs": list(epochs),
        "findings": [finding_json(finding) for finding in findings],
        "notes": record["notes"],
    }


def _epoch(record: dict[str, Any]) -> dict[str, Any]:
    claims, counters = record["claims"], record["counters"]
    traffic = {row["pool"]: row for row in counters["traffic"]}
    return {
        **{key: record[key] for key in ("index", "name", "first", "last", "kind", "blob")},
        "ops": record["operators"],
        "origin": record["origin"],
        **{key: claims[key] for key in ("compute_cycles", "max_cycles")},
        **{key: round(counters[key]) for key in ("core_cycles", "pre_cycles", "post_cycles")},
        "ms": _ms(record["ms"]),
        "provenance": record["provenance"],
        "bound": counters["bound"],
        "units": record["units"],
        "pools": {
            pool: {key: row[key] for key in ("read_bytes", "write_bytes")}
            for pool, row in traffic.items()
        },
    }


def _counted(epoch: EpochProfile, record: dict[str, Any], clocks: RunClocks) -> dict[str, Any]:
    spread, counters = record["spread"], record["counters"]
    cycles = phases(epoch, clocks)
    predicted = epoch.predicted_ms
    return {
        "spread": {key: value if key == "n" else _ms(value) for key, value in spread.items()},
        "predicted_ms": None if predicted is None else _ms(predicted),
        "counters": {
            "mcu_cycles": [round(value) for value in cycles.mcu_cycles],
            "npu_cycles": [round(value) for value in cycles.npu_cycles],
            "stream_engines": counters["engines"],
            "busif": counters["busif"],
            "npu_cache": {
                way: {
                    key.removeprefix(f"{way}_"): value
                    for key, value in counters["cache"].items()
                    if key.startswith(f"{way}_")
                }
                for way in ("read", "write")
            },
        },
    }


def _ms(value: float) -> float:
    """Whole nanoseconds; finer digits are noise."""
    return round(value, 6)
