"""`npuscope checklist DIR`: what a build needs on the board, from its own files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.options.kinds import Argument, Verb
from npuscope.options.rows import OUTPUT
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.loadable.checklist import Checklist

VERB = Verb(
    "what a build needs on the board: files, memories, caches",
    (Argument("source", "DIR", "a folder that a compiler wrote"),),
    (OUTPUT,),
    text="npuscope.report.checklist:checklist_text",
    json="npuscope.report.checklist:checklist_json",
)


@checked(VERB)
def checklist(source: str | Path) -> Checklist:
    """What a build needs on the board, from its own files.

    In: a folder that a compiler wrote, ours or a vendor's. Out: files to flash, memories to
    open, caches to keep in step.

    >>> npuscope.checklist("st_ai_output").memories
    """
    from npuscope.loadable.checklist import make_checklist

    return make_checklist(str(source))
