"""Machines of other families: which verbs know them, and how they compile and time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.errors import UsageError
from npuscope.options.kinds import Verb

if TYPE_CHECKING:
    from npuscope.families import Family


def other_family(options: Mapping[str, Any]) -> Family | None:
    """The family of the machine that options name; None for the first one."""
    from npuscope.families import family_of
    from npuscope.machine.load import known_machines

    return family_of(options.get("machine"), known_machines())


def refuse_other_families(verb: Verb, name: str, machine: object) -> None:
    """One sentence where a verb is not for the family of a machine."""
    default = next((option.default for option in verb.options if option.name == "machine"), None)
    if verb.all_families or machine in (None, default):
        return
    from npuscope.families import refuse

    refuse(name, machine)


def timed(family: Family, source: object, options: Mapping[str, Any], verb: str = "") -> Any:
    """A network compiled and timed; `verb` is one whose rules know npuscope's own families only."""
    if verb:
        check_rules(family, verb)
    return family.time(family.compile(str(source), dict(options)))


def check_rules(family: Family, verb: str) -> None:
    from npuscope.many_core.family import FAMILY

    if family.name != FAMILY.name:
        raise UsageError(f"{verb} is not made for {family.name} machines", where="machine")


def is_other_run(source: object) -> bool:
    """What a device of another family left: stats buffers, or a result of opstats."""
    from npuscope.many_core.buffer_format import is_core_run

    return isinstance(source, str | Path) and is_core_run(source)
