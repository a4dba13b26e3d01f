"""The lines of a profiler log: one rule a kind of line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from npuscope.program.generate_report.draft import Draft, Rule, number, whole

_EVENT = re.compile(r"\s*s:([a-z_]{1,20}):([A-Za-z0-9_]{1,40}):(\S*)\s*$")
_TITLE = re.compile(
    r"\s*(EpochBlock_\d{1,9}) \(c_idx=(\d{1,9}), num=(\d{1,9}):(\d{1,9}), c_type=(\w{1,12}),"
    r" extra=(\d{1,9})\)\s*$",
    re.ASCII,
)
_BUS = re.compile(r"\s*busif (\d{1,4}|\(total\)) +: r=(\d{1,18}) +w=(\d{1,18})", re.ASCII)
_BURSTS = re.compile(r"([rw])burst\[([\d,]{1,40})\]x(\d{1,4})=\(([\d,]{1,90})\)", re.ASCII)
_RATE = re.compile(r"-> ([\d.]{1,20}) ([KMG]?B/s)", re.ASCII)
_ENGINE = re.compile(
    r"\s*active +: STRENG\.(\d{1,4})\.([io]): busif=(\d{1,4}), (\d{1,18}) cycles, (.{1,80}), "
    r"(\d{1,6})%\s*$",
    re.ASCII,
)
_CACHE = re.compile(r"\s*NPU cache cnts +: R\[([^\[\]]{1,200})\], W\[([^\[\]]{1,200})\]\s*$")
_INFERENCE = re.compile(
    r'\s*name="([^"]{0,200})" counters="([^"]{0,40})"\[([\d, ]{1,200})\] dur=([\d.]{1,20})ms'
    r" id=(\d{1,9}\.\d{1,9}) type=(0x[0-9a-f]{1,16})/(.{0,60})$",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Event:
    """A line of the board: `s:category:key:value:value...`."""

    category: str
    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BlockTitle:
    name: str
    c_idx: int
    first: int
    last: int
    kind: str
    extra: int


@dataclass(frozen=True, slots=True)
class Bursts:
    """Bursts of one direction by their length in beats of `beat_bytes`."""

    direction: str
    lengths: tuple[int, ...]
    beat_bytes: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BusLine:
    """Bytes over one bus interface, or over both; the rate is in the unit printed."""

    id: int | None
    read_bytes: int
    write_bytes: int
    bursts: tuple[Bursts, ...]
    rate: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class EngineLine:
    id: int
    direction: str
    busif: int
    active_cycles: int
    data: str
    percent: int


@dataclass(frozen=True, slots=True)
class CacheLine:
    read: tuple[tuple[str, int], ...]
    write: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class InferenceLine:
    """Counters of one inference, or of one node inside it."""

    name: str
    counter: str
    counters: tuple[int, ...]
    ms: float
    id: str  # first and last epoch with a dot between
    type: int
    text: str


def event(text: str, draft: Draft) -> Event | None:
    found = _EVENT.match(text)
    if not found:
        return None
    return Event(found[1], found[2], tuple(found[3].split(":")))


def title(text: str, draft: Draft) -> BlockTitle | None:
    found = _TITLE.match(text)
    if not found:
        return None
    c_idx, first, last, extra = (int(found[i]) for i in (2, 3, 4, 6))
    return BlockTitle(found[1], c_idx, first, last, found[5], extra)


def bus(text: str, draft: Draft) -> BusLine | None:
    found = _BUS.match(text)
    if not found:
        return None
    rate = _RATE.search(text, found.end())
    return BusLine(
        whole(found[1]),
        int(found[2]),
        int(found[3]),
        tuple(_bursts(*hit) for hit in _BURSTS.findall(text, found.end())),
        number(rate[1]) if rate else None,
        rate[2] if rate else "",
    )


def _bursts(direction: str, lengths: str, beat: str, counts: str) -> Bursts:
    return Bursts(direction, _whole_list(lengths), int(beat), _whole_list(counts))


def _whole_list(text: str) -> tuple[int, ...]:
    values = (whole(part.strip()) for part in text.split(","))
    return tuple(value for value in values if value is not None)


def engine(text: str, draft: Draft) -> EngineLine | None:
    found = _ENGINE.match(text)
    if not found:
        return None
    number_of, direction, busif, cycles, data, percent = found.groups()
    return EngineLine(int(number_of), direction, int(busif), int(cycles), data, int(percent))


def cache(text: str, draft: Draft) -> CacheLine | None:
    found = _CACHE.match(text)
    return CacheLine(_named(found[1]), _named(found[2])) if found else None


def _named(text: str) -> tuple[tuple[str, int], ...]:
    pairs = (part.partition("=") for part in text.split(","))
    values = ((key.strip(), whole(value.strip())) for key, _, value in pairs)
    return tuple((key, value) for key, value in values if value is not None)


def inference(text: str, draft: Draft) -> InferenceLine | None:
    found = _INFERENCE.match(text)
    ms = number(found[4]) if found else None
    if not found or ms is None:
        return None
    counters = _whole_list(found[3])
    kind = int(found[6], 16)
    return InferenceLine(found[1], found[2], counters, ms, found[5], kind, found[7])


PROFILER_RULES: tuple[Rule, ...] = (
    ("events", event),
    ("titles_of_epochs", title),
    ("bus", bus),
    ("engine", engine),
    ("cache", cache),
    ("inferences", inference),
)
