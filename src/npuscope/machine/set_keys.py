"""What-if values: `--set clocks.npu_mhz=800` replaces one value of a machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from npuscope.errors import UsageError
from npuscope.machine.check import find_fault
from npuscope.machine.keys import Key, machine_keys, with_value
from npuscope.machine.marks import Effect
from npuscope.machine.model import Machine
from npuscope.machine.overrides import canonical, same_list, unknown_key
from npuscope.machine.schema import SchemaError, scalar, unwrapped


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
            key.name, key.value, _same_type(name, key.kind, overrides[name]), key.effect
        )
        for name, key in found.items()
    }
    return tuple(by_name.values())


def with_overrides(machine: Machine, overrides: Mapping[str, object]) -> Machine:
    """The machine with single values replaced; keys are dotted TOML paths or aliases."""
    for key, found in found_keys(machine, overrides).items():
        machine = with_value(machine, found, _same_type(key, found.kind, overrides[key]))
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


def _same_type(key: str, kind: Any, new: object) -> object:
    if get_origin(kind) is tuple:
        return tuple(same_list(key, unwrapped(get_args(kind)[0])[0], new))
    try:
        return scalar(kind, new, key)
    except SchemaError as error:
        raise UsageError(error.message, where=f"--set {key}") from None
