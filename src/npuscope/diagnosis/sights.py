"""What can be looked at on a board: each place, and who reads it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from npuscope.text import without_middle

Array = np.ndarray
Bytes = NDArray[np.uint8]


class SightView(Enum):
    """Who reads what, and when. Bytes are in the order of memory."""

    OUTPUT = "output"  # as the program reads it
    OUTPUT_RAM = "output-ram"  # as the RAM holds it: read by a debugger or a DMA
    INPUT = "input"  # the input buffer as the program reads it, just before the run
    INPUT_RAM = "input-ram"  # the same as the RAM holds it, which is what the NPU reads
    WEIGHTS = "weights"  # the image of a pool as the CPU reads it
    BUFFER = "buffer"  # behind the epoch that fills it
    AGAIN = "again"  # the output of a second run, without a new input
    MARKER = "marker"  # which buffers keep a pattern that was written before the run
    FLASH_WORD = (
        "flash-word"  # does the CPU read a word of flash that is known, beside the weights?
    )


_LONGEST = 48


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Name by what is short enough to be typed; a split's buffer has the names of all its parts."""
    short: dict[str, str] = {}
    for name in names:
        text = without_middle(name, _LONGEST)
        short[name if text in short else text] = name
    return short


class Sight(Struct, frozen=True):
    """One thing to look at: an output, an input, a buffer or a pool, by name."""

    view: SightView
    name: str
    frame: int = 0  # which of the inputs it belongs to
