"""`npuscope doctor`: what is installed, and what each missing part would add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npuscope.options.kinds import Verb
from npuscope.options.rows import OUTPUT
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.installed import Installed

VERB = Verb(
    "what is installed, and what each missing part would add",
    (),
    (OUTPUT,),
    text="npuscope.report.doctor:doctor_text",
    json="npuscope.report.doctor:doctor_json",
)


@checked(VERB)
def doctor() -> Installed:
    """What is installed, and what each missing part would add.

    In: nothing. Out: packages, extras, programs and the cache, each with its state.

    >>> npuscope.doctor().ready
    """
    from npuscope.installed import installed

    return installed()
