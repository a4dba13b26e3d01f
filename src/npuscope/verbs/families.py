"""Which verbs and options are for which machines: one sentence where they are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npuscope.families.registry import family_of, first_family
from npuscope.options.kinds import Verb
from npuscope.options.rows import READING, TARGET

# Options that only make sense with what a family knows; the others are the verbs' own.
_OF_FAMILIES = {option.name for option in (*TARGET.options, *READING.options)}
_OF_FAMILIES |= {"model", "sensitivity"}


def check_family(verb: Verb, name: str, keywords: Mapping[str, Any]) -> None:
    """Refuse a verb, or an option, that the family of the machine does not have."""
    options = {option.name: option for option in verb.options}
    machine = keywords.get("machine")
    if machine is None or "machine" not in options or machine == options["machine"].default:
        return
    family = family_of(machine)
    if family is first_family():
        return
    if not verb.all_families:
        raise family.lacks(name)
    family.refuse_options(
        machine,
        (
            name
            for name, value in keywords.items()
            if name in _OF_FAMILIES and name in options and value not in (None, False, (), {})
        ),
    )
