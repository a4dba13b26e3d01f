"""Events of trace files: read one at a time from JSON, kept as columns."""

from __future__ import annotations

import codecs
import json
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from msgspec import Struct, field

from npuscope.bounded_file import opened
from npuscope.errors import FileError
from npuscope.families.many_core.adapters.model import SheetOp
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.text import safe_terminal

# --- Events as columns while a file is read, and sums over equal ops ---

# Some 100 bytes each: the vendor's largest traces have under a million.
MOST_EVENTS = 5_000_000
_MISSING = -1.0


class Names(Struct):
    """Strings by number."""

    numbers: dict[object, int] = field(default_factory=dict)

    def number(self, name: object) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    @property
    def all(self) -> list[object]:
        return list(self.numbers)


class OpGroup(Struct, frozen=True):
    """What rows of a table have in common."""

    kind: str
    memory: str
    dtypes: tuple[str, ...]


class SliceColumns(Struct):
    """One entry per event. `op` tells ops apart, `wait_us` is what it waited beforehand."""

    place: str
    groups: Names = field(default_factory=Names)
    labels: Names = field(default_factory=Names)
    lane: array[int] = field(default_factory=lambda: array("q"))
    group: array[int] = field(default_factory=lambda: array("q"))
    label: array[int] = field(default_factory=lambda: array("q"))
    op: array[int] = field(default_factory=lambda: array("q"))
    start: array[float] = field(default_factory=lambda: array("d"))
    us: array[float] = field(default_factory=lambda: array("d"))
    ucycles: array[float] = field(default_factory=lambda: array("d"))
    pcycles: array[float] = field(default_factory=lambda: array("d"))
    out_bytes: array[float] = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        return len(self.lane)

    def add(
        self,
        lane: int,
        group: OpGroup,
        label: str,
        op: int,
        start: float,
        us: float,
        figures: tuple[float | None, float | None, float | None],
    ) -> None:
        """`figures` are ucycles, pcycles and bytes."""
        if len(self.lane) >= MOST_EVENTS:
            raise FileError(
                f"more than {MOST_EVENTS} slices",
                where=self.place,
                hint="let the vendor's tool write fewer cores (--select-cores)",
            )
        self.lane.append(lane)
        self.group.append(self.groups.number(group))
        self.label.append(self.labels.number(label))
        self.op.append(op)
        self.start.append(start)
        self.us.append(us)
        for column, value in zip(
            (self.ucycles, self.pcycles, self.out_bytes), figures, strict=True
        ):
            column.append(_MISSING if value is None else value)


def group_rows(columns: SliceColumns, core: np.ndarray, engine: list[str]) -> tuple[SheetOp, ...]:
    """Sums by core, engine and group. `core` and `engine` go with the lanes; -1 is left out.

    An op of several threads counts once, with the longest of them; so does an asynchronous one
    that has a row for its issue and one for its transfer.
    """
    if not len(columns):
        return ()
    lane = np.asarray(columns.lane)
    engines = Names()
    which = np.array([engines.number(name) for name in engine], np.int64)
    keep = np.flatnonzero(core[lane] >= 0)
    group, op = np.asarray(columns.group)[keep], np.asarray(columns.op)[keep]
    place = np.stack([core[lane[keep]], which[lane[keep]], group])
    turn = _turns(lane[keep], op, group)
    firsts, back = _distinct(np.stack([*place, op, turn]))
    figures: dict[str, np.ndarray] = {}
    for name in ("us", "ucycles", "pcycles", "out_bytes"):
        # -1 stays where no event states the figure, so that it is not mistaken for 0.
        figures[name] = np.full(len(firsts), _MISSING)
        np.maximum.at(figures[name], back, np.asarray(getattr(columns, name))[keep])
    heads, into = _distinct(place[:, firsts])
    names, groups = engines.all, columns.groups.all
    rows = [
        _row(
            int(place[0, firsts[head]]),
            str(names[place[1, firsts[head]]]),
            groups[place[2, firsts[head]]],
            {name: values[into == i] for name, values in figures.items()},
        )
        for i, head in enumerate(heads)
    ]
    return tuple(sorted(rows, key=lambda row: (row.core, -(row.us or 0.0), row.details)))


def _distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First index of each distinct column, and which of them every column is."""
    _, firsts, back = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    return firsts, back.reshape(-1)


def _turns(lane: np.ndarray, op: np.ndarray, group: np.ndarray) -> np.ndarray:
    """How often a lane has had this op before: the same op on two lanes has equal turns."""
    order = np.lexsort((np.arange(lane.size), group, op, lane))
    keys = np.stack([lane, op, group])[:, order]
    new = np.ones(lane.size, np.bool_)
    new[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    at = np.arange(lane.size)
    starts = np.maximum.accumulate(np.where(new, at, 0))
    turns = np.empty(lane.size, np.int64)
    turns[order] = at - starts
    return turns


def _row(core: int, engine: str, group: object, figures: dict[str, np.ndarray]) -> SheetOp:
    if not isinstance(group, OpGroup):
        raise TypeError("columns hold groups")
    us = float(figures["us"].sum())
    # None where an op does not state it: part of a sum would be misread as all of it.
    totals = {
        name: float(values.sum()) if (values >= 0).all() else None
        for name, values in figures.items()
    }
    pcycles, out_bytes = figures["pcycles"], figures["out_bytes"]
    stated = bool(((pcycles >= 0) & (out_bytes > 0)).all()) and pcycles.size > 0
    return SheetOp(
        core=core,
        engine=engine,
        kind=group.kind,
        memory=group.memory,
        dtypes=group.dtypes,
        name="",
        count=len(figures["us"]),
        us=us,
        ucycles=us * UTIMER_HZ / 1e6 if totals["ucycles"] is None else totals["ucycles"],
        pcycles=totals["pcycles"],
        out_bytes=totals["out_bytes"],
        stddev_pcycles_per_kb=float(np.std(pcycles / (out_bytes / 1024))) if stated else None,
    )


# --- Events of a trace JSON, one at a time, in bounded memory ---
# The file is an array of events, or an object with such an array under `traceEvents`; tools that
# were stopped leave the array open.

Event = dict[str, Any]

CHUNK = 1 << 20
# No event of a profile is near this; without a limit a broken one would be read to the end.
LONGEST_VALUE = 8 << 20
_NUMERIC = (int, float, str)
_LATEST_US = 4e15
_SPACE = " \t\r\n\ufeff"


class EventReader:
    """Iterate over it; `open_ended` says afterwards that the array was never closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.open_ended = False
        self.count = 0
        self._text = ""
        self._at = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._json = json.JSONDecoder(parse_constant=_no_constant)

    def __iter__(self) -> Iterator[Event]:
        with opened(self.path) as file:
            self._file: IO[bytes] = file
            self._enter()
            while True:
                char = self._peek()
                if char in ("", "]"):
                    self.open_ended = char == ""
                    return
                if char == "," and self.count:
                    self._at += 1
                    if self._peek() in ("", "]"):  # a writer that was stopped
                        continue
                event = self._value(last_may_break=True)
                if event is None:
                    return
                if not isinstance(event, dict):
                    raise self._broken("expected an event, {...}")
                self.count += 1
                yield event

    def _enter(self) -> None:
        """Up to the first event."""
        char = self._peek()
        if char == "[":
            self._at += 1
            return
        if char != "{":
            raise self._broken("expected an array of events, or an object with traceEvents")
        self._at += 1
        while self._peek() == '"':
            key = self._value()
            if self._peek() != ":":
                raise self._broken("expected ':'")
            self._at += 1
            if key == "traceEvents" and self._peek() == "[":
                self._at += 1
                return
            self._value()
            if self._peek() == ",":
                self._at += 1
        raise self._broken("no array under traceEvents")

    def _peek(self) -> str:
        """The next character that is not a space; nothing at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(CHUNK):
                return ""

    def _more(self, size: int) -> bool:
        data = self._file.read(size)
        self._text = self._text[self._at :] + self._decoder.decode(data, final=not data)
        self._at = 0
        return bool(data)

    def _value(self, *, last_may_break: bool = False) -> Any:
        """The next value. Where it does not end in the text at hand, more is read."""
        step = CHUNK
        self._peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise self._broken("nested too deeply") from error
            except ValueError as error:
                too_long = len(self._text) - self._at > LONGEST_VALUE
                if too_long or not _goes_on(error, self._text):
                    raise self._broken(f"not an event: {_reason(error)}") from error
                if self._more(step):
                    step *= 2
                    continue
                if last_may_break and self.count:
                    self.open_ended = True
                    return None
                raise self._broken(f"not an event: {_reason(error)}") from error
            # A number at the end of the text may go on in the next part.
            if end == len(self._text) and not isinstance(value, dict | list) and self._more(step):
                continue
            self._at = end
            return value

    def _broken(self, what: str) -> FileError:
        event = f": traceEvents[{self.count}]" if self.count else ""
        return FileError(
            what,
            where=f"{safe_terminal(str(self.path))}{event}",
            hint="expected a Chrome trace or an onnxruntime profile",
        )


def _goes_on(error: ValueError, text: str) -> bool:
    """The value only ends too early: the fault lies at the end of the text."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated") or error.pos > len(text.rstrip()) - 16


def _reason(error: ValueError) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error)[:80]


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def number(value: Any) -> float | None:
    """A finite number, also one written as text; None for anything else."""
    if type(value) not in _NUMERIC:
        return None
    try:
        figure = float(value)
    except (ValueError, OverflowError):
        return None
    return figure if abs(figure) < 1e18 else None


def time_us(value: Any) -> float | None:
    """Microseconds whose sums still fit 64 bits of nanoseconds; None for anything else."""
    us = number(value)
    return us if us is not None and abs(us) < _LATEST_US else None


def text(value: Any, limit: int = 1000) -> str:
    return value[:limit] if isinstance(value, str) else ""


def arguments(event: Event) -> Event:
    args = event.get("args")
    return args if isinstance(args, dict) else {}
