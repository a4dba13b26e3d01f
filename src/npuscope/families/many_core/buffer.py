"""Stats buffers as files: records of one inference on one device, each section with its CRC."""

from __future__ import annotations

import zlib
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from msgspec import Struct, field

from npuscope.errors import FileError, InternalError
from npuscope.families.many_core.buffer_check import CHUNK, checked, chunks, missing_cores
from npuscope.families.many_core.buffer_format import (
    HEADER,
    MINOR,
    ROW,
    BufferHeader,
    OpLookup,
    Records,
    Stats,
    aligned,
    collected,
    fault,
    head_crc,
    op_index,
    read_header,
    read_rows,
)
from npuscope.families.many_core.layout import Layout
from npuscope.families.many_core.records import LEVELS, SECTIONS, SectionId

_KNOWN = {int(key): key for key in SectionId}


def write_buffer(stats: Stats) -> bytes:
    """The file's bytes; sections that the level or the flags do not ask for are left out."""
    keys = [key for key in collected(stats.level, stats.layout) if stats.has(key)]
    # The table of contents of sections that follow one another, each aligned.
    bodies, entries, at = [], [], aligned(HEADER.size + ROW.itemsize * len(keys))
    for key in keys:
        records = stats.of(key)
        if records.dtype != SECTIONS[key].dtype or records.ndim != 1:
            raise InternalError(f"records of {key.name} have another type than their section")
        body = records.tobytes()
        bodies.append(body)
        size = SECTIONS[key].dtype.itemsize
        level, crc = SECTIONS[key].min_level, zlib.crc32(body)
        entries.append((key, size, level, at, len(body) // size, crc, 0))
        at = aligned(at + len(body))
    rows = np.array(entries, ROW)
    head = BufferHeader(
        minor=MINOR,
        program_uuid=stats.layout.program_uuid,
        level=stats.level,
        cores=stats.layout.cores,
        threads=len(stats.layout.threads),
        device=stats.device,
        specialization=stats.specialization,
        sections=len(keys),
        inference=stats.inference,
        utc_ns=stats.utc_ns,
    ).pack()
    if len(rows):
        rows["flags"][0] = head_crc(head, rows)
    parts = (head + rows.tobytes(), *bodies)
    return b"".join(part + bytes(aligned(len(part)) - len(part)) for part in parts)


def read_buffer(data: bytes, layout: Layout, name: str, *, ignore_uuid: bool = False) -> Stats:
    """The records that are whole and make sense; `notes` say what was left out and why."""
    header = read_header(data)
    # First: with a wrong layout every later check would blame the records.
    notes = _agreement(header, layout, ignore_uuid)
    # Sums of large sections are computed on a thread of their own while records are looked at.
    with ThreadPoolExecutor(1) as pool:
        contents = _read_sections(data, header, pool)
        ops = op_index(layout, header.specialization)
        looked_at = {key: checked(key, records, ops) for key, records in contents.sections.items()}
        _confirm(contents)
    notes += contents.notes
    sections = {}
    for key in contents.sections:
        sections[key], reasons = looked_at[key]
        notes += reasons
    notes += missing_cores(sections, ops)
    return Stats(
        layout=layout,
        name=name,
        level=header.level,
        device=header.device,
        specialization=header.specialization,
        inference=header.inference,
        utc_ns=header.utc_ns,
        sections=sections,
        notes=(*contents.lost.values(), *notes),
        lost=tuple(contents.lost),
    )


def _agreement(header: BufferHeader, layout: Layout, ignore_uuid: bool) -> list[str]:
    """What the header says against the layout; errors where records could not be understood."""
    notes = []
    if header.program_uuid != layout.program_uuid:
        ids = f"{header.program_uuid}, the container is {layout.program_uuid}"
        if not ignore_uuid:
            raise fault(
                f"was written by the program {ids}",
                16,
                "give the programqpc.bin that was run, or decode anyway with --ignore-uuid",
            )
        notes.append(f"decoded with the layout of another program: the buffer is of {ids}")
    if header.specialization >= len(layout.specializations):
        raise fault(
            f"is of specialization {header.specialization}, "
            f"the program has {len(layout.specializations)}",
            40,
        )
    if (header.cores, header.threads) != (layout.cores, len(layout.threads)):
        notes.append(
            f"the buffer says {header.cores} cores of {header.threads} threads, "
            f"the program has {layout.cores} of {len(layout.threads)}"
        )
    if header.level not in LEVELS:
        levels = ", ".join(map(str, LEVELS))
        notes.append(f"the buffer's level {header.level} is not one of {levels}")
    if header.level < layout.stats_level:
        notes.append(
            f"collected at level {header.level}, the program is compiled for {layout.stats_level}"
        )
    return notes


class Found(Struct):
    """Sections as they are in the file, and a sentence on each that could not be taken."""

    sections: dict[SectionId, Records] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)  # damaged sections, with a sentence each
    sums: dict[SectionId, tuple[Future[int], int]] = field(default_factory=dict)  # CRC, as stated


def read_sections(data: bytes, header: BufferHeader) -> Found:
    """Whole sections with a right CRC, as views of the file."""
    with ThreadPoolExecutor(1) as pool:
        contents = _read_sections(data, header, pool)
        _confirm(contents)
    return contents


def _confirm(sections: Found) -> None:
    """Each section has its own CRC, so that a damaged one does not cost the others."""
    for key, (crc, stated) in sections.sums.items():
        if crc.result() != stated:
            count = len(sections.sections.pop(key))
            sections.lost[key.name] = f"{key.name}: its {count:,} records are damaged (wrong CRC)"
    if sections.sums and not sections.sections:
        raise _nothing_whole(sections)


def _nothing_whole(sections: Found) -> FileError:
    return FileError(
        f"no section is whole: {'; '.join((*sections.lost.values(), *sections.notes))}",
        hint="the file was cut off or damaged: collect it again",
    )


def _read_sections(data: bytes, header: BufferHeader, pool: ThreadPoolExecutor) -> Found:
    sections = Found()
    for row in read_rows(data, header):
        key = _KNOWN.get(int(row["id"]))
        if key is None:
            sections.notes.append(f"section {row['id']} is not a known kind and was skipped")
            continue
        if key in sections.sections:
            sections.notes.append(f"a second section {key.name} was skipped")
            continue
        stride, start, count = (int(row[name]) for name in ("record_bytes", "offset", "count"))
        dtype = SECTIONS[key].dtype
        if stride < dtype.itemsize:
            sections.lost[key.name] = (
                f"{key.name}: records of {stride} bytes, expected {dtype.itemsize}"
            )
        elif start + stride * count > len(data):
            sections.lost[key.name] = f"{key.name}: the file ends inside its {count:,} records"
        else:
            body = memoryview(data)[start : start + stride * count]
            sections.sums[key] = pool.submit(zlib.crc32, body), int(row["crc32"])
            sections.sections[key] = _records(data, dtype, stride, start, count)
    if header.sections and not sections.sections:
        raise _nothing_whole(sections)
    return sections


def _records(data: bytes, dtype: np.dtype, stride: int, start: int, count: int) -> Records:
    """Newer writers may make records longer; the fields known here come first."""
    if not count:
        return np.zeros(0, dtype)
    if stride == dtype.itemsize:
        # A view: large buffers are not copied.
        return np.frombuffer(data, dtype, count, start)
    raw = np.frombuffer(data, np.uint8, stride * count, start).reshape(count, stride)
    return np.ascontiguousarray(raw[:, : dtype.itemsize]).view(dtype).reshape(count)


# --- Sums of op records by core, thread and kind of op ---

_SMALL_TABLE = 1 << 16


class Sums(Struct, frozen=True, eq=False):
    """One row for each (core, thread, kind) that has records, in that order of columns."""

    core: np.ndarray
    thread: np.ndarray
    kind: tuple[str, ...]
    count: np.ndarray
    ucycles: np.ndarray  # of execution
    pcycles: np.ndarray
    sync_ucycles: np.ndarray  # waiting for operands
    barrier_ucycles: np.ndarray  # waiting for the group


def sums(stats: Stats) -> Sums:
    """Of all ops from level 70 on, of semaphore ops at level 50; validated records only."""
    ops = op_index(stats.layout, stats.specialization)
    section = SectionId.OP_REC if stats.has(SectionId.OP_REC) else SectionId.SEM_OP
    cells, cell_of = _cells(ops)
    threads = len(stats.layout.threads)
    totals = _totals(stats.of(section), ops, cell_of, len(cells) * threads)
    used = np.flatnonzero(totals[0])
    cell, thread = np.divmod(used, threads)
    ids = np.array([entry.id for entry in stats.layout.threads])
    core, kind = np.divmod(cells[cell], max(len(ops.kinds), 1))
    order = np.lexsort((kind, ids[thread], core))
    columns = [total[used][order] for total in totals]
    names = tuple(ops.kinds[i] for i in kind[order])
    return Sums(core[order], ids[thread][order], names, *columns)


def _cells(ops: OpLookup) -> tuple[np.ndarray, np.ndarray]:
    """The (core, kind) pairs that may occur, and which of them each op belongs to."""
    kinds = max(len(ops.kinds), 1)
    pairs = ops.cores * kinds + ops.kind_of
    every = ops.layout.cores * kinds
    if every * len(ops.layout.threads) <= _SMALL_TABLE:
        return np.arange(every), pairs
    cells, cell_of = np.unique(pairs, return_inverse=True)
    return cells, cell_of.astype(np.int64)


def _totals(records: Records, ops: OpLookup, cell_of: np.ndarray, size: int) -> list[np.ndarray]:
    """Count, execution ticks, cycles, ticks of waiting for operands and for the group."""
    threads = len(ops.layout.threads)
    totals = [np.zeros(size, np.int64) for _ in range(5)]
    for part in chunks(records, max(CHUNK, size)):
        place = cell_of.take(ops.find_known(part["core"], part["oc"])) * threads
        place += ops.threads.take(part["thread"])
        totals[0] += np.bincount(place, minlength=size)
        start, end = part["start_uc"], part["end_uc"]
        spans = (end - start, part["pc"], start - part["sync_uc"], part["barrier_uc"] - end)
        for total, span in zip(totals[1:], spans, strict=True):
            # Doubles hold these sums exactly: no single number reaches 2^53.
            total += np.bincount(place, span, size).astype(np.int64)
    return totals
