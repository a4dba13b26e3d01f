"""The vendor compiler's options, and the profiles of neural_art.json that hold them: what each
means here, or why it means nothing."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from npuscope.errors import FileError, UsageError
from npuscope.machine.foreign_json import VendorNode, read_json
from npuscope.machine.model import Machine
from npuscope.machine.mpool import apply_mpool
from npuscope.machine.schema import find_fault
from npuscope.machine.set_keys import with_overrides
from npuscope.options import rows as option_rows
from npuscope.options.rows import NOT_MODELLED
from npuscope.structs import replace

# --- Vendor machine-description files (.mdesc): which units the NPU has ---

log = logging.getLogger(__name__)


class UnitInfo(Struct, frozen=True):
    """Units of one type. A port's number is that of the switch port it is connected to."""

    type: str
    count: int
    version: str
    power_mw: float
    in_ports: tuple[int, ...]
    out_ports: tuple[int, ...]


class MdescInfo(Struct, frozen=True):
    name: str
    version: str
    mpool_name: str
    nominal_mhz: float | None
    frequency_mhz: float | None
    vdd: float | None
    units: tuple[UnitInfo, ...]
    engines_by_port: tuple[int, ...]  # stream engines on memory port 0, 1, ...
    notes: tuple[str, ...] = ()

    def unit(self, kind: str) -> UnitInfo | None:
        return next((unit for unit in self.units if unit.type == kind), None)

    @property
    def counts(self) -> dict[str, int]:
        return {unit.type: unit.count for unit in self.units}


def read_mdesc(path: str | Path) -> MdescInfo:
    source = read_json(path)
    root = VendorNode(source.value, file=str(path))
    machine = root.get("machine")
    entries = tuple(machine.get("accelerators").items())
    externals = root.find("externals")
    counts: dict[int, int] = {}
    for entry in entries:
        port = _memory_port(entry)
        if entry.get("type").text() == "STRENG" and port is not None:
            counts[port] = counts.get(port, 0) + entry.get("num").whole()
    # One record a type; the file may list a type in several rows.
    options: dict[str, UnitInfo] = {}
    for entry in entries:
        unit = _unit(entry)
        unit_so_far = options.get(unit.type)
        count = unit.count + (unit_so_far.count if unit_so_far else 0)
        options[unit.type] = replace(unit_so_far or unit, count=count)
    return MdescInfo(
        name=machine.get("name").text(),
        version=_text(machine, "version"),
        mpool_name=_text(externals, "mpool_name") if externals else "",
        nominal_mhz=_number(machine, "nominal_frequency"),
        frequency_mhz=_number(machine, "frequency"),
        vdd=_number(machine, "vdd"),
        units=tuple(options.values()),
        engines_by_port=tuple(counts[port] for port in sorted(counts)),
        notes=source.notes,
    )


def apply_mdesc(machine: Machine, path: str | Path) -> Machine:
    """The machine with the unit counts of the file; types it does not use are left out."""
    info = read_mdesc(path)
    for note in info.notes:
        log.warning(note)
    counts = {kind: info.counts.get(kind, 0) for kind in machine.units}
    if not counts["CONVACC"]:  # lowering chooses how many of them a layer takes
        raise FileError("names no CONVACC unit, expected at least 1", where=str(path))
    stream = machine.stream
    if info.engines_by_port and info.engines_by_port[0]:
        stream = replace(stream, engines_per_busif=info.engines_by_port[0])
    return replace(machine, units=counts, stream=stream)


def _unit(entry: VendorNode) -> UnitInfo:
    count = entry.get("num").whole()
    if count < 0:
        raise entry.error(f"'num' must not be negative, found {count}")
    return UnitInfo(
        type=entry.get("type").text(),
        count=count,
        version=_text(entry, "version"),
        power_mw=_number(entry, "power") or 0.0,
        in_ports=_ports(entry, "inPorts"),
        out_ports=_ports(entry, "outPorts"),
    )


def _ports(entry: VendorNode, name: str) -> tuple[int, ...]:
    ports = entry.find(name)
    return tuple(port.whole() for port in ports.items()) if ports else ()


def _memory_port(entry: VendorNode) -> int | None:
    params = entry.find("params")
    for param in params.items() if params else ():
        if param.get("name").text() == "MEM_PORT":
            return param.get("val").whole()
    return None


def _text(node: VendorNode, name: str) -> str:
    entry = node.find(name)
    return entry.text() if entry else ""


def _number(node: VendorNode, name: str) -> float | None:
    entry = node.find(name)
    return entry.number() if entry else None


# --- The vendor compiler's options ---

_LEVELS = range(4)

# Options that do not affect anything modelled here, with the number of values they take: those that
# our command line accepts without effect, names of files, and the model itself.
NEUTRAL = {
    **option_rows.NEUTRAL,
    "-g": 1,
    "--network-name": 1,
    "-i": 1,
}


class VendorOptions(Struct, frozen=True):
    """A parsed option string."""

    optimization: int | None = None
    epoch_controller: bool = False
    virtual_pools: bool = False
    max_pipe: int | None = None
    mpool: str | None = None
    mdesc: str | None = None
    notes: tuple[str, ...] = ()
    single_epoch: bool = False
    alternative_schedule: bool = False
    csv_file: str = ""
    info_file: str = ""


def parse_options(text: str, where: str) -> VendorOptions:
    """An option string as profiles and reports hold it."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the options cannot be read: {error}", where=where) from None
    options = VendorOptions()
    while words:
        options = _take(options, words, where)
    return options


def _take(options: VendorOptions, words: list[str], where: str) -> VendorOptions:
    """One option off the front, with its values."""
    name, _, glued = words.pop(0).partition("=")
    if glued:
        words.insert(0, glued)
    if name == "--enable-epoch-controller":
        return replace(options, epoch_controller=True)
    if name == "--enable-virtual-mem-pools":
        return replace(options, virtual_pools=True)
    if name == "--ec-single-epoch":
        return replace(options, single_epoch=True)
    if name == "--Oalt-sched":
        return replace(options, alternative_schedule=True)
    if name == "--csv-file":
        return replace(options, csv_file=_value(name, words, where))
    if name == "--output-info-file":
        return replace(options, info_file=_value(name, words, where))
    if name == "--optimization":
        return replace(options, optimization=_level(_value(name, words, where), where))
    if name.startswith("-O") and name[2:].isdecimal():
        return replace(options, optimization=_level(name[2:], where))
    if name == "--Omax-ca-pipe":
        return replace(options, max_pipe=_whole(name, _value(name, words, where), where))
    if name == "--load-mpool":
        return replace(options, mpool=_value(name, words, where))
    if name == "--load-mdesc":
        return replace(options, mdesc=_value(name, words, where))
    if name in NEUTRAL:
        for _ in range(NEUTRAL[name]):
            _value(name, words, where)
        return options
    reason = NOT_MODELLED.get(name, "it is unknown")
    if name not in NOT_MODELLED and words and not words[0].startswith("-"):
        words.pop(0)
    return replace(options, notes=(*options.notes, f"{where}: option {name} is ignored: {reason}"))


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


def unknown_keys(keys: Sequence[str], names: Sequence[str], place: str) -> tuple[str, ...]:
    """A warning like the vendor's, for profile keys that have no effect (any more)."""
    odd = [key for key in keys if key not in names]
    renamed = "; 'memory_desc' was renamed, use 'machine_desc'" if "memory_desc" in odd else ""
    return (f"{place}: keys {', '.join(odd)} are ignored{renamed}",) if odd else ()


# --- Profiles of neural_art.json: pools, machine description and compiler options ---


_KEYS = ("memory_pool", "machine_desc", "options")


class ArtProfile(Struct, frozen=True):
    """One profile of a file; paths are resolved against the file's folder."""

    name: str
    file: str
    memory_pool: Path | None
    machine_desc: Path | None
    options: VendorOptions
    notes: tuple[str, ...]
    without: tuple[str, ...] = ()  # pools that it does not use


# Profiles that the vendor's front end takes by name alone, without their files: the options they
# were published with, and the pools that they leave out. Nothing at all is the usual machine.
_USUAL = VendorOptions(virtual_pools=True, max_pipe=4)
_BY_NAME: dict[str, tuple[VendorOptions, tuple[str, ...]]] = {
    "default": (replace(_USUAL, epoch_controller=True), ()),
    "n6-noextmem": (replace(_USUAL, optimization=3), ("octoFlash", "hyperRAM")),
    "n6-extflash": (replace(_USUAL, optimization=3), ("hyperRAM",)),
    "n6-extram": (replace(_USUAL, optimization=3), ("octoFlash",)),
    "n6-allmems-O1": (replace(_USUAL, optimization=1), ()),
    "n6-allmems-O2": (replace(_USUAL, optimization=2), ()),
    "n6-allmems-O3": (replace(_USUAL, optimization=3, epoch_controller=True), ()),
}


def read_art_profile(text: str) -> ArtProfile:
    """NAME@FILE, a FILE that holds a single profile, or the NAME of a usual one."""
    name, at, file = text.rpartition("@")
    if not at and text in _BY_NAME and not Path(text).exists():
        usual, without = _BY_NAME[text]
        return ArtProfile(text, "", None, None, usual, (), without)
    source = read_json(file)
    profiles = VendorNode(source.value, file=file).get("Profiles")
    names = [str(key) for key in profiles.value] if isinstance(profiles.value, dict) else []
    if not at and len(names) == 1:
        name = names[0]
    entry = profiles.find(name)
    if entry is None:
        choices = ", ".join(names) or "none"
        raise UsageError(
            f"'{file}' has no profile '{name}'; it has {choices}",
            where="--art-profile",
            hint=f"give NAME@FILE, or one of {', '.join(_BY_NAME)}",
        )
    place = f"{entry.file}: profile {name}"
    options = entry.find("options")
    parsed = parse_options(options.text() if options else "", place)
    keys = unknown_keys(list(entry.value), _KEYS, place)
    profile = ArtProfile(
        name,
        entry.file,
        _path(entry, "memory_pool"),
        _path(entry, "machine_desc"),
        parsed,
        (*keys, *parsed.notes),
    )
    return replace(profile, notes=(*source.notes, *profile.notes))


def _path(entry: VendorNode, key: str) -> Path | None:
    entry_path = entry.find(key)
    return Path(entry.file).parent / entry_path.text() if entry_path else None


def apply_art_profile(machine: Machine, profile: ArtProfile) -> Machine:
    """The machine with the profile's pools, units and limits."""
    for note in profile.notes:
        log.warning(note)
    if profile.machine_desc:
        machine = apply_mdesc(machine, profile.machine_desc)
    if profile.memory_pool:
        machine = apply_mpool(machine, profile.memory_pool)
    if profile.without:
        off = {f"pools.{name}.size_kib": 0 for name in profile.without}
        machine = with_overrides(machine, off)
    machine = with_vendor_options(machine, profile.options)
    fault = find_fault(machine)
    if fault is not None:
        place = f"{profile.file}: profile {profile.name}"
        raise FileError(f"{fault.path}: {fault.message}", where=place)
    return machine
