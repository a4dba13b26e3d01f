"""Events as columns while a file is read, and sums over ops alike."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np

from npuscope.errors import FileError
from npuscope.manycore.adapters.model import OpRow
from npuscope.manycore.records import UTIMER_HZ

# Some 100 bytes each: the vendor's largest traces have under a million.
MOST_EVENTS = 5_000_000
_MISSING = -1.0


@dataclass(slots=True)
class Names:
    """Strings by number."""

    numbers: dict[object, int] = field(default_factory=dict)

    def number(self, name: object) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    @property
    def all(self) -> list[object]:
        return list(self.numbers)


@dataclass(frozen=True, slots=True)
class Group:
    """What rows of a table have in common."""

    kind: str
    memory: str
    dtypes: tuple[str, ...]


@dataclass(slots=True)
class Columns:
    """One entry an event. `op` tells ops apart, `wait_us` is what it waited beforehand."""

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
        group: Group,
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


def group_rows(columns: Columns, core: np.ndarray, engine: list[str]) -> tuple[OpRow, ...]:
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
    figures = {
        name: _most(np.asarray(getattr(columns, name))[keep], back, len(firsts))
        for name in ("us", "ucycles", "pcycles", "out_bytes")
    }
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


def _most(values: np.ndarray, back: np.ndarray, size: int) -> np.ndarray:
    found = np.full(size, _MISSING)
    np.maximum.at(found, back, values)
    return found


def _row(core: int, engine: str, group: object, figures: dict[str, np.ndarray]) -> OpRow:
    if not isinstance(group, Group):
        raise TypeError("columns hold groups")
    us = float(figures["us"].sum())
    known = {name: _total(values) for name, values in figures.items()}
    return OpRow(
        core=core,
        engine=engine,
        kind=group.kind,
        memory=group.memory,
        dtypes=group.dtypes,
        name="",
        count=len(figures["us"]),
        us=us,
        ucycles=us * UTIMER_HZ / 1e6 if known["ucycles"] is None else known["ucycles"],
        pcycles=known["pcycles"],
        out_bytes=known["out_bytes"],
        stddev_pcycles_per_kb=_deviation(figures["pcycles"], figures["out_bytes"]),
    )


def _total(values: np.ndarray) -> float | None:
    """None where an op does not state it: part of a sum would be misread as all of it."""
    return float(values.sum()) if (values >= 0).all() else None


def _deviation(pcycles: np.ndarray, out_bytes: np.ndarray) -> float | None:
    known = (pcycles >= 0) & (out_bytes > 0)
    if not known.all() or not known.size:
        return None
    return float(np.std(pcycles / (out_bytes / 1024)))
