"""Which values of the machine matter; on the command line `estimate --sensitivity`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from npuscope.families.registry import family_for
from npuscope.options.kinds import Verb
from npuscope.options.rows import READING, SOURCE, TARGET
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.advice.what_if import Sensitivity
    from npuscope.building import Build, Options, Source

VERB = Verb("timing keys that save most time", (SOURCE,), (TARGET, READING), all_families=True)


@checked(VERB)
def sensitivity(source: Source | Build, **options: Unpack[Options]) -> tuple[Sensitivity, ...]:
    """Timing keys that save time when they are a tenth better, the largest saving first.

    In: a source. Out: keys with what they save.

    >>> npuscope.sensitivity("model.tflite")[0].key
    """
    from npuscope.building import Build

    if isinstance(source, Build):
        from npuscope.advice.what_if import sensitivity as run_sensitivity

        return run_sensitivity(source)
    return family_for(source, options).sensitivity(source, options)
