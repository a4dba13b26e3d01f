"""Which family a machine or a file belongs to: those that come along, and those of packages with
the entry point GROUP."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.errors import FileError
from npuscope.families.interface import function_at
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.families.interface import Family

GROUP = "npuscope.machine_families"
# The first is the family of machines that nothing names.
PACKAGED = (
    "npuscope.families.neural_art.family:FAMILY",
    "npuscope.families.many_core.family:FAMILY",
    "npuscope.families.ethos_u.family:FAMILY",
)
# Verbs that only one family has, by the package that holds their modules.
VERBS = dict.fromkeys(
    (
        "manycore",
        "manycore_compile",
        "manycore_run",
        "manycore_setups",
        "manycore_tokens",
        "opstats",
    ),
    "npuscope.families.many_core.verbs",
)
_MODELS = (".tflite", ".onnx")


@cache
def families() -> tuple[Family, ...]:
    from importlib.metadata import entry_points

    return (*packaged_families(), *(entry.load() for entry in entry_points(group=GROUP)))


def packaged_families() -> tuple[Family, ...]:
    return tuple(map(_at, PACKAGED))


def _at(place: str) -> Family:
    family: Family = function_at(place)  # type: ignore[assignment]
    return family


def first_family() -> Family:
    return _at(PACKAGED[0])


def family_of(machine: object) -> Family:
    """The family of a machine; the first one for its own and for names that nobody knows."""
    first = first_family()
    if not isinstance(machine, str) or machine in first.machines():
        return first
    return next((one for one in families() if machine in one.machines()), first)


def family_for(source: object, options: Mapping[str, Any]) -> Family:
    """Of the machine that the options name, else of a run or program that knows its own. Options
    that mean nothing there are refused."""
    from npuscope.options.rows import BUILDING

    named = options.get("machine")
    family = family_of(named)
    if isinstance(source, str | Path):
        path = Path(source)
        # Packages are looked for only where that takes no time worth mentioning.
        others = packaged_families() if path.suffix.lower() in _MODELS else families()
        owner = next((one for one in (*others[1:], others[0]) if one.recognises(path)), None)
        if owner is not None and path.exists():
            _refuse_other_machine(path, owner, named, options)
            family = owner
    family.check(options, BUILDING)
    return family


def _refuse_other_machine(
    path: Path, owner: Family, named: object, options: Mapping[str, Any]
) -> None:
    """What is compiled runs where it was compiled for; a machine that nobody named agrees."""
    if not isinstance(named, str) or options.get("machine_file"):
        return
    made_for = owner.machine_of(path)
    if named != made_for and (made_for or family_of(named) is not owner):
        raise FileError(
            f"this was made for {made_for or owner.name}, not for {safe_terminal(named)}",
            where=safe_terminal(str(path)),
            hint=f"give the model that it was compiled from for {safe_terminal(named)}, or leave "
            "--machine out",
        )
