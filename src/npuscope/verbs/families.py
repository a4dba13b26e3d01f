"""Which verbs and options are for which machines: one sentence where they are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npuscope.errors import UsageError
from npuscope.families.registry import families, family_of, first_family
from npuscope.options.kinds import Verb
from npuscope.text import safe_terminal

_OF_BUILDS = ("model", "sensitivity")  # what only the first family's programs have


def check_family(verb: Verb, name: str, keywords: Mapping[str, Any]) -> None:
    """Refuse a verb, or an option, that the family of the machine does not have."""
    options = {option.name: option for option in verb.options}
    machine = keywords.get("machine")
    if machine is None or "machine" not in options or machine == options["machine"].default:
        return
    family = family_of(machine)
    if family is first_family():
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
    family.check({"machine": machine, **{name: keywords.get(name) for name in _OF_BUILDS}})
