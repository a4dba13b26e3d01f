"""Records against the layout: what cannot be right is dropped, and reported by reason and number.

Records are taken in pieces that stay in the processor's cache, since every test reads all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

import numpy as np

from npuscope.families.many_core.buffer_format import OpLookup, Records
from npuscope.families.many_core.records import PMU_COUNTERS, SectionId

# Records in a piece: less than a megabyte of op records, which have 56 bytes each.
CHUNK = 1 << 14
# Ticks, cycles and bytes above this are not measurements (15 years of the timer), and sums of
# smaller ones stay exact in double precision.
MOST = 1 << 53
_WRAPPED = np.uint64(0xFFFFFFFF_00000000)

Bad = np.ndarray | None  # one flag per record; None where all are right
Test = Callable[[Records, OpLookup], Bad]


def chunks(records: Records, size: int = CHUNK) -> Iterator[Records]:
    return (records[start : start + size] for start in range(0, len(records), size))


def checked(key: SectionId, records: Records, ops: OpLookup) -> tuple[Records, list[str]]:
    """The records that can be right, and a sentence on the others."""
    notes = []
    if key is SectionId.PMU_THREAD:
        records, wrapped = _unwrapped(records)
        notes += [f"{key.name}: {wrapped:,} counters wrapped at 32 bits"] if wrapped else []
    sound, reasons = _sound(records, _TESTS[key], ops)
    fields = _UNIQUE.get(key)
    if fields is not None:
        sound, repeated = _unique(sound, fields, ops)
        reasons["duplicate"] = repeated
    if len(sound) < len(records):
        why = ", ".join(f"{reason} ({count:,})" for reason, count in reasons.items() if count)
        lost = len(records) - len(sound)
        notes.append(f"{key.name}: {lost:,} of {len(records):,} records dropped: {why}")
    return sound, notes


def _sound(
    records: Records, tests: Mapping[str, Test], ops: OpLookup
) -> tuple[Records, dict[str, int]]:
    reasons = dict.fromkeys(tests, 0)
    parts, whole = [], True
    for part in chunks(records):
        for reason, test in tests.items():
            bad = test(part, ops)
            if bad is not None:
                whole = False
                reasons[reason] += int(np.count_nonzero(bad))
                part = part[~bad]
        parts.append(part)
    return (records if whole else np.concatenate(parts)), reasons


def _any(bad: np.ndarray) -> Bad:
    return bad if bad.any() else None


def _any_of(several: Iterator[np.ndarray]) -> Bad:
    bad = next(several)
    for other in several:
        bad |= other
    return _any(bad)


def _core(records: Records, ops: OpLookup) -> Bad:
    return _any(records["core"] >= ops.layout.cores)


def _thread(records: Records, ops: OpLookup) -> Bad:
    return _any(ops.threads.take(records["thread"]) < 0)


def _op(records: Records, ops: OpLookup) -> Bad:
    return _any(ops.find(records["core"], records["oc"]) < 0)


def _op_somewhere(records: Records, ops: OpLookup) -> Bad:
    return _any(~ops.known_number(records["oc"]))


def _port(records: Records, ops: OpLookup) -> Bad:
    ports = np.array([port.id for port in ops.layout.ports], np.uint16)
    return _any(~np.isin(records["port"], ports))


def _counters(records: Records, ops: OpLookup) -> Bad:
    return _any(records["n"] > PMU_COUNTERS)


def _rising(*names: str) -> Test:
    """Each of these times is at least the one before."""

    def test(records: Records, ops: OpLookup) -> Bad:
        columns = [records[name] for name in names]
        return _any_of(later < earlier for earlier, later in pairwise(columns))

    return test


def _small(*names: str) -> Test:
    def test(records: Records, ops: OpLookup) -> Bad:
        return _any_of(records[name] >= MOST for name in names)

    return test


_PLACE: dict[str, Test] = {"core not in the program": _core, "thread not in the program": _thread}
_WHERE_OP: dict[str, Test] = {
    "thread not in the program": _thread,
    "op not in the program": _op,
}
_ORDER, _RANGE = "end before start", "number out of range"
_OP_TESTS: dict[str, Test] = {
    **_WHERE_OP,
    _ORDER: _rising("sync_uc", "start_uc", "end_uc", "barrier_uc"),
    _RANGE: _small("barrier_uc", "pc"),
}
_TESTS: dict[SectionId, Mapping[str, Test]] = {
    SectionId.THREAD_INF: {
        **_PLACE,
        _ORDER: _rising("start_uc", "end_uc"),
        "cycles run backwards": _rising("start_pc", "end_pc"),
        _RANGE: _small("end_uc", "end_pc"),
    },
    SectionId.THREAD_ACT: {
        **_PLACE,
        _ORDER: _rising("start_uc", "end_uc"),
        _RANGE: _small("end_uc"),
    },
    SectionId.PMU_THREAD: {
        **_PLACE,
        "more counters than there are": _counters,
        _RANGE: _small(*(f"count{i}" for i in range(PMU_COUNTERS))),
    },
    SectionId.DDR_CORE: {
        "core not in the program": _core,
        _RANGE: _small("rd_bytes", "wr_bytes", "mc_rd_bytes", "mc_wr_bytes"),
    },
    SectionId.PORT_WAIT: {
        **_PLACE,
        "port not in the program": _port,
        _RANGE: _small("wait_uc"),
    },
    SectionId.PORT_RING: {
        "core not in the program": _core,
        "port not in the program": _port,
        _RANGE: _small("uc"),
    },
    SectionId.SEM_OP: _OP_TESTS,
    SectionId.OP_REC: _OP_TESTS,
    SectionId.DMA_REC: {
        **_WHERE_OP,
        _ORDER: _rising("issue_uc", "done_uc"),
        _RANGE: _small("done_uc", "bytes"),
    },
    SectionId.P2P_REC: {
        "port not in the program": _port,
        "op not in the program": _op_somewhere,
        _ORDER: _rising("start_uc", "end_uc"),
        _RANGE: _small("end_uc", "bytes"),
    },
    SectionId.OP_PMU: _WHERE_OP,
}
# What tells records apart. Transfers and counters of an op in a loop have nothing that does.
_UNIQUE: dict[SectionId, tuple[str, ...]] = {
    SectionId.THREAD_INF: ("core", "thread"),
    SectionId.THREAD_ACT: ("core", "thread"),
    SectionId.PMU_THREAD: ("core", "thread"),
    SectionId.DDR_CORE: ("core",),
    SectionId.PORT_WAIT: ("core", "thread", "port"),
    SectionId.SEM_OP: ("core", "thread", "oc", "sample"),
    SectionId.OP_REC: ("core", "thread", "oc", "sample"),
    SectionId.DMA_REC: ("core", "thread", "oc", "issue_uc"),
}

_EVERY_CORE = (
    SectionId.THREAD_INF,
    SectionId.THREAD_ACT,
    SectionId.PMU_THREAD,
    SectionId.DDR_CORE,
)


def _unique(records: Records, fields: tuple[str, ...], ops: OpLookup) -> tuple[Records, int]:
    """The first of each; the common case, in which nothing repeats, is found without sorting."""
    if "oc" in fields and _all_differ(records, ops):
        return records, 0
    order = np.lexsort([records[name] for name in reversed(fields)])
    same = np.ones(max(len(records) - 1, 0), bool)
    for name in fields:
        column = records[name][order]
        same &= column[1:] == column[:-1]
    # The sort is stable, so that a repeated record is behind the one it repeats.
    repeated = order[1:][same]
    return (np.delete(records, repeated) if len(repeated) else records), len(repeated)


def _all_differ(records: Records, ops: OpLookup) -> bool:
    """Whether (core, thread, op, sample) marks as many places of a table as there are records."""
    samples = 1
    if "sample" in (records.dtype.names or ()):
        samples += max((int(part["sample"].max()) for part in chunks(records)), default=0)
    threads = len(ops.layout.threads)
    size = len(ops.ops) * threads * samples
    if size > 8 * len(records) + (1 << 20):
        return False
    marks = np.zeros(size, bool)
    for part in chunks(records):
        place = ops.find_known(part["core"], part["oc"]) * threads
        place += ops.threads.take(part["thread"])
        marks[place if samples == 1 else place * samples + part["sample"]] = True
    return int(np.count_nonzero(marks)) == len(records)


def _unwrapped(records: Records) -> tuple[Records, int]:
    """A difference of 32-bit counters that wrapped is negative: it is meant modulo 2^32."""
    names = [f"count{i}" for i in range(PMU_COUNTERS)]
    wrapped = [(name, (records[name] & _WRAPPED) == _WRAPPED) for name in names]
    total = sum(int(np.count_nonzero(bad)) for _, bad in wrapped)
    if total:
        records = records.copy()
        for name, bad in wrapped:
            records[name][bad] &= np.uint64(0xFFFFFFFF)
    return records, total


def missing_cores(sections: Mapping[SectionId, Records], ops: OpLookup) -> list[str]:
    """Cores that should have records and have none: not written, or dropped."""
    every = frozenset(range(ops.layout.cores))
    busy = frozenset(np.unique(ops.cores).tolist())
    cores_of = {**dict.fromkeys(_EVERY_CORE, every), SectionId.OP_REC: busy}
    missing: dict[frozenset[int], list[str]] = {}
    for key in sorted(cores_of.keys() & sections.keys()):
        # Cores are small numbers: counting them needs no sort.
        lost = cores_of[key] - set(np.flatnonzero(np.bincount(sections[key]["core"])).tolist())
        missing.setdefault(lost, []).append(key.name)
    notes = []
    for lost, names in missing.items():
        if lost:
            cores = ", ".join(map(str, sorted(lost)[:8])) + (", ..." if len(lost) > 8 else "")
            count = f"{len(lost)} of {ops.layout.cores} cores"
            notes.append(f"{', '.join(names)}: no records of {count}: {cores}")
    return notes
