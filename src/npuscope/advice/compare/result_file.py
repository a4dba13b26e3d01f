"""What `estimate --json` and `profile --json` wrote, read back as a Profile.

Those objects are for readers: counters are rounded, engines and bursts are left out. Times, kinds,
source ops and memories are all there, which is what a comparison needs.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import orjson

from npuscope.bounded_file import RESULT, read_bytes, read_head
from npuscope.errors import FileError
from npuscope.profile.model import UNKNOWN_FIT, UNKNOWN_MEMORY, Profile
from npuscope.program.records import decode_record, encode
from npuscope.text import safe_terminal

PROFILE_SCHEMAS = ("npuscope/estimate/1", "npuscope/profile/1")
GATE_SCHEMA = "npuscope/gate/1"
_HEAD_BYTES = 256
_DROPPED = ("compute_cycles", "max_cycles", "core_cycles", "pre_cycles", "post_cycles", "bound")


def result_schema(path: str | Path) -> str:
    """The schema that the first lines of a .json file name, if it is one of these; else ""."""
    path = Path(path)
    if path.suffix.lower() != ".json" or not path.is_file():
        return ""
    head = read_head(path, _HEAD_BYTES)
    known = (*PROFILE_SCHEMAS, GATE_SCHEMA)
    return next((name for name in known if f'"schema": "{name}"'.encode() in head), "")


def read_result(path: str | Path) -> dict[str, Any]:
    """The object of a result file."""
    data = read_bytes(path, RESULT)
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise FileError(f"not JSON: {error}", where=str(path)) from None
    if not isinstance(found, dict):
        raise FileError("expected an object", where=str(path))
    return found


def read_result_profile(path: str | Path) -> Profile:
    try:
        return profile_from_result(read_result(path))
    except FileError as error:
        place = safe_terminal(str(path))
        error.where = error.where if place in error.where else f"{place}: {error.where}"
        raise


def profile_from_result(data: dict[str, Any]) -> Profile:
    """The records of profile.model, under whose names and types everything is checked."""
    epochs = data.get("epochs")
    if not isinstance(epochs, list):
        raise FileError("expected a list", where="$.epochs")
    machine = data.get("machine")
    profile: Profile = decode_record(
        {
            "program_hash": "",
            **{name: data.get(name) for name in ("model", "total_ms", "interval_ms", "time")},
            "machine": machine,
            "model_error": data.get("model_error", ""),
            "runs": data.get("runs") or [_predicted(machine)],
            "epochs": [_epoch(entry, f"$.epochs[{n}]") for n, entry in enumerate(epochs)],
            "memory": data.get("memory") or encode(UNKNOWN_MEMORY),
            "fit": data.get("fit") or encode(UNKNOWN_FIT),
            "counts": data.get("counts"),
            "notes": data.get("notes", []),
        },
        Profile,
        "$",
    )
    _check_times(profile)
    return profile


def _predicted(machine: object) -> dict[str, Any]:
    """An estimate has no run of its own; its clocks are those of the machine."""
    known = machine if isinstance(machine, dict) else {}
    clocks = {name: known.get(name) for name in ("mcu_mhz", "npu_mhz")}
    return {"source": "estimate", "clocks": {**clocks, "noc_mhz": 0.0, "nic_mhz": 0.0}}


def _epoch(entry: object, path: str) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise FileError("expected an object", where=path)
    kept = {key: value for key, value in entry.items() if key not in (*_DROPPED, "ops", "pools")}
    kept.pop("counters", None)
    ms = entry.get("ms")
    return {
        **kept,
        "operators": entry.get("ops"),
        "spread": entry.get("spread") or {"min": ms, "median": ms, "max": ms, "n": 1},
        "claims": {name: entry.get(name) for name in ("compute_cycles", "max_cycles")},
        "counters": {
            "number": entry.get("first"),
            "last_number": entry.get("last"),
            **{name: entry.get(name) for name in ("pre_cycles", "core_cycles", "post_cycles")},
            "bound": entry.get("bound"),
            "traffic": _traffic(entry.get("pools"), f"{path}.pools"),
        },
    }


def _traffic(pools: object, path: str) -> list[dict[str, Any]]:
    if not isinstance(pools, dict) or not all(isinstance(row, dict) for row in pools.values()):
        raise FileError("expected an object of objects", where=path)
    return [{"pool": name, **row} for name, row in pools.items()]


def _check_times(profile: Profile) -> None:
    """A time that is no number would pass every limit."""
    times = [profile.total_ms, *(epoch.ms for epoch in profile.epochs)]
    clocks = [value for run in profile.runs for value in (run.clocks.mcu_mhz, run.clocks.npu_mhz)]
    if not all(math.isfinite(value) and value >= 0 for value in times):
        raise FileError("expected times of 0 ms or more", where="$.epochs")
    if not all(math.isfinite(value) and value > 0 for value in clocks):
        raise FileError("expected clocks above 0 MHz", where="$.runs")
