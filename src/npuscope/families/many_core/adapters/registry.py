"""The adapters by name, and which of them knows a file.

Other packages add theirs under the entry-point group `npuscope.opstats_adapters`: each entry is
an `Adapter`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from msgspec import Struct

from npuscope.errors import FileError, UsageError
from npuscope.families.many_core.adapters import (
    etdump,
    onnxruntime,
    osb,
    qaic_desc,
    qaic_raw,
    qaic_text,
    qaic_trace,
)
from npuscope.families.many_core.adapters.model import Companions, ProfileFile, Sheet, open_source
from npuscope.text import safe_terminal

GROUP = "npuscope.opstats_adapters"


class Adapter(Struct, frozen=True):
    """`probe` returns how sure it is of a file, 0 (not mine) to 100; `read` makes the sheet."""

    name: str
    title: str
    probe: Callable[[ProfileFile], int]
    read: Callable[[ProfileFile, Companions], Sheet]


ADAPTERS: dict[str, Adapter] = {
    adapter.name: adapter
    for adapter in (
        Adapter("osb", "stats buffer of npuscope", osb.probe, osb.read),
        Adapter("qaic-text", "vendor summary text", qaic_text.probe, qaic_text.read),
        Adapter("qaic-trace", "vendor trace JSON", qaic_trace.probe, qaic_trace.read),
        Adapter("qaic-desc", "ops of a program container", qaic_desc.probe, qaic_desc.read),
        Adapter("onnxruntime", "onnxruntime profile", onnxruntime.probe, onnxruntime.read),
        Adapter("etdump", "ExecuTorch ETDump", etdump.probe, etdump.read),
        Adapter("qaic-raw", "vendor stats buffer", qaic_raw.probe, qaic_raw.read),
    )
}


@cache
def all_adapters() -> dict[str, Adapter]:
    """Ours and those of installed packages; two of one name are an error."""
    adapters = dict(ADAPTERS)
    for entry in entry_points(group=GROUP):
        place = f"entry point {safe_terminal(entry.value)}"
        try:
            adapter = entry.load()
        # Whatever a foreign module does on import, the user shall learn whose it is.
        except Exception as error:
            raise UsageError(f"this adapter does not load: {error}", where=place) from error
        if not isinstance(adapter, Adapter):
            raise UsageError("this is not an Adapter", where=place)
        if adapter.name in adapters:
            raise UsageError(
                f"two adapters are called '{safe_terminal(adapter.name)}'",
                where=place,
                hint="uninstall one of the packages",
            )
        adapters[adapter.name] = adapter
    return adapters


def find_adapter(path: str | Path) -> Adapter:
    """The one that is surest of the file."""
    source = open_source(path)
    scores = [(adapter.probe(source), adapter) for adapter in all_adapters().values()]
    score, best = max(scores, key=lambda row: row[0])
    if score <= 0:
        titles = "; ".join(adapter.title for adapter in all_adapters().values())
        raise FileError(
            "no adapter knows this file", where=source.place, hint=f"read are: {titles}"
        )
    return best


def named_adapter(name: str) -> Adapter:
    adapter = all_adapters().get(name)
    if adapter is None:
        raise UsageError(
            f"no adapter is called '{safe_terminal(name)}'",
            hint=f"there are {', '.join(all_adapters())}",
        )
    return adapter


def read_sheet(
    path: str | Path, companions: Companions | None = None, *, adapter: str | None = None
) -> Sheet:
    """The file's sheet, by the adapter that is surest of it or by the one named."""
    reader = named_adapter(adapter) if adapter else find_adapter(path)
    return reader.read(open_source(path), companions or Companions())
