"""What a changed machine would give; on the command line `estimate --set`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

from npuscope.options.kinds import Argument, Verb
from npuscope.options.rows import READING, SOURCE, TARGET
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.advice.what_if import WhatIf
    from npuscope.building import Build, Options, Source

VERB = Verb(
    "compare the network before and after changing keys of the machine",
    (SOURCE, Argument("values", "VALUES", "the changed keys with their values")),
    (TARGET, READING),
)


@checked(VERB)
def what_if(
    source: Source | Build, values: Mapping[str, object], **options: Unpack[Options]
) -> WhatIf:
    """The network before and after keys of the machine changed.

    In: a source and the keys with their new values. Timing keys re-time what is built. A mapping
    key compiles the model again, which for a compiled program is `compiled_from` or is found
    beside it. For a Build, of the other options only those of the compiler's own work are used
    (`optimization`, `ec_single_epoch`, `alternative_schedule`): it knows its machine and how its
    model is read. Out: both profiles.

    >>> npuscope.what_if("model.tflite", {"clocks.npu_mhz": 800}).profile.total_ms
    """
    from npuscope.advice.what_if import what_if as run_what_if

    return run_what_if(source, values, options)
