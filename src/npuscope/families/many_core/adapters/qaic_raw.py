"""The vendor's raw stats buffer. Its layout is not public: only a user's own description helps.

Such a description is an `osb.layout` JSON in which sections say where their records lie
(`offset`, `count`) and what they are (`record`: names as ours, types as numpy has them).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from npuscope.bounded_file import CORE_BUFFER, RESULT, read_bytes
from npuscope.errors import FileError
from npuscope.families.many_core.adapters.model import Companions, ProfileFile, Sheet
from npuscope.families.many_core.adapters.osb import MAGIC, sheet_of_stats
from npuscope.families.many_core.buffer_check import checked
from npuscope.families.many_core.buffer_format import Records, Stats, op_index
from npuscope.families.many_core.layout_json import layout_from_json, parse
from npuscope.families.many_core.records import SECTIONS, SectionId
from npuscope.plain_data import Node
from npuscope.profiling.model import Provenance
from npuscope.text import safe_terminal

_NAME = re.compile(r"aiccyclecounts[^/]{0,100}\.bin")
_INFERENCE = re.compile(r"-inf-(\d{1,18})-")
_TYPE = re.compile(r"[<>]?[uif][1248]|V\d{1,6}", re.ASCII)
_MOST_FIELDS, _MOST_SECTIONS = 200, 100


def probe(source: ProfileFile) -> int:
    fits = _NAME.search(source.path.name) and not source.head.startswith(MAGIC)
    return 60 if fits else 0


def read(source: ProfileFile, companions: Companions) -> Sheet:
    if companions.layout is None:
        raise FileError(
            "this is not one of our buffers, and the layout of the vendor's raw stats buffer is "
            "not public",
            where=source.place,
            hint="let the vendor's tool decode it and give its summary or trace, or describe "
            "the records yourself (--raw-layout, docs/opstats_adapters.md)",
        )
    stats = _stats(source, read_bytes(companions.layout, RESULT), str(companions.layout))
    return sheet_of_stats(
        stats, source.path.name, adapter="qaic-raw", provenance=Provenance.VENDOR_FILE
    )


def _stats(source: ProfileFile, description: bytes, name: str) -> Stats:
    layout = layout_from_json(description)
    data = source.read(CORE_BUFFER)
    sections = dict(_sections(parse(description, safe_terminal(name)), data, source.place))
    if SectionId.THREAD_INF not in sections:
        raise FileError(
            "the layout does not say where the spans of the threads (section 1) lie",
            where=safe_terminal(name),
            hint="give section 1 an offset and a count",
        )
    ops = op_index(layout, 0)
    valid = {section: checked(section, records, ops) for section, records in sections.items()}
    inference = _INFERENCE.search(source.path.name)
    return Stats(
        layout=layout,
        name=source.path.stem,
        level=layout.stats_level,
        device=0,
        specialization=0,
        inference=int(inference[1]) if inference else 0,
        utc_ns=0,
        sections={section: records for section, (records, _) in valid.items()},
        notes=(
            "decoded with a layout that the user supplied; npuscope cannot check it",
            *(note for _, notes in valid.values() for note in notes),
        ),
    )


def _sections(root: Node, data: bytes, place: str) -> Iterator[tuple[SectionId, Records]]:
    """Those that say where they lie; the others are not in this buffer."""
    by_number = {int(section): section for section in SectionId}
    for node in root.get("sections").items(_MOST_SECTIONS):
        if isinstance(node.value, dict) and "offset" not in node.value:
            continue
        number = node.get("id").integer(max(by_number))
        if number not in by_number:
            raise node.error(f"section {number} is unknown")
        section, theirs = by_number[number], _dtype(node.get("record"))
        offset, count = node.get("offset").integer(), node.get("count").integer()
        if offset + count * theirs.itemsize > len(data):
            raise FileError(
                f"{count} records of {theirs.itemsize} bytes at byte {offset} are more than its "
                f"{len(data)} bytes",
                where=place,
                hint=f"correct {node.path}",
            )
        source = np.frombuffer(data, theirs, count, offset)
        records = np.zeros(count, SECTIONS[section].dtype)
        for name in set(records.dtype.names or ()) & set(theirs.names or ()):
            if theirs[name].kind != "V":
                records[name] = source[name].astype(records.dtype[name])
        yield section, records


def _dtype(node: Node) -> np.dtype[np.void]:
    """Packed; `V12` skips 12 bytes."""
    fields: dict[str, str] = {}
    for field in node.items(_MOST_FIELDS):
        name, kind = field.get("name").text(), field.get("type").text()
        if not _TYPE.fullmatch(kind):
            raise field.error(f"has the type {field.get('type').shown()}, expected such as '<u4'")
        if not name or name in fields:
            raise field.error("needs a name of its own")
        fields[name] = kind
    if not fields:
        raise node.error("has no fields")
    try:
        return np.dtype(list(fields.items()))
    except (TypeError, ValueError) as error:
        raise node.error(f"is not a record: {error}") from error
