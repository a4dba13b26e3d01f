"""The keys of a machine: every settable value by its path in the TOML, what changing it asks for,
and what the TOML's comments say of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from npuscope.bounded_file import MACHINE, parse_toml, read_text
from npuscope.machine.marks import Effect
from npuscope.machine.model import Machine, MemoryPool
from npuscope.machine.schema import hints_of, unwrapped

# The keys of a machine: every settable value by its path in the TOML, with its mark.

# Sizes of pools are KiB in the TOML and bytes in the record.
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Key:
    """One settable value: where it stands, what it is now, what changing it asks for."""

    place: tuple[str, ...]
    kind: Any  # its annotation
    value: Any
    effect: Effect

    @property
    def name(self) -> str:
        return ".".join(self.place)

    @property
    def in_kib(self) -> bool:
        return self.place[0] == "pools" and self.place[-1] == "size_kib"


def machine_keys(machine: Machine, table: str = "") -> dict[str, Key]:
    """Keys by name, all or those of one table: `pools.npuRAM5.size_kib` is one of `pools`."""
    return {key.name: key for key in _keys(machine, (), table)}


def _keys(record: Any, place: tuple[str, ...], only: str = "") -> Iterator[Key]:
    for name, kind, effect in _fields(record.__class__):
        if only and name != only:
            continue
        value = getattr(record, name)
        here = (*place, name)
        if is_dataclass(value):
            yield from _keys(value, here)
        elif _holds_records(value):
            for label, entry in _entries(value):
                yield from _keys(entry, (*here, label))
        elif isinstance(value, dict) and effect is not None:
            item, _ = unwrapped(get_args(kind)[1])
            yield from (Key((*here, label), item, value[label], effect) for label in value)
        elif effect is not None:
            yield _sized(Key(here, kind, value, effect), record)


@lru_cache(maxsize=64)
def _fields(kind: type) -> tuple[tuple[str, Any, Effect | None], ...]:
    """(name, annotation, mark) of a record's fields; no mark where a user cannot set it."""
    hints = hints_of(kind)
    return tuple((field.name, *_marked(hints[field.name])) for field in fields(kind))


def _marked(hint: Any) -> tuple[Any, Effect | None]:
    kind, notes = unwrapped(hint)
    return kind, next((note for note in notes if isinstance(note, Effect)), None)


def _holds_records(value: object) -> bool:
    """A list or table whose entries are records themselves."""
    if isinstance(value, dict):
        return any(is_dataclass(entry) for entry in value.values())
    return isinstance(value, tuple) and any(is_dataclass(entry) for entry in value)


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    yield from value.items() if isinstance(value, dict) else ((pool.name, pool) for pool in value)


def _sized(key: Key, record: object) -> Key:
    if not (isinstance(record, MemoryPool) and key.place[-1] == "size_bytes"):
        return key
    whole, rest = divmod(key.value, _KIB)
    kib = key.value / _KIB if rest else whole
    return replace(key, place=(*key.place[:-1], "size_kib"), value=kib)


def with_value(machine: Machine, key: Key, value: Any) -> Machine:
    """The machine with another value at a key; the value is of the key's type already."""
    place = key.place
    if key.in_kib:
        place, value = (*place[:-1], "size_bytes"), value * _KIB
    changed: Machine = _replaced(machine, place, value)
    return changed


def _replaced(owner: Any, place: tuple[str, ...], value: Any) -> Any:
    if not place:
        return value
    head, rest = place[0], place[1:]
    if isinstance(owner, dict):
        return owner | {head: _replaced(owner[head], rest, value)}
    if isinstance(owner, tuple):
        return tuple(_replaced(e, rest, value) if e.name == head else e for e in owner)
    return replace(owner, **{head: _replaced(getattr(owner, head), rest, value)})


# What the TOML's comments say of its keys: the meaning, and in brackets the source.

_SECTION = re.compile(r"\[{1,2}([^\]#]+)\]{1,2}\s*(?:#\s*(.*))?$")
_ENTRY = re.compile(r"(\w+)\s*=\s*([^#]*?)\s*(?:#\s*(.*))?$")
_MORE = re.compile(r"\s+#\s*(.*)$")  # a comment that goes on in the next line


def key_notes(path: Path, machine: Machine) -> dict[str, str]:
    """The comment behind every key of a machine, else that behind the table it stands in."""
    text = read_text(path, MACHINE)
    comments: dict[str, str] = {}
    for place, comment in _comments(text.splitlines()):
        comments[place] = f"{comments[place]} {comment}" if place in comments else comment
    generations = parse_toml(text).get("generations", {})
    return {
        name: _nearest(_places(key, generations, machine.generation.name), comments)
        for name, key in machine_keys(machine).items()
    }


def _comments(lines: list[str]) -> Iterator[tuple[str, str]]:
    """(dotted path, comment) in the order of the file."""
    section = last = ""
    for line in lines:
        head, entry, more = _SECTION.match(line), _ENTRY.match(line), _MORE.match(line)
        if head:
            section = last = head[1].replace('"', "")
        elif entry and section == "pools" and entry[1] == "name":
            section = last = "pools." + entry[2].strip('"')
        elif entry:
            last = f"{section}.{entry[1]}" if section else entry[1]
        comment = (head and head[2]) or (entry and entry[3]) or (more and more[1])
        if comment and last:
            yield last, comment


def _nearest(places: Iterator[str], comments: Mapping[str, str]) -> str:
    for place in places:
        while place:
            if place in comments:
                return comments[place]
            place = place.rpartition(".")[0]
    return ""


def _places(key: Key, generations: Mapping[str, Any], generation: str) -> Iterator[str]:
    """Where a key may stand: a generation may have taken it over from another."""
    if key.place[0] != "generation":
        yield key.name
        return
    name: str | None = generation
    while name:
        yield ".".join(("generations", name, *key.place[1:]))
        name = generations.get(name, {}).get("like")
