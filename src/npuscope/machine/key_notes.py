"""What the TOML's comments say of its keys: the meaning, and in brackets the source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npuscope.bounded_file import MACHINE, parse_toml, read_text
from npuscope.machine.keys import Key, machine_keys
from npuscope.machine.model import Machine

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
