"""The models of a live view on machines of any family: compiled, timed and explained by it, after
every fix, and kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.advice.explanation import Explanation
from npuscope.advice.fix.candidates import Candidate
from npuscope.advice.fix.run import apply_places
from npuscope.advice.fix.workbench import Look, Workbench
from npuscope.edits import open_document
from npuscope.errors import NpuscopeError
from npuscope.families.registry import family_for
from npuscope.live.library import fix_name, offers_of
from npuscope.live.setting import Setting, fixed_options
from npuscope.structs import replace

_MOST_KEPT = 32


class FamilyState(Struct, frozen=True):
    """A file as it stands after its fixes; `refused` is why the last of them changed nothing."""

    look: Look
    explanation: Explanation
    offers: tuple[Candidate, ...]
    refused: str = ""


class FamilyLibrary:
    """Answers any number of threads, one build after the other."""

    def __init__(self, models: Sequence[Path], options: Mapping[str, Any]) -> None:
        self.models = tuple(models)
        self.family = family_for(None, options)
        self.machine = str(options["machine"])
        own = [row.name for row in self.family.options]
        fixed = fixed_options(options)  # type: ignore[arg-type]
        self.options = {name: value for name, value in fixed.items() if name not in own}
        self._kept: OrderedDict[object, FamilyState] = OrderedDict()
        self._lock = threading.Lock()

    def states(self, setting: Setting) -> tuple[FamilyState, ...]:
        """From the file as it is to the last fix; raises what the verbs raise."""
        path = self.models[setting.model]
        values = {**self.options, "overrides": setting.parsed(), **dict(setting.own)}
        family_for(path, values)  # refuses what the family does not know
        bench = Workbench(path, values)  # type: ignore[arg-type]
        stamp = path.stat()
        file = (path, stamp.st_mtime_ns, stamp.st_size, setting.values, setting.own)
        states: list[FamilyState] = []
        with self._lock:
            for count in range(len(setting.fixes) + 1):
                fixes = setting.fixes[:count]
                if (file, fixes) not in self._kept:
                    self._kept[file, fixes] = (
                        _fixed(bench, states[-1], fixes[-1]) if fixes else _opened(bench)
                    )
                    if len(self._kept) > _MOST_KEPT:
                        self._kept.popitem(last=False)
                self._kept.move_to_end((file, fixes))
                states.append(self._kept[file, fixes])
        return tuple(states)


def _opened(bench: Workbench) -> FamilyState:
    return _state(bench, bench.look(bench.open()))


def _state(bench: Workbench, look: Look) -> FamilyState:
    explanation = bench.explained(look)
    return FamilyState(look, explanation, offers_of(look, explanation))


def _fixed(bench: Workbench, before: FamilyState, fix: str) -> FamilyState:
    candidate = next((one for one in before.offers if fix_name(one) == fix), None)
    if candidate is None:
        return replace(before, refused="not offered for the network as it is now")
    document = open_document(bench.path, before.look.data)
    misfits = apply_places(document, candidate, before.look)
    if len(misfits) == len(candidate.places):
        return replace(before, refused=(*misfits, *candidate.notes, "it does not apply here")[0])
    try:
        return _state(bench, bench.look(document))
    except NpuscopeError as error:
        return replace(before, refused=f"the edited file cannot be read: {error}")
