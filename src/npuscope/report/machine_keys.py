"""The keys of a machine as a list: what --set takes, and what a new value asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from npuscope.machine.keys import Key, key_notes, machine_keys
from npuscope.machine.load import load_machine, packaged
from npuscope.machine.marks import Effect
from npuscope.report.estimate import shown
from npuscope.report.figures import shorten

_UNITS = {
    "_mhz": "MHz",
    "_cycles": "cycles",
    "_bytes": "bytes",
    "_kib": "KiB",
    "_mw": "mW",
    "_elements": "elements",
    "_per_cycle": "bytes a cycle",
}


@dataclass(frozen=True, slots=True)
class KnownKey:
    key: Key
    unit: str
    note: str


def known_keys(machine_name: str, text: str = "") -> tuple[KnownKey, ...]:
    """Keys with `text` in their name or mark."""
    machine = load_machine(machine_name)
    notes = key_notes(packaged(machine_name), machine)
    return tuple(
        KnownKey(key, _unit(name), notes[name])
        for name, key in machine_keys(machine).items()
        if text in name or text == key.effect.value
    )


def _unit(name: str) -> str:
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")


def keys_text(machine_name: str, rows: tuple[KnownKey, ...]) -> str:
    timing = sum(row.key.effect is Effect.TIMING for row in rows)
    lines = [
        f"{machine_name}: {len(rows)} keys for --set: {timing} timing (a program is timed again), "
        f"{len(rows) - timing} mapping (the model is compiled again)"
    ]
    for row in rows:
        value = shorten(_shown(row.key), 18)
        lines.append(
            f"  {row.key.name:<42} {value:>18}  {row.key.effect.value:<8} {row.note}".rstrip()
        )
    return "\n".join(lines)


def _shown(key: Key) -> str:
    return f"{key.value:#x}" if key.place[-1] == "address" else shown(key.value)


def keys_json(rows: tuple[KnownKey, ...]) -> list[dict[str, Any]]:
    return [
        {
            "key": row.key.name,
            "value": row.key.value,
            "kind": row.key.effect.value,
            "unit": row.unit,
            "note": row.note,
        }
        for row in rows
    ]
