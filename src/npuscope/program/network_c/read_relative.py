"""Relative pools of network.c: their symbols, read as the addresses that the pools propose."""

from __future__ import annotations

import re

from npuscope.errors import FileError
from npuscope.program.model import Pool

_DECLARED = re.compile(r"^extern unsigned char (\w+)\[\];", re.M)


def relative_symbols(text: str, pools: tuple[Pool, ...]) -> dict[str, Pool]:
    """Symbol -> pool: the declarations stand in the order of the relative pools."""
    names = _DECLARED.findall(text)
    relative = [pool for pool in pools if pool.relative]
    if len(names) != len(relative):
        raise FileError(f"{len(relative)} pools are relative, {len(names)} symbols stand for them")
    return dict(zip(names, relative, strict=True))


def with_addresses(text: str, symbols: dict[str, Pool]) -> str:
    """The source with numbers instead of the symbols."""
    if not symbols:
        return text
    words = re.compile(r"\b(" + "|".join(map(re.escape, symbols)) + r")\b")
    return words.sub(lambda found: f"{symbols[found.group()].address:#x}UL", text)
