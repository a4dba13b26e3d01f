"""The comments in front of network.c: who made it, with which options, on which pools."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from npuscope.errors import FileError
from npuscope.program.model import Pool
from npuscope.text import safe_terminal

_OPTION = re.compile(r"^\s*\*?\s*(-{1,2}[\w-]+)\s*=\s*\"?([^\"\n]*)\"?\s*$", re.M)
_FIELD = re.compile(r'GIT_DESCRIPTION\s+"([^"]*)"')
_POOL = re.compile(r"^index=(\d+)\s+file postfix=(\S*)\s+name=(\S+)\s+offset=(\S+)")
_NUMBERS = {
    "size": re.compile(r"\bsize=(\d+)"),
    "width": re.compile(r"\bbyte width=(\d+)"),
    "ratio": re.compile(r"\bfreq ratio=([\d.]+)"),
    "score": re.compile(r"\bscore=(-?\d+)"),
}
# Addresses have 32 bits, sizes too; what is longer is damaged and would not fit 64.
_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_PLAIN = re.compile(r"-?(?=[0-9.]{1,16}$)[0-9]+\.?[0-9]*")
_NEW_DIALECT = re.compile(r"atonn-v1\.1\.([3-9]|\d\d)|STAI-[3-9]")


@dataclass(frozen=True, slots=True)
class Header:
    """What the file says of itself."""

    tool: str
    options: tuple[tuple[str, str], ...]
    pools: tuple[Pool, ...]

    @property
    def generation(self) -> str:
        """Ours is stated; atonn 1.1.3 belongs to 3.0 and 4.0, which write the same files."""
        stated = dict(self.options).get("--generation")
        if stated:
            return stated
        return "4.0" if _NEW_DIALECT.search(self.tool) else "2.2"


_POOL_COMMENT = re.compile(r"/\*\s*(index=\d+\s+file postfix=.*?)\s*\*/", re.S)


def pools_of(text: str) -> tuple[Pool, ...]:
    """The pools that comments of the source state."""
    found = (_pool(comment) for comment in _POOL_COMMENT.findall(text))
    return tuple(pool for pool in found if pool is not None)


def read_header(comments: list[str]) -> Header:
    tool = next((found[1] for text in comments if (found := _FIELD.search(text))), "")
    head = next((text for text in comments if "Command Line options" in text), "")
    options = tuple((name, value) for name, value in _OPTION.findall(head))
    pools = [pool for text in comments if (pool := _pool(text)) is not None]
    return Header(tool, options, _with_subpools(pools))


def _pool(text: str) -> Pool | None:
    found = _POOL.match(text)
    if found is None:
        return None
    _, file_name, name, offset = found.groups()
    numbers = {key: _number(pattern, text, name) for key, pattern in _NUMBERS.items()}
    return Pool(
        name,
        _address(offset, name),
        int(numbers["size"]),
        max(1, int(numbers["width"])),
        numbers["ratio"] or 1.0,
        writable="READ_ONLY" not in text,
        cacheable="cacheable=ON" in text,
        score=int(numbers["score"]),
        subpools=("?",) if " vpool " in text else (),
        file_name=file_name,
        relative="absolute_mode" not in text,
    )


def _address(offset: str, pool: str) -> int:
    """In hexadecimal; a relative pool may have words there."""
    if not offset.lower().startswith("0x"):
        return 0
    if not _ADDRESS.fullmatch(offset):
        raise _no_number(offset, pool)
    return int(offset, 16)


def _number(pattern: re.Pattern[str], text: str, pool: str) -> float:
    found = pattern.search(text)
    if found is None:
        return 0.0
    if not _PLAIN.fullmatch(found[1]):
        raise _no_number(found[1], pool)
    return float(found[1])


def _no_number(text: str, pool: str) -> FileError:
    return FileError(
        f"the comment of pool '{safe_terminal(pool)}' has '{safe_terminal(text)}' for a number",
        hint="expected at most 16 digits",
    )


def _with_subpools(pools: list[Pool]) -> tuple[Pool, ...]:
    """A virtual pool is made of the real ones in its range."""
    return tuple(replace(pool, subpools=_inside(pool, pools)) for pool in pools)


def _inside(pool: Pool, pools: list[Pool]) -> tuple[str, ...]:
    if not pool.subpools:
        return ()
    end = pool.address + pool.size_bytes
    real = (p for p in pools if not p.subpools and p.size_bytes)
    return tuple(
        p.name for p in sorted(real, key=lambda p: p.address) if pool.address <= p.address < end
    )
