"""Verbs that only one family has, for type checkers; `registry` says where they are."""

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
