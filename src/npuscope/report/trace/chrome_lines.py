"""Parts of Chrome's JSON lines, and the lines that follow a slice: flows and ends."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from npuscope.text import safe_terminal
from npuscope.trace_model import Events, Ids, Mask, Times, TraceModel

Lines = list[str]
# Viewers hold microseconds as 64-bit floats; below this (13 days) they show each nanosecond.
EXACT_NS = 1 << 50
Rows = NDArray[np.int64]


def json(text: str) -> str:
    return orjson.dumps(safe_terminal(text)).decode()


def objects(texts: Lines) -> NDArray[np.object_]:
    result = np.empty(len(texts), object)
    result[:] = texts
    return result


def woven(*pieces: str | Lines) -> Lines:
    """Columns of texts with the same texts between them, joined row by row."""
    columns = [repeat(piece) if isinstance(piece, str) else piece for piece in pieces]
    return list(map("".join, zip(*columns, strict=False)))


def numbers(values: NDArray[Any]) -> Lines:
    """As JSON, which has only null for what is not finite."""
    return orjson.dumps(values.tolist())[1:-1].decode().split(",") if len(values) else []


def microseconds(ns: Times) -> Lines:
    """Exact below EXACT_NS: the shortest text of a float has no more than three decimals then."""
    return numbers(ns / 1000)


@dataclass(frozen=True, slots=True)
class Words:
    """What many events share, as JSON: strings, and where a thread is."""

    strings: NDArray[np.object_]
    threads: NDArray[np.object_]

    @classmethod
    def of(cls, model: TraceModel) -> Words:
        places = [
            f'"pid":{model.processes[thread.process].pid},"tid":{thread.tid}'
            for thread in model.threads
        ]
        return cls(objects([json(text) for text in model.strings]), objects(places))

    def text(self, ids: Ids) -> Lines:
        return list(self.strings[ids])

    def place(self, threads: Ids) -> Lines:
        return list(self.threads[threads])


@dataclass(frozen=True, slots=True)
class Tails:
    """Lines that follow those of slices; flows have a number and a category."""

    row: Rows  # the slice whose line goes before; ascending
    thread: Ids
    ns: Times
    phase: str
    words: Words
    number: Rows | None = None
    category: Ids | None = None

    def append_to(self, lines: Lines, rows: slice) -> None:
        """To the lines of the slices `rows`."""
        here = slice(*np.searchsorted(self.row, (rows.start, rows.stop)))
        place, ns = self.words.place(self.thread[here]), microseconds(self.ns[here])
        head = (",\n{" + self.phase + ",", place, ',"ts":', ns)
        tails = woven(*head, *self._flow(here), "}")
        for line, tail in zip((self.row[here] - rows.start).tolist(), tails, strict=True):
            lines[line] += tail

    def _flow(self, here: slice) -> tuple[str | Lines, ...]:
        if self.number is None or self.category is None:
            return ()
        category = self.words.text(self.category[here])
        return ',"name":"flow","id":', numbers(self.number[here]), ',"cat":', category


def flow_starts(model: TraceModel, words: Words) -> Tails:
    return _flow_tails(model, model.flows.source, '"ph":"s"', words)


def flow_ends(model: TraceModel, words: Words) -> Tails:
    return _flow_tails(model, model.flows.target, '"ph":"f","bp":"e"', words)


def _flow_tails(model: TraceModel, row: Rows, phase: str, words: Words) -> Tails:
    """Where the slices start: at an end, the next slice may have begun. Numbers are unique."""
    order = np.argsort(row, kind="stable")
    row, slices = row[order], model.slices
    category = model.flows.category[order]
    place = slices.thread[row], slices.start_ns[row]
    return Tails(row, *place, phase, words, order + 1, category)


def ordered_rows(model: TraceModel) -> Mask:
    """Slices to write as begin and end, on the threads where the order of events matters.

    Those without length stay complete events: a viewer would take their end before their begin.
    """
    slices = model.slices
    with_flow = np.zeros(len(slices), bool)
    with_flow[model.flows.source] = with_flow[model.flows.target] = True
    threads = np.zeros(len(model.threads), bool)
    threads[slices.thread[with_flow & _shares_start(slices)]] = True
    return threads[slices.thread] & (slices.end_ns > slices.start_ns)


def _shares_start(slices: Events) -> Mask:
    """Slices that start when another one of their thread does."""
    order = np.lexsort((slices.start_ns, slices.thread))
    start, thread = slices.start_ns[order], slices.thread[order]
    as_next = (start[1:] == start[:-1]) & (thread[1:] == thread[:-1])
    result = np.zeros(len(slices), bool)
    result[order[1:][as_next]] = result[order[:-1][as_next]] = True
    return result


def slice_ends(model: TraceModel, in_two: Mask, words: Words) -> Tails:
    """End events, so that lines stay in order of time and in front of what starts then."""
    slices, own = model.slices, np.flatnonzero(in_two)
    after = np.searchsorted(slices.start_ns, slices.end_ns[own]) - 1
    order = np.lexsort((slices.end_ns[own], after))
    own, after = own[order], after[order]
    return Tails(after, slices.thread[own], slices.end_ns[own], '"ph":"E"', words)
