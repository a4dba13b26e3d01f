"""ExecuTorch's ETDump: a FlatBuffer of runs with timed events.

The schema does not say the unit of a time stamp. ExecuTorch's own tools take nanoseconds unless
told otherwise; so does this adapter, and a note says so."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from msgspec import Struct

from npuscope.bounded_file import TRACE
from npuscope.errors import FileError
from npuscope.families.many_core.adapters.model import (
    CPU,
    DELEGATE,
    Companions,
    ProfileFile,
    Sheet,
    SheetLane,
)
from npuscope.families.many_core.adapters.onnxruntime import (
    MOST_HOST_EVENTS,
    HostRun,
    KernelEvent,
    host_timeline,
    op_rows,
    own_times,
    run_totals,
)
from npuscope.profiling.model import Provenance
from npuscope.structs import replace
from npuscope.text import safe_terminal

# --- FlatBuffer tables; every offset is checked against the file ---


class FlatTable(Struct, frozen=True):
    """A table at a byte of the data; fields go by their number in the schema."""

    data: bytes
    at: int
    place: str

    def number(self, field: int, form: str, default: int = 0) -> int:
        """`form` is that of struct, without byte order."""
        at = self._field(field)
        return default if at is None else self._unpack(form, at)

    def table(self, field: int) -> FlatTable | None:
        at = self._field(field)
        return None if at is None else FlatTable(self.data, self._jump(at), self.place)

    def text(self, field: int, limit: int = 1000) -> str:
        at = self._field(field)
        if at is None:
            return ""
        start, size = self._vector(self._jump(at), 1)
        return self.data[start : start + min(size, limit)].decode("utf-8", "replace")

    def tables(self, field: int) -> Iterator[FlatTable]:
        at = self._field(field)
        if at is None:
            return
        start, count = self._vector(self._jump(at), 4)
        for i in range(count):
            yield FlatTable(self.data, self._jump(start + 4 * i), self.place)

    def _field(self, field: int) -> int | None:
        """Where it lies; None where it is absent."""
        vtable = self.at - self._unpack("i", self.at)
        size = self._unpack("H", vtable)
        slot = 4 + 2 * field
        offset = self._unpack("H", vtable + slot) if slot + 2 <= size else 0
        return self.at + offset if offset else None

    def _vector(self, at: int, item: int) -> tuple[int, int]:
        count = self._unpack("I", at)
        if count * item > len(self.data) - at - 4:
            raise self._broken(f"a vector of {count} entries, more than the file holds", at)
        return at + 4, count

    def _jump(self, at: int) -> int:
        return at + self._unpack("I", at)

    def _unpack(self, form: str, at: int) -> int:
        if at < 0 or at + struct.calcsize(f"<{form}") > len(self.data):
            raise self._broken("an offset points outside the file", at)
        value: int = struct.unpack_from(f"<{form}", self.data, at)[0]
        return value

    def _broken(self, what: str, at: int) -> FileError:
        return FileError(what, where=f"{self.place}: byte {at}")


def root(data: bytes, place: str, start: int = 0) -> FlatTable:
    """The outermost table; a size-prefixed buffer starts at byte 4."""
    whole = FlatTable(data, start, place)
    return FlatTable(data, whole._jump(start), place)


IDENTIFIER = b"ED00"
_KNOWN_VERSION = 0
_LATEST_NS = (1 << 62) - 1  # differences and sums of two stamps stay within 64 bits
_RUN = "Method::execute"
# These events time the runtime around an op, or work outside an inference.
_FRAMES = ("OPERATOR_CALL", "DELEGATE_CALL")
_SETUP = ("Method::init", "Program::load_method")
# Numbers of the fields, by table.
_VERSION, _RUNS = 0, 1
_RUN_NAME, _RUN_EVENTS = 0, 3
_PROFILE = 0
_NAME, _INSTRUCTION, _DELEGATE_INT, _DELEGATE_TEXT, _START, _END = 0, 2, 3, 4, 6, 7


def probe(source: ProfileFile) -> int:
    return 95 if _root_at(source.head) is not None else 0


def _root_at(data: bytes) -> int | None:
    """The runtime writes the size first; the plain form has the identifier at byte 4."""
    if data[8:12] == IDENTIFIER:
        return 4
    return 0 if data[4:8] == IDENTIFIER else None


def read(source: ProfileFile, companions: Companions) -> Sheet:
    data = source.read(TRACE)
    start = _root_at(data)
    if start is None:
        raise FileError("not an ETDump: the identifier ED00 is missing", where=source.place)
    dump = root(data, source.place, start)
    events: list[KernelEvent] = []
    runs: list[HostRun] = []
    names: list[str] = []
    count = 0
    for lane, run in enumerate(dump.tables(_RUNS)):
        names.append(run.text(_RUN_NAME, 200))
        own: list[KernelEvent] = []
        for event in run.tables(_RUN_EVENTS):
            count += 1
            if count + lane > MOST_HOST_EVENTS:
                raise FileError(f"more than {MOST_HOST_EVENTS} events", where=source.place)
            profiled = event.table(_PROFILE)
            if profiled is not None:
                own.append(_event(profiled, lane))
        runs += _inferences(own)
        events += [event for event in own if event.name not in (_RUN, *_SETUP)]
    events = _with_frames(events)
    if not events:
        raise FileError(
            "no timed event is in this ETDump",
            where=source.place,
            hint="build ExecuTorch with EXECUTORCH_ENABLE_EVENT_TRACER and profile the run",
        )
    lanes = [SheetLane("ExecuTorch", name or f"run {i}", 0, CPU) for i, name in enumerate(names)]
    return Sheet(
        adapter="etdump",
        file=source.path.name,
        network=next((name for name in names if name), ""),
        provenance=Provenance.LOG,
        ops=op_rows(events, runs),
        totals=run_totals(runs),
        timeline=host_timeline(events, lanes),
        notes=tuple(_notes(dump)),
    )


def _notes(dump: FlatTable) -> Iterator[str]:
    yield "time stamps are assumed to be nanoseconds: the file does not state their unit"
    version = dump.number(_VERSION, "I")
    if version != _KNOWN_VERSION:
        yield f"schema version {version} is newer than the one known ({_KNOWN_VERSION})"


def _event(table: FlatTable, lane: int) -> KernelEvent:
    name = table.text(_NAME)
    start, end = table.number(_START, "Q"), table.number(_END, "Q")
    if not start <= end <= _LATEST_NS:
        what = "ends before it starts" if end < start else "ends after a 64-bit clock overflows"
        place = f"{table.place}: byte {table.at}"
        raise FileError(f"'{safe_terminal(name)}' {what}", where=place)
    number, label = table.number(_DELEGATE_INT, "i", -1), table.text(_DELEGATE_TEXT, 200)
    delegated = number >= 0 or bool(label)
    kind = name.removeprefix("native_call_") or label
    return KernelEvent(
        lane=lane,
        start_us=start / 1000,
        end_us=end / 1000,
        kind=kind or f"delegate op {number}",
        name=name if name in (_RUN, *_SETUP) else _unique(kind, table, number, label),
        engine=DELEGATE if delegated or name == "DELEGATE_CALL" else CPU,
    )


def _unique(kind: str, table: FlatTable, number: int, label: str) -> str:
    """An op's name and its place in the program, which tells apart ops of one kind."""
    place = label or (f"delegate {number}" if number >= 0 else "")
    instruction = table.number(_INSTRUCTION, "i", -1)
    parts = [kind, f"@{instruction}" if instruction >= 0 else "", place if place != kind else ""]
    return " ".join(part for part in parts if part)


def _inferences(events: list[KernelEvent]) -> list[HostRun]:
    """Executions of the method; where none was recorded, the whole block is one."""
    runs = [HostRun(e.lane, e.start_us, e.end_us) for e in events if e.name == _RUN]
    timed = [event for event in events if event.name not in _SETUP]
    if runs or not timed:
        return runs
    start, end = min(e.start_us for e in timed), max(e.end_us for e in timed)
    return [HostRun(timed[0].lane, start, end)]


def _with_frames(events: list[KernelEvent]) -> list[KernelEvent]:
    """A call that holds timed ops is a frame; one that holds none stands for its op."""
    marked = []
    for event, own in zip(events, own_times(events), strict=True):
        holds = own < event.end_us - event.start_us
        marked.append(replace(event, frame=event.kind in _FRAMES and holds))
    return marked
