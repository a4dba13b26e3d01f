"""Files with some edits, as `fix --only` makes them, kept by their content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuscope.advice.fix.candidates import FixChoice, candidates
from npuscope.advice.fix.run import apply_places
from npuscope.advice.fix.workbench import Look, Workbench
from npuscope.edits import open_document
from npuscope.errors import NpuscopeError
from npuscope.families.registry import family_for

_MOST_STEPS = 40  # of one file; findings change with every edit


class Variants:
    """Of one model; `folder` keeps their files."""

    def __init__(self, path: Path, options: Mapping[str, Any], folder: Path) -> None:
        self.path, self.options, self.folder = path, options, folder
        self._files: dict[tuple[tuple[str, ...], str], Path | None] = {}

    def offered(self, choice: FixChoice) -> dict[str, tuple[str, bool]]:
        """Edits that the findings offer for the file as it is, by id with their titles and whether
        they change outputs."""
        bench = self._bench({})
        look = bench.look(bench.open())
        rows = candidates(look, bench.explained(look), choice)
        return {row.fix.id: (row.fix.title, row.is_lossy) for row in rows if row.places}

    def file(self, edits: tuple[str, ...], options: Mapping[str, Any]) -> Path | None:
        """The model with these edits; None where one of them cannot be made with these options."""
        if not edits:
            return self.path
        key = edits, repr(sorted(options.items(), key=str))
        if key not in self._files:
            self._files[key] = self._written(edits, options)
        return self._files[key]

    def _bench(self, options: Mapping[str, Any]) -> Workbench:
        merged: Any = {**self.options, **options}
        family = family_for(self.path, merged)
        own: Workbench | None = family.bench(self.path, merged, None)
        return own or Workbench(self.path, merged)

    def _written(self, edits: tuple[str, ...], options: Mapping[str, Any]) -> Path | None:
        bench = self._bench(options)
        try:
            look = bench.look(bench.open())
            edited, used = self._edited(bench, look, frozenset(edits))
        except NpuscopeError:
            return None
        if used != {*edits}:
            return None
        name = hashlib.sha256(edited).hexdigest()[:16]
        target = self.folder / f"{name}{self.path.suffix}"
        if not target.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            # Not an output of the verb, which would appear when it ends: runs read it now.
            part = target.with_suffix(".part")
            part.write_bytes(edited)
            part.replace(target)
        return target

    def _edited(self, bench: Workbench, look: Look, only: frozenset[str]) -> tuple[bytes, set[str]]:
        """As `fix --only` does: what the findings offer, until they offer no more."""
        tried: set[object] = set()
        used: set[str] = set()
        for _ in range(_MOST_STEPS):
            offers = candidates(look, bench.explained(look), FixChoice(only=only))
            waiting = [offer for offer in offers if offer.key not in tried]
            if not waiting:
                break
            tried.add(waiting[0].key)
            document = open_document(bench.path, look.data)
            misfits = apply_places(document, waiting[0], look)
            if len(misfits) < len(waiting[0].places):
                look = bench.look(document)
                used.add(waiting[0].fix.id)
        return look.data, used
