"""A device block by block, with all its counters; on the command line `profile --connect`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from npuscope.options.kinds import OptionGroup, Verb
from npuscope.options.rows import BATCH, DEVICE, READING, SOURCE, TARGET
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.building import Options, Source
    from npuscope.profiling.measure import Measurement

VERB = Verb(
    "profile a device block by block, with all its counters",
    (SOURCE,),
    (
        OptionGroup("", (BATCH,)),
        OptionGroup("device", tuple(o for o in DEVICE if o.name not in ("log", "vendor_figures"))),
        TARGET,
        READING,
    ),
)


@checked(VERB)
def measure(
    source: Source | None = None,
    *,
    connect: str = "simulated",
    network: str = "",
    batch: int | None = None,
    vendor_plan: bool = False,
    **options: Unpack[Options],
) -> Measurement:
    """Profile a device block by block, as the firmware of a board counts.

    In: `connect` names the device as for `profile`; the `source` of what runs on it adds what its
    compiler knows. Out: the Profile with every counter of every inference.

    >>> npuscope.measure("model.tflite", vendor_plan=True).profile.total_ms
    """
    from npuscope.boards.device import DescriptorKind, parse_descriptor
    from npuscope.building import build, for_a_loader
    from npuscope.profiling.measure import RunSubject, opened
    from npuscope.profiling.measure import measure as run_measure

    descriptor = parse_descriptor(connect)
    if descriptor.kind is DescriptorKind.EMULATED:
        options = options if source is None else for_a_loader(source, options)
    subject = RunSubject()
    if source is not None:
        compiled = build(source, options)
        subject = RunSubject(compiled.program, compiled.machine, compiled.graph)
    with opened(descriptor, subject) as device:
        return run_measure(device, subject, network=network, batch=batch, vendor_plan=vendor_plan)
