"""Which verbs and options are for which machines: one sentence where they are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npuscope.errors import UsageError
from npuscope.families.registry import families, family_of
from npuscope.options.kinds import Option, OptionGroup, Verb
from npuscope.structs import replace
from npuscope.text import safe_terminal


def check_family(verb: Verb, name: str, keywords: Mapping[str, Any]) -> None:
    """Refuse a verb, or an option, that the family of the machine does not have."""
    options = {option.name: option for option in verb.options}
    machine = keywords.get("machine")
    if machine is None or "machine" not in options or machine == options["machine"].default:
        return
    family = family_of(machine)
    if family.house_machines:
        # A name that no family has; a file of one's own may have any.
        names = [name for family in families() for name in family.machines()]
        if isinstance(machine, str) and machine not in names and not keywords.get("machine_file"):
            raise UsageError(
                f"unknown machine '{safe_terminal(machine)}'",
                where="--machine",
                hint=f"known: {', '.join(names)}; --machine-file reads your own",
            )
        return
    if not verb.all_families:
        raise family.lacks(name)
    # Without arguments, and without what says how the answer is printed.
    rows = options.keys() | family_options().keys()
    family.check({name: keywords[name] for name in keywords if name in rows}, options)


def with_families(verb: Verb) -> Verb:
    """The record with the options of all families, for verbs that put a network on a machine."""
    if not verb.all_families or all(option.name != "machine" for option in verb.options):
        return verb
    groups = [
        OptionGroup(f"{family.name} machines", family.options, shared=True)
        for family in families()
        if family.options
    ]
    return replace(verb, groups=(*verb.groups, *groups))


def family_options() -> dict[str, Option]:
    """Rows that only one family has, by name."""
    return {row.name: row for family in families() for row in family.options}
