"""Ranges around predictions, as they were calibrated on families left out: ranges.json.

`python -m benchmarks accuracy --models DIR --write-ranges` writes the file.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import NamedTuple

import msgspec
from msgspec import Struct


class Sides(NamedTuple):
    """How far the device may be faster, and slower, than predicted: shares of the prediction."""

    faster: float
    slower: float


class Tile(Struct, frozen=True, array_like=True):
    """How a layer is cut: what one pass of a unit takes."""

    kernel: str  # "1x1", "row", "wide" or "k x k"
    accumulates: bool
    depth: int  # channels, MOST for that and more
    kernels: int


class Held(Struct, frozen=True):
    """How often ranges held that took no part in the own family, by kind of prediction."""

    held: int
    rows: int
    families: int

    @property
    def share(self) -> float:
        return self.held / self.rows


class SizeRange(Struct, frozen=True):
    """How far a published size is from ours, and how often that held."""

    less: float
    more: float
    held: Held


class OtherExport(Struct, frozen=True):
    """A model file whose published latency was measured on another export of the network."""

    md5: str
    version: str  # of the vendor's tools
    published_ms: float


class Ranges(Struct, frozen=True):
    """What was calibrated on families left out (ranges.json, which names its script)."""

    made_by: str
    level: float  # share of left-out measurements that ranges are made to hold
    parts: dict[str, Sides]  # by field of Contents; "" is all of the time
    kinds: dict[str, Held]
    sizes: dict[str, SizeRange]
    tiles: tuple[Tile, ...]  # how layers of measured networks are cut
    other_exports: tuple[OtherExport, ...]


MOST_TILE = 9


def coverage_of_all() -> str:
    """For predictions of many kinds beside each other."""
    kinds = ranges().kinds.values()
    held, rows = sum(one.held for one in kinds), sum(one.rows for one in kinds)
    return f"such ranges held for {held} of {rows} left-out measurements"


@lru_cache(maxsize=1)
def ranges() -> Ranges:
    text = resources.files("npuscope.profiling").joinpath("ranges.json").read_bytes()
    return msgspec.json.decode(text, type=Ranges)
