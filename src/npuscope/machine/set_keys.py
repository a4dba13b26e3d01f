"""What-if values: `--set clocks.npu_mhz=800` replaces one value of a machine, or of a plain
table."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from npuscope.errors import UsageError
from npuscope.machine.keys import Key, machine_keys, with_value
from npuscope.machine.marks import Effect
from npuscope.machine.model import Machine
from npuscope.machine.schema import SchemaError, describe, find_fault, scalar, show, unwrapped

# What-if values in plain tables, and how keys are spelt; set_keys.py sets those of records.

# How people say it -> where it stands in the TOML.
ALIASES = {
    "npu.clock_mhz": "clocks.npu_mhz",
    "mcu.clock_mhz": "clocks.mcu_mhz",
    "noc.clock_mhz": "clocks.noc_mhz",
    "nic.clock_mhz": "clocks.nic_mhz",
    "xspi.clock_mhz": "clocks.xspi_mhz",
}


def apply_overrides(table: dict[str, Any], overrides: Mapping[str, object]) -> None:
    """Replace single values of `table` in place; keys are dotted TOML paths."""
    for key, value in overrides.items():
        places = leaves(table)
        name = canonical(key)
        if name not in places:
            raise unknown_key(key, name, places)
        owner, last = places[name]
        owner[last] = _same_type(key, owner[last], value)


def leaves(table: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Dotted path -> (the table or list that holds the value, its key there).

    Entries of a list of tables go by their name: `pools.npuRAM5.size_kib`.
    """
    found: dict[str, tuple[Any, Any]] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found.update({f"{key}.{path}": place for path, place in leaves(value).items()})
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            named = {str(item.get("name", i)): item for i, item in enumerate(value)}
            found.update({f"{key}.{path}": place for path, place in leaves(named).items()})
        else:
            found[key] = (table, key)
    return found


def canonical(key: str) -> str:
    """The TOML path of a key as a user wrote it."""
    name = key.removeprefix("machine.")
    return ALIASES.get(name, name)


def unknown_key(key: str, name: str, places: Mapping[str, object]) -> UsageError:
    """The complaint about a key, with its nearest neighbours."""
    names = [*places, *ALIASES]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    last = name.rpartition(".")[2]
    near += [path for path in names if path.rpartition(".")[2] == last and path not in near][:3]
    hint = f"nearest: {', '.join(near)}" if near else "keys are paths of the machine's TOML"
    return UsageError(f"the machine has no key '{key}'", where="--set", hint=hint)


def _same_type(key: str, old: object, new: object) -> object:
    if isinstance(old, list):
        return same_list(key, type(old[0]) if old else str, new)
    kind = type(old)
    # A whole number in the TOML may stand for a float, so the record decides about fractions.
    if kind is int and isinstance(new, float):
        kind = float
    try:
        return scalar(kind, new, key)
    except SchemaError as error:
        raise UsageError(error.message, where=f"--set {key}") from None


def same_list(key: str, kind: type, new: object) -> list[object]:
    """A list whose entries are all of one type."""
    if isinstance(new, list | tuple) and all(type(item) is kind for item in new):
        return list(new)
    raise UsageError(
        f"expected a list, each {describe(kind)}, found {show(new)}", where=f"--set {key}"
    )


# What-if values: `--set clocks.npu_mhz=800` replaces one value of a machine.


@dataclass(frozen=True, slots=True)
class Change:
    """One key with another value."""

    key: str
    old: Any
    new: Any
    effect: Effect

    @property
    def remaps(self) -> bool:
        """A compiled Program no longer fits the machine."""
        return self.effect is Effect.MAPPING and self.old != self.new


def changes_of(machine: Machine, overrides: Mapping[str, object]) -> tuple[Change, ...]:
    """What the overrides change, each key once, by its name in the TOML."""
    found = found_keys(machine, overrides)
    by_name = {
        key.name: Change(
            key.name, key.value, _key_type(name, key.kind, overrides[name]), key.effect
        )
        for name, key in found.items()
    }
    return tuple(by_name.values())


def with_overrides(machine: Machine, overrides: Mapping[str, object]) -> Machine:
    """The machine with single values replaced; keys are dotted TOML paths or aliases."""
    for key, found in found_keys(machine, overrides).items():
        machine = with_value(machine, found, _key_type(key, found.kind, overrides[key]))
    fault = find_fault(machine) if overrides else None
    if fault is not None:
        raise UsageError(fault.message, where=f"--set {fault.path}")
    return machine


def found_keys(machine: Machine, names: Iterable[str]) -> dict[str, Key]:
    """The machine's keys by the names that a user gave them."""
    found = {}
    for name in names:
        place = canonical(name)
        key = machine_keys(machine, place.partition(".")[0]).get(place)
        if key is None:
            raise unknown_key(name, place, machine_keys(machine))
        found[name] = key
    return found


def _key_type(key: str, kind: Any, new: object) -> object:
    if get_origin(kind) is tuple:
        return tuple(same_list(key, unwrapped(get_args(kind)[0])[0], new))
    try:
        return scalar(kind, new, key)
    except SchemaError as error:
        raise UsageError(error.message, where=f"--set {key}") from None
