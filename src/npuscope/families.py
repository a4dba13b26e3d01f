"""Families of machines: what the name of a machine stands for.

A family compiles a network for its machines, times the program and reports it. The first family is
the one whose verbs stand in `api`; others are found here by the name of a machine, so that a verb
does not have to know them: those in FAMILIES, and packages with the entry point GROUP."""

from __future__ import annotations

from collections.abc import Container, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from npuscope.errors import UsageError
from npuscope.lean_dataclass import dataclass
from npuscope.text import safe_terminal

GROUP = "npuscope.machine_families"
FAMILIES = ("npuscope.many_core.family:FAMILY",)
# Modules with rules of families, by package: the catalogue does without the families' compilers.
RULES = {"npuscope.many_core": ("rules",)}


@dataclass(frozen=True, slots=True)
class Report:
    """A result as it is printed, and as the object of --json."""

    TEXT = "npuscope.families:report_text"
    JSON = "npuscope.families:report_json"

    text: str
    json: dict[str, Any]


def report_text(report: Report) -> str:
    return report.text


def report_json(report: Report) -> dict[str, Any]:
    return report.json


class Family(Protocol):
    """What a verb needs of a family. `verbs` are those that it can do, with their functions."""

    name: str

    def machines(self) -> tuple[str, ...]:
        """Names that `--machine` takes."""

    def described(self, machine: str) -> Report:
        """For `npuscope machines`."""

    def keys(self, machine: str) -> tuple[tuple[str, object], ...]:
        """Settable values by their path."""

    def compile(self, source: str | Path, options: Mapping[str, Any]) -> Any:
        """A program for the machine that the options name."""

    def time(self, program: Any) -> Any:
        """An inference of the program."""

    def report(self, timed: Any) -> Report:
        """The estimate: the first lines and keys are the same for all families."""


def families() -> tuple[Family, ...]:
    from importlib.metadata import entry_points

    found = [_named(name) for name in FAMILIES]
    found += [entry.load() for entry in entry_points(group=GROUP)]
    return tuple(found)


def _named(name: str) -> Family:
    module, _, attribute = name.partition(":")
    family: Family = getattr(import_module(module), attribute)
    return family


def family_of(machine: object, own: Container[str] = ()) -> Family | None:
    """The family of a machine; None where it is of the first one, or not known at all.

    `own` are machines of the first family, for which no other has to be imported.
    """
    if not isinstance(machine, str) or machine in own:
        return None
    return next((one for one in families() if machine in one.machines()), None)


def refuse(verb: str, machine: object, own: Container[str] = ()) -> None:
    """One sentence where a verb is not for the family of a machine."""
    family = family_of(machine, own)
    if family is None:
        return
    raise UsageError(
        f"{verb} is not made for {safe_terminal(str(machine))}: {family.name} machines have "
        "estimate, explain, lint and gate, and verbs of their own",
        where="--machine",
        hint="npuscope manycore --help, npuscope opstats --help",
    )
