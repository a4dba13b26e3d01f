"""Damage by rule: bytes, text, JSON and TOML trees, protobuf messages, words of binary headers.

A mutator takes bytes and a seeded random source and gives other bytes; the same seed gives the
same bytes. Those that know a structure give back what they cannot parse as plain damaged bytes, so
that they can be used one after the other.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from npuscope.protobuf import BrokenMessage, fields, varint

Mutator = Callable[[bytes, Random], bytes]

EXTREMES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 1 << 24, (1 << 31) - 1, 1 << 31)
LARGE = (*EXTREMES, (1 << 32) - 1, 1 << 32, 1 << 53, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
ODD_NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 7, 255, 256, -128, 65535, 1 << 20, 1 << 31, -(1 << 31), 1 << 40, 1 << 63,
    -(1 << 63), 1 << 64, 10**30, 0.0, -0.0, 0.5, -1.5, 1e-300, 1e-45, 1e38, 1e300,
    float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
ODD_TEXTS = (
    "", " ", "x", "0", "-1", "NaN", "1e999", "0x", "../../x", "/", ".", "a\0b", "a\nb", "\x1b[2J",
    "\u202eabc", "\ud800", "é", "x" * 300, "9" * 400, "%s%n{0}", '"', "'", "*/", "<b>&", "=1+1",
    "Conv", "true", "null", "1.2.3",
)  # fmt: skip
ODD_TREES: tuple[Any, ...] = (
    None, True, False, [], {}, [[]], [None], {"": 0}, [0] * 40, {"name": 1}, [1, "a", None], [{}],
)  # fmt: skip
_TOKEN = re.compile(rb"0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\w+|\s+|.", re.DOTALL)
_NUMBER = re.compile(rb"(?:0[xX][0-9a-fA-F]+|\d[\d.eE+-]*)\Z")
_DEEP = 3000
MOST_BYTES = 1 << 20  # a case stays small, however often it doubles


def chained(mutators: Sequence[Mutator], data: bytes, rng: Random) -> bytes:
    """One to four of them, one after the other; mostly one, whose trace is plainest."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        data = rng.choice(mutators)(data, rng)[:MOST_BYTES]
    return data


# Bytes


def flip(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64)) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def splice(data: bytes, rng: Random) -> bytes:
    """A piece of the file over another place of it, or in between."""
    first, last = _span(data, rng)
    at = rng.randrange(len(data) + 1)
    over = (last - first) if rng.random() < 0.5 else 0
    return data[:at] + data[first:last] + data[at + over :]


def insert(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    piece = rng.choice((b"\0", b"\xff", b"\n", b'"', b"-", b"9", rng.randbytes(4)))
    return data[:at] + piece * rng.choice((1, 1, 4, 100)) + data[at:]


def repeat(data: bytes, rng: Random) -> bytes:
    first, last = _span(data, rng)
    return data[:first] + data[first:last] * rng.choice((0, 2, 3, 20)) + data[last:]


def word(data: bytes, rng: Random) -> bytes:
    """A number of a binary layout: an extreme one, or one beside it; most often near the start."""
    size = rng.choice((1, 2, 4, 4, 4, 8))
    if len(data) < size:
        return data
    reach = min(len(data), rng.choice((64, 256, 1024, len(data)))) - size + 1
    at = rng.randrange(reach) // size * size
    here = int.from_bytes(data[at : at + size], "little")
    value = rng.choice((*LARGE, here + 1, here - 1, here * 2, here + 4, -here)) % (1 << 8 * size)
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


def _span(data: bytes, rng: Random) -> tuple[int, int]:
    first = rng.randrange(len(data) + 1)
    return first, min(len(data), first + rng.choice((1, 4, 16, 64, 300)))


BYTES: tuple[Mutator, ...] = (flip, cut, splice, insert, repeat)
BINARY: tuple[Mutator, ...] = (*BYTES, word, word, word, word)


# Text: C, reports, tables, assembler


def lines(data: bytes, rng: Random) -> bytes:
    """Lines dropped, doubled, moved."""
    rows = data.split(b"\n")
    at, other = rng.randrange(len(rows)), rng.randrange(len(rows))
    first, last = sorted((at, other))
    last = min(last, first + rng.choice((1, 3, 10)))
    edit = rng.randrange(5)
    if edit == 0:
        del rows[first : last + 1]
    elif edit == 1:
        rows[at:at] = rows[first : last + 1]
    elif edit == 2:
        rows[at], rows[other] = rows[other], rows[at]
    elif edit == 3:
        rows[at] = rows[at] * rng.choice((2, 50))
    else:
        rows[at] = rows[at] + rows[other]
    return b"\n".join(rows)


def tokens(data: bytes, rng: Random) -> bytes:
    """Words and signs dropped, doubled, swapped, or replaced by others of the file."""
    found = _TOKEN.findall(data)
    if not found:
        return data
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, other = rng.randrange(len(found)), rng.randrange(len(found))
        edit = rng.randrange(5)
        if edit == 0:
            found[at] = b""
        elif edit == 1:
            found[at] *= rng.choice((2, 2, 200))
        elif edit == 2:
            found[at], found[other] = found[other], found[at]
        elif edit == 3:
            found[at] = found[other]
        else:
            found[at] = _as_bytes(rng.choice(ODD_TEXTS))
    return b"".join(found)


def numbers(data: bytes, rng: Random) -> bytes:
    """Numbers of a text replaced by odd ones."""
    found = _TOKEN.findall(data)
    places = [i for i, token in enumerate(found) if _NUMBER.match(token)]
    for _ in range(rng.choice((1, 1, 2, 6)) if places else 0):
        found[rng.choice(places)] = _odd_number_text(rng)
    return b"".join(found)


def _odd_number_text(rng: Random) -> bytes:
    if rng.random() < 0.3:
        return f"0x{rng.choice(LARGE):x}".encode()
    return rng.choice((*map(str, ODD_NUMBERS), "9" * 400, "1e", "1.2.3", "0b1", "08")).encode()


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


TEXT: tuple[Mutator, ...] = (*BYTES, *(lines, tokens, numbers, numbers) * 3)


# Trees: JSON, TOML, and whatever else is lists, tables and values


def json_tree(data: bytes, rng: Random) -> bytes:
    """A JSON file with other values, keys and shapes; still JSON, apart from NaN at times."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return rng.choice(BYTES)(data, rng)
    if rng.random() < 0.01:
        return b"[" * _DEEP + b"]" * _DEEP
    changed = _several(tree, rng)
    try:
        # As our own writers set it: `"schema": "..."` must stay near the beginning.
        return json.dumps(changed, indent=1).encode()
    except (ValueError, RecursionError):
        return data


def json_lines(data: bytes, rng: Random) -> bytes:
    """One line of a file of JSON lines."""
    rows = data.split(b"\n")
    at = rng.randrange(len(rows))
    try:
        changed = _several(json.loads(rows[at]), rng)
        rows[at] = json.dumps(changed, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        rows[at] = rng.choice(BYTES)(rows[at], rng)
    return b"\n".join(rows)


def toml_tree(data: bytes, rng: Random) -> bytes:
    try:
        tree = tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        return rng.choice(BYTES)(data, rng)
    changed = _several(tree, rng)
    return toml_text(changed) if isinstance(changed, dict) else data


def toml_text(tree: dict[str, Any]) -> bytes:
    """One line for each key, tables inside lines: dull to read, easy to write."""
    rows = (
        f"{_toml_key(key)} = {_toml(value)}" for key, value in tree.items() if value is not None
    )
    return _as_bytes("".join(f"{row}\n" for row in rows))


def _toml_key(key: Any) -> str:
    return json.dumps(str(key), ensure_ascii=True)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        rows = (f"{_toml_key(k)} = {_toml(v)}" for k, v in value.items() if v is not None)
        return "{" + ", ".join(rows) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value if item is not None) + "]"
    if isinstance(value, (bool, str)):
        return json.dumps(value)
    return str(value)


def _several(tree: Any, rng: Random) -> Any:
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        tree = odd_tree(tree, rng)
    return tree


def odd_tree(tree: Any, rng: Random) -> Any:
    """The tree with one place changed; the tree itself stays as it is."""
    holder = [copy.deepcopy(tree)]
    node, key = _place(holder, rng)
    edit = rng.randrange(8)
    if edit == 0 and isinstance(node, dict):
        node[rng.choice((*ODD_TEXTS, *_keys(tree)))] = node.pop(key)
    elif edit == 1 and node is not holder:
        del node[key]
    elif edit == 2 and isinstance(node, list) and node is not holder:
        node.insert(rng.randrange(len(node) + 1), copy.deepcopy(node[key]))
    elif edit == 3:
        other, place = _place(holder, rng)
        other[place] = copy.deepcopy(node[key])
    elif edit == 4 and isinstance(node[key], list):
        rng.shuffle(node[key])
    else:
        node[key] = odd_value(node[key], rng)
    return holder[0]


def odd_value(value: Any, rng: Random) -> Any:
    """Mostly of the same type: a wrong type is found soon, a wrong number late."""
    if rng.random() < 0.2:
        return copy.deepcopy(rng.choice((*ODD_TREES, *ODD_TEXTS, *ODD_NUMBERS)))
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        near = (value + 1, value - 1, -value, value * 2, value * 1000)
        return rng.choice((*ODD_NUMBERS, *near))
    if isinstance(value, str):
        numeric = re.fullmatch(r"0x[0-9a-fA-F]+|\d+", value) and rng.random() < 0.5
        return str(rng.choice(ODD_NUMBERS)) if numeric else rng.choice(ODD_TEXTS)
    return copy.deepcopy(rng.choice(ODD_TREES))


def _place(holder: list[Any], rng: Random) -> tuple[Any, Any]:
    """A container and a key of it, deep ones as likely as those near the root."""
    node, key = holder, 0
    while isinstance(node[key], (dict, list)) and node[key] and rng.random() < 0.88:
        node = node[key]
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
    return node, key


def _keys(tree: Any) -> list[str]:
    return list(tree) if isinstance(tree, dict) else []


JSON: tuple[Mutator, ...] = (*BYTES, *(json_tree,) * 12)
JSON_LINES: tuple[Mutator, ...] = (*BYTES, *(json_lines,) * 8, lines)
TOML: tuple[Mutator, ...] = (*BYTES, *(toml_tree,) * 9, tokens, numbers)


# Protobuf messages of any schema


def protobuf(data: bytes, rng: Random) -> bytes:
    """Fields dropped, doubled, moved, with other numbers; messages inside messages too."""
    try:
        rows = [(number, value) for number, value, _ in fields(data)]
    except BrokenMessage:
        return rng.choice(BINARY)(data, rng)
    if not rows:
        return rng.choice((b"", b"\x08\x01", rng.randbytes(3)))
    at = rng.randrange(len(rows))
    number, value = rows[at]
    edit = rng.randrange(7)
    if edit == 0:
        del rows[at]
    elif edit == 1:
        rows.insert(rng.randrange(len(rows) + 1), rows[at])
    elif edit == 2:
        rows[at] = (
            rng.choice((1, 2, 3, 15, 16, 1 << 20, rows[rng.randrange(len(rows))][0])),
            value,
        )
    elif isinstance(value, int):
        rows[at] = (number, rng.choice((*LARGE, value + 1, value * 2)) % (1 << 64))
    else:
        rows[at] = (number, protobuf(value, rng))
    return b"".join(_field(number, value) for number, value in rows)


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


PROTOBUF: tuple[Mutator, ...] = (*BYTES, *(protobuf,) * 9)
