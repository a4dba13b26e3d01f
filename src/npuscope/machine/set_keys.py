"""What-if values: `--set clocks.npu_mhz=800` replaces one value of a machine, or of a plain
table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args, get_origin

from msgspec import Struct

from npuscope.bounded_file import MACHINE, parse_toml, read_text
from npuscope.errors import FileError, UsageError
from npuscope.machine.marks import KeyEffect
from npuscope.machine.model import Machine, MemoryPool
from npuscope.machine.schema import UNRANGED, find_fault
from npuscope.plain_data import WORDS, shown
from npuscope.records import decode, hints_of, unwrapped
from npuscope.structs import replace

# --- Keys of a machine: every settable value by its path in the TOML, with its mark ---

# Sizes of pools are KiB in the TOML and bytes in the record.
_KIB = 1024


class Key(Struct, frozen=True):
    """One settable value: its path, its present value, and what changing it requires."""

    place: tuple[str, ...]
    kind: Any  # its annotation
    value: Any
    effect: KeyEffect

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
        if isinstance(value, Struct):
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
def _fields(kind: type[Struct]) -> tuple[tuple[str, Any, KeyEffect | None], ...]:
    """(name, annotation, mark) of a record's fields; the mark is None where users cannot set it."""
    hints = hints_of(kind)
    return tuple((name, *_marked(hints[name])) for name in kind.__struct_fields__)


def _marked(hint: Any) -> tuple[Any, KeyEffect | None]:
    kind, notes = unwrapped(hint)
    return kind, next((note for note in notes if isinstance(note, KeyEffect)), None)


def _holds_records(value: object) -> bool:
    """A list or table whose entries are records themselves."""
    if isinstance(value, dict):
        return any(isinstance(entry, Struct) for entry in value.values())
    return isinstance(value, tuple) and any(isinstance(entry, Struct) for entry in value)


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


def same_mapping(one: Machine, other: Machine) -> bool:
    """They differ in timing keys alone: a Program for one is a Program for the other."""
    for name in one.__struct_fields__:
        if getattr(one, name) == getattr(other, name):
            continue
        keys = machine_keys(one, name)
        for key in machine_keys(other, name).values():
            was = keys.get(key.name)
            if key.effect is KeyEffect.TIMING and was is not None and was.value != key.value:
                other = with_value(other, key, was.value)
        if getattr(one, name) != getattr(other, name):
            return False
    return True


# --- Comments in the TOML: the meaning of each key, and in brackets the source ---

_SECTION = re.compile(r"\[{1,2}([^\]#]+)\]{1,2}\s*(?:#\s*(.*))?$")
_ENTRY = re.compile(r"(\w+)\s*=\s*([^#]*?)\s*(?:#\s*(.*))?$")
_MORE = re.compile(r"\s+#\s*(.*)$")  # a comment that continues on the next line


def key_notes(path: Path, machine: Machine) -> dict[str, str]:
    """The comment on every key of a machine, or else on the table that holds it."""
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
    """Where a key may be defined: a generation may inherit it from another."""
    if key.place[0] != "generation":
        yield key.name
        return
    name: str | None = generation
    while name:
        yield ".".join(("generations", name, *key.place[1:]))
        name = generations.get(name, {}).get("like")


# --- What-if values in plain tables, and the spelling of keys ---

# Common names -> path in the TOML.
ALIASES = {
    "npu.clock_mhz": "clocks.npu_mhz",
    "mcu.clock_mhz": "clocks.mcu_mhz",
    "noc.clock_mhz": "clocks.noc_mhz",
    "nic.clock_mhz": "clocks.nic_mhz",
    "xspi.clock_mhz": "clocks.xspi_mhz",
}


def apply_overrides(table: dict[str, Any], overrides: Mapping[str, object]) -> None:
    """Replace single values of `table` in place; keys are dotted TOML paths."""
    for key, value in overrides.items():
        places = leaves(table)
        name = canonical(key)
        if name not in places:
            raise unknown_key(key, name, places)
        owner, last = places[name]
        old = owner[last]
        if isinstance(old, list):
            owner[last] = same_list(key, type(old[0]) if old else str, value)
        else:
            kind = type(old)
            # An integer in the TOML may be meant as a float, so the record's type decides.
            if kind is int and isinstance(value, float):
                kind = float
            owner[last] = _converted(key, kind, value)


def leaves(table: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Dotted path -> (the table or list that holds the value, its key there).

    Entries of a list of tables are addressed by name: `pools.npuRAM5.size_kib`.
    """
    places: dict[str, tuple[Any, Any]] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            places.update({f"{key}.{path}": place for path, place in leaves(value).items()})
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            items = {str(item.get("name", i)): item for i, item in enumerate(value)}
            places.update({f"{key}.{path}": place for path, place in leaves(items).items()})
        else:
            places[key] = (table, key)
    return places


def canonical(key: str) -> str:
    """The TOML path of a key as a user wrote it."""
    name = key.removeprefix("machine.")
    return ALIASES.get(name, name)


def unknown_key(key: str, name: str, places: Mapping[str, object]) -> UsageError:
    """The error for an unknown key, with the nearest known ones."""
    # Short names of values that this machine has.
    names = [*places, *(alias for alias, path in ALIASES.items() if path in places)]
    import difflib

    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    last = name.rpartition(".")[2]
    near += [path for path in names if path.rpartition(".")[2] == last and path not in near][:3]
    hint = f"nearest: {', '.join(near)}" if near else "keys are paths of the machine's TOML"
    return UsageError(f"the machine has no key '{key}'", where="--set", hint=hint)


def _converted(key: str, kind: type, new: object) -> object:
    try:
        converted: object = decode(new, kind, key, UNRANGED)
        return converted
    except FileError as error:
        raise UsageError(error.message, where=f"--set {key}") from None


def same_list(key: str, kind: type, new: object) -> list[object]:
    """A list whose entries all have one type."""
    if isinstance(new, list | tuple) and all(type(item) is kind for item in new):
        return list(new)
    raise UsageError(
        f"expected a list, each {WORDS[kind]}, found {shown(new)}", where=f"--set {key}"
    )


# --- What-if values of a machine: `--set clocks.npu_mhz=800` ---


class KeyChange(Struct, frozen=True):
    """One key with another value."""

    key: str
    old: Any
    new: Any
    effect: KeyEffect

    @property
    def remaps(self) -> bool:
        """True if a compiled Program no longer fits the machine."""
        return self.effect is KeyEffect.MAPPING and self.old != self.new


def changes_of(machine: Machine, overrides: Mapping[str, object]) -> tuple[KeyChange, ...]:
    """What the overrides change, each key once, by its name in the TOML."""
    keys = found_keys(machine, overrides)
    by_name = {
        key.name: KeyChange(
            key.name, key.value, _key_type(name, key.kind, overrides[name]), key.effect
        )
        for name, key in keys.items()
    }
    return tuple(by_name.values())


def with_overrides(machine: Machine, overrides: Mapping[str, object]) -> Machine:
    """The machine with single values replaced; keys are dotted TOML paths or aliases."""
    for key, place in found_keys(machine, overrides).items():
        machine = with_value(machine, place, _key_type(key, place.kind, overrides[key]))
    fault = find_fault(machine) if overrides else None
    if fault is not None:
        raise UsageError(fault.message, where=f"--set {fault.path}")
    return machine


def found_keys(machine: Machine, names: Iterable[str]) -> dict[str, Key]:
    """The machine's keys by the names that a user gave them."""
    keys = {}
    for name in names:
        place = canonical(name)
        key = machine_keys(machine, place.partition(".")[0]).get(place)
        if key is None:
            raise unknown_key(name, place, machine_keys(machine))
        keys[name] = key
    return keys


def _key_type(key: str, kind: Any, new: object) -> object:
    if get_origin(kind) is tuple:
        return tuple(same_list(key, unwrapped(get_args(kind)[0])[0], new))
    return _converted(key, kind, new)
