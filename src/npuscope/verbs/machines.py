"""`npuscope machines`: what is known about which device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npuscope.options.kinds import OptionGroup, Verb, text
from npuscope.options.rows import OUTPUT
from npuscope.shown import Several
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.machine.model import Machine
    from npuscope.report.machines import KnownMachines

# fmt: off
VERB = Verb(
    "the known machines and compiler generations",
    (),
    (
        OptionGroup("", (
            text("keys", "all keys for --set with value, mark (timing or mapping) and source; "
                "TEXT selects keys by name or mark", "TEXT", const="",
                python=False),
        )),
        OUTPUT,
    ),
    run="known",
    text="npuscope.report.machines:machines_text",
    json="npuscope.report.machines:machines_json",
)
# fmt: on


class Machines(Several):
    __slots__ = ()
    noun = "machine"
    columns = (
        ("machine", "name"),
        ("generation", "generation.name"),
        ("npu_mhz", "clocks.npu_mhz"),
        ("mcu_mhz", "clocks.mcu_mhz"),
    )


@checked(VERB)
def machines() -> tuple[Machine, ...]:
    """The known machines, each with its default generation.

    In: nothing. Out: a Machine for every name that the option `machine` takes.

    >>> [machine.name for machine in npuscope.machines()]
    """
    from npuscope.machine.load import known_machines, load_machine

    return Machines(load_machine(name) for name in known_machines())


def known(keys: str | None = None) -> KnownMachines:
    """Machines of all families, or their `keys` that hold this text."""
    from npuscope.families.registry import families
    from npuscope.report.machines import KnownMachines

    names = [(family, name) for family in families() for name in family.machines()]
    if keys is not None:
        return KnownMachines(tuple(family.keys(name, keys) for family, name in names))
    return KnownMachines(tuple(family.describe(name) for family, name in names))
