"""Proof that no number of a text file is lost: each is in the JSON, or in a part named ignored."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from npuscope.identify.path import identify
from npuscope.identify.table import Identity
from npuscope.program.generate_report.lines import read_lines

# Digits inside a word are part of a name; commas stand between groups of three.
_NUMBER = re.compile(
    r"(?<![\w.])(?:(0x[0-9A-Fa-f]+)|(\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?)|(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?))"
)
# Flags and type of a node are hexadecimal without a mark.
_NODE_START = re.compile(r"(evt_pre_start(?::\d+){4}):([0-9a-f]{8}):([0-9a-f]{8}):")
_REGION = re.compile(r"lines? (\d+)(?:-(\d+))?:")


def numbers(text: str, commas: bool = True) -> Counter[float]:
    """Where commas part cells or arguments, they do not group digits."""
    found: Counter[float] = Counter()
    text = text if commas else text.replace(",", " , ")
    text = _NODE_START.sub(r"\1:0x\2:0x\3:", text)
    for hexadecimal, grouped, plain in _NUMBER.findall(text):
        value = int(hexadecimal, 16) if hexadecimal else float((grouped or plain).replace(",", ""))
        found[float(value)] += 1
    return found


def numbers_in(value: Any) -> Counter[float]:
    """All numbers of a JSON value, those inside its texts too."""
    if isinstance(value, bool) or value is None:
        return Counter()
    if isinstance(value, (int, float)):
        return Counter([abs(float(value))])
    if isinstance(value, str):
        return numbers(value)
    found: Counter[float] = Counter()
    for entry in value.values() if isinstance(value, dict) else value:
        found += numbers_in(entry)
    return found


def ignored_lines(identity: Identity) -> set[int]:
    found: set[int] = set()
    for text in identity.ignored:
        region = _REGION.match(text)
        if region:
            found.update(range(int(region[1]), int(region[2] or region[1]) + 1))
    return found


def lost_numbers(path: Path) -> Counter[float]:
    """Numbers that stand more often in the file than in the JSON."""
    identity = identify(path)
    ignored = ignored_lines(identity)
    lines = read_lines(path)
    stamped = any(line.prefix for line in lines)
    assert not stamped or not numbers("".join(x.prefix for x in lines)) or identity.ignored
    kept = "\n".join(line.text for line in lines if line.number not in ignored)
    commas = identity.kind not in ("network_csv", "network_c")
    return numbers(kept, commas) - numbers_in(identity.summary)
