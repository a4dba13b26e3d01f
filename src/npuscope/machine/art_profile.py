"""Profiles of the vendor's neural_art.json: pools, machine description and compiler options."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from npuscope.errors import FileError, UsageError
from npuscope.machine.check import find_fault
from npuscope.machine.foreign import Node
from npuscope.machine.lenient_json import read_json
from npuscope.machine.mdesc import apply_mdesc
from npuscope.machine.model import Machine
from npuscope.machine.mpool import apply_mpool
from npuscope.machine.vendor_options import (
    VendorOptions,
    parse_options,
    unknown_keys,
    with_vendor_options,
)

log = logging.getLogger(__name__)

_KEYS = ("memory_pool", "machine_desc", "options")


@dataclass(frozen=True, slots=True)
class ArtProfile:
    """One profile of a file; paths are resolved against the file's folder."""

    name: str
    file: str
    memory_pool: Path | None
    machine_desc: Path | None
    options: VendorOptions
    notes: tuple[str, ...]


def read_art_profile(text: str) -> ArtProfile:
    """NAME@FILE, or a FILE that holds a single profile."""
    name, at, file = text.rpartition("@")
    source = read_json(file)
    profiles = Node(source.value, file).get("Profiles")
    names = [str(key) for key in profiles.value] if isinstance(profiles.value, dict) else []
    if not at and len(names) == 1:
        name = names[0]
    entry = profiles.find(name)
    if entry is None:
        known = ", ".join(names) or "none"
        raise UsageError(
            f"'{file}' has no profile '{name}'; it has {known}",
            where="--art-profile",
            hint="give NAME@FILE",
        )
    found = _profile(name, entry)
    return replace(found, notes=(*source.notes, *found.notes))


def _profile(name: str, entry: Node) -> ArtProfile:
    place = f"{entry.file}: profile {name}"
    options = entry.find("options")
    parsed = parse_options(options.text() if options else "", place)
    keys = unknown_keys(list(entry.value), _KEYS, place)
    return ArtProfile(
        name,
        entry.file,
        _path(entry, "memory_pool"),
        _path(entry, "machine_desc"),
        parsed,
        (*keys, *parsed.notes),
    )


def _path(entry: Node, key: str) -> Path | None:
    found = entry.find(key)
    return Path(entry.file).parent / found.text() if found else None


def apply_art_profile(machine: Machine, profile: ArtProfile) -> Machine:
    """The machine with the profile's pools, units and limits."""
    for note in profile.notes:
        log.warning(note)
    if profile.machine_desc:
        machine = apply_mdesc(machine, profile.machine_desc)
    if profile.memory_pool:
        machine = apply_mpool(machine, profile.memory_pool)
    machine = with_vendor_options(machine, profile.options)
    fault = find_fault(machine)
    if fault is not None:
        place = f"{profile.file}: profile {profile.name}"
        raise FileError(f"{fault.path}: {fault.message}", where=place)
    return machine
