"""`npuscope bisect SOURCE`: the first op whose NPU arithmetic differs from the reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.options.kinds import OptionGroup, Verb
from npuscope.options.rows import COMPILED_FROM, DATA, OUTPUT, READING, SOURCE, TARGET
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    import numpy as np

    from npuscope.building import Options, Source
    from npuscope.profiling.bisection import Bisection

VERB = Verb(
    "the first op whose NPU arithmetic differs from the reference",
    (SOURCE,),
    (OptionGroup("", (COMPILED_FROM,)), DATA, TARGET, READING, OUTPUT),
    text="npuscope.report.validation:bisection_text",
    json="npuscope.report.validation:bisection_json",
    busy="validating layer by layer",
    all_families=True,
)


@checked(VERB)
def bisect(
    source: Source,
    *,
    inputs: Sequence[np.ndarray] | None = None,
    seeds: int = 1,
    model: str | Path | None = None,
    **options: Unpack[Options],
) -> Bisection:
    """The first op whose NPU arithmetic differs from the reference.

    In: as `validate`. Out: op, epoch, how far it is off and which rule that breaks. Every layer
    is given the reference's inputs, so that an earlier one cannot be the cause.

    >>> npuscope.bisect("model.tflite").op
    """
    from npuscope.profiling.bisection import bisect as run_bisect
    from npuscope.verbs.validate import compared

    return run_bisect(compared(source, inputs, seeds, model, options))
