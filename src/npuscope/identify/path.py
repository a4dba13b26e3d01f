"""What lies at a path: a file of some kind, or a folder of files that belong together."""

from __future__ import annotations

from pathlib import Path

from npuscope.families.interface import function_at
from npuscope.identify.sample import FileFacts, Sample
from npuscope.identify.table import Identity, format_of


def identify(path: str | Path) -> Identity:
    """Say what a file or a folder is and what is in it."""
    if _is_folder(path):
        from npuscope.identify.folder import identity_of, recognise

        return identity_of(recognise(path))
    sample = Sample(path)
    row = format_of(sample)
    inspection: FileFacts = function_at(row.inspect)(sample)
    summary = {"bytes": sample.size, **inspection.summary, "values": inspection.values}
    return Identity(row.kind, inspection.version, summary, inspection.ignored, row.title)


def _is_folder(path: str | Path) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False
