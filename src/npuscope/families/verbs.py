"""Verbs that only one family has: where they are, and their names for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npuscope.families.many_core.verbs.manycore_compile import (
        manycore_compile as manycore_compile,
    )
    from npuscope.families.many_core.verbs.manycore_run import manycore_run as manycore_run
    from npuscope.families.many_core.verbs.manycore_setups import (
        manycore_setups as manycore_setups,
    )
    from npuscope.families.many_core.verbs.manycore_tokens import (
        manycore_tokens as manycore_tokens,
    )
    from npuscope.families.many_core.verbs.opstats import opstats as opstats

# By the package that holds their modules.
VERBS = dict.fromkeys(
    (
        "manycore",
        "manycore_compile",
        "manycore_run",
        "manycore_setups",
        "manycore_tokens",
        "opstats",
    ),
    "npuscope.families.many_core.verbs",
)
