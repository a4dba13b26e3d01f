"""A Profile as a file: the records of profile.model under their own field names, in full.

Schema "npuscope/profile/record/1". Unlike the object of `profile --json`, which is for readers,
nothing is rounded or left out: what is read back equals what was saved.
"""

from __future__ import annotations

from pathlib import Path

import orjson

from npuscope.bounded_file import RESULT, read_bytes, read_head
from npuscope.errors import FileError
from npuscope.profiling.model import SCHEMA, Profile
from npuscope.records import decode
from npuscope.text import safe_terminal

_HEAD_BYTES = 256
_MOST_MHZ = 1e6
_MOST_COUNTED = 10**13  # hours of cycles


def is_saved_profile(path: str | Path) -> bool:
    """By its first line: what else lies in .json files is up to others."""
    path = Path(path)
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    return f'"schema": "{SCHEMA}"'.encode() in read_head(path, _HEAD_BYTES)


def read_profile(path: str | Path) -> Profile:
    """A saved profile; an error names the place in the file."""
    path = Path(path)
    data = read_bytes(path, RESULT)
    try:
        return profile_from_json(data)
    except FileError as error:
        error.where = f"{safe_terminal(str(path))}: {error.where}".removesuffix(": ")
        raise


def profile_from_json(data: bytes) -> Profile:
    try:
        record = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise FileError(f"not JSON: {error}") from None
    schema = record.pop("schema", None) if isinstance(record, dict) else None
    if schema != SCHEMA:
        raise FileError(f"expected the schema {SCHEMA}", where="$.schema")
    profile: Profile = decode(record, Profile)
    for place, run in enumerate(profile.runs):
        # Times are cycles divided by them.
        if not (0 < run.clocks.mcu_mhz < _MOST_MHZ and 0 < run.clocks.npu_mhz < _MOST_MHZ):
            raise FileError("expected clocks above 0 MHz", where=f"$.runs[{place}].clocks")
    for place, epoch in enumerate(profile.epochs):
        # Reports calculate with them in 64 bits.
        cycles = (epoch.counters.pre_cycles, epoch.counters.core_cycles, epoch.counters.post_cycles)
        engines = [value for e in epoch.counters.engines for value in (e.active_cycles, e.bytes)]
        pools = [
            value for row in epoch.counters.traffic for value in (row.read_bytes, row.write_bytes)
        ]
        if not all(0 <= value < _MOST_COUNTED for value in (*cycles, *engines, *pools)):
            raise FileError(
                f"expected counts from 0 to {_MOST_COUNTED:,}", where=f"$.epochs[{place}].counters"
            )
    if not profile.runs:
        raise FileError("expected at least one run", where="$.runs")
    return profile
