"""The vendor compiler's options, and the profiles of neural_art.json that hold them: what each
means here, or why it means nothing."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from npuscope import option_rows
from npuscope.errors import FileError, UsageError
from npuscope.machine.foreign_json import Node, read_json
from npuscope.machine.mdesc import apply_mdesc
from npuscope.machine.model import Machine
from npuscope.machine.mpool import apply_mpool
from npuscope.machine.schema import find_fault
from npuscope.option_rows import NOT_MODELLED

# The vendor compiler's options: what each means here, or why it means nothing.

_LEVELS = range(4)

# Options without an influence on what is modelled, with the number of values they take: those that
# our command line accepts for nothing, names of files, and the model itself.
NEUTRAL = {
    **option_rows.NEUTRAL,
    "--csv-file": 1,
    "--ec-single-epoch": 0,
    "--output-info-file": 1,
    "-g": 1,
    "--network-name": 1,
    "-i": 1,
}


@dataclass(frozen=True, slots=True)
class VendorOptions:
    """An option string, understood."""

    optimization: int | None = None
    epoch_controller: bool = False
    virtual_pools: bool = False
    max_pipe: int | None = None
    mpool: str | None = None
    mdesc: str | None = None
    notes: tuple[str, ...] = ()


def parse_options(text: str, where: str) -> VendorOptions:
    """An option string as profiles and reports hold it."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the options cannot be read: {error}", where=where) from None
    found = VendorOptions()
    while words:
        found = _take(found, words, where)
    return found


def _take(found: VendorOptions, words: list[str], where: str) -> VendorOptions:
    """One option off the front, with its values."""
    name, _, glued = words.pop(0).partition("=")
    if glued:
        words.insert(0, glued)
    if name == "--enable-epoch-controller":
        return replace(found, epoch_controller=True)
    if name == "--enable-virtual-mem-pools":
        return replace(found, virtual_pools=True)
    if name == "--optimization":
        return replace(found, optimization=_level(_value(name, words, where), where))
    if name.startswith("-O") and name[2:].isdecimal():
        return replace(found, optimization=_level(name[2:], where))
    if name == "--Omax-ca-pipe":
        return replace(found, max_pipe=_whole(name, _value(name, words, where), where))
    if name == "--load-mpool":
        return replace(found, mpool=_value(name, words, where))
    if name == "--load-mdesc":
        return replace(found, mdesc=_value(name, words, where))
    return _without_effect(found, name, words, where)


def _without_effect(found: VendorOptions, name: str, words: list[str], where: str) -> VendorOptions:
    if name in NEUTRAL:
        for _ in range(NEUTRAL[name]):
            _value(name, words, where)
        return found
    reason = NOT_MODELLED.get(name, "it is not known here")
    if name not in NOT_MODELLED and words and not words[0].startswith("-"):
        words.pop(0)
    return replace(found, notes=(*found.notes, f"{where}: option {name} is ignored: {reason}"))


def _value(name: str, words: list[str], where: str) -> str:
    if not words:
        raise UsageError(f"option {name} needs a value", where=where)
    return words.pop(0)


def _level(text: str, where: str) -> int:
    level = _whole("--optimization", text, where)
    if level not in _LEVELS:
        raise UsageError(f"optimization level {level} is not one of 0 to 3", where=where)
    return level


def _whole(name: str, text: str, where: str) -> int:
    if not text.isdecimal() or len(text) > 3:
        raise UsageError(f"option {name} needs a number, found '{text}'", where=where)
    return int(text)


def with_vendor_options(machine: Machine, options: VendorOptions) -> Machine:
    """The machine as a build with these options uses it."""
    placement = machine.placement
    if not options.virtual_pools:
        placement = replace(placement, virtual_pool=())
    convacc = machine.convacc
    if options.max_pipe is not None:
        most = machine.units["CONVACC"]
        convacc = replace(convacc, max_pipe=max(1, min(options.max_pipe, most)))
    return replace(machine, placement=placement, convacc=convacc)


def unknown_keys(keys: Sequence[str], known: Sequence[str], place: str) -> tuple[str, ...]:
    """The vendor's own warning for keys of a profile that mean nothing (any more)."""
    odd = [key for key in keys if key not in known]
    renamed = "; 'memory_desc' was renamed, use 'machine_desc'" if "memory_desc" in odd else ""
    return (f"{place}: keys {', '.join(odd)} are ignored{renamed}",) if odd else ()


# Profiles of the vendor's neural_art.json: pools, machine description and compiler options.

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
