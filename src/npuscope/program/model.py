"""Program: what the device executes. Pools, buffers, and epochs of unit configurations."""

from __future__ import annotations

import re
from collections import Counter
from enum import Enum
from pathlib import Path
from string import Template

import numpy as np
from msgspec import Struct, field

from npuscope.errors import FileError, InternalError
from npuscope.graph.model import Quant
from npuscope.program.stated import StatedUnits
from npuscope.program.units import Link, Streng, Unit
from npuscope.shown import Rows, ShownRecord
from npuscope.structs import Apart
from npuscope.text import safe_terminal

LISTS_ALL_EPOCHS = "2."  # generations whose reports give every number of an epoch a line


class EpochKind(Enum):
    HW = "HW"  # units of the NPU
    SW = "SW"  # a kernel on the host CPU
    HYBRID = "HYBRID"  # a library call that drives the NPU's DMA
    EMPTY = "EMPTY"  # has a number, but does nothing


class Pool(Struct, frozen=True):
    """A memory range, as this program sees it."""

    name: str
    address: int
    size_bytes: int
    byte_width: int
    freq_ratio: float
    writable: bool = True
    cacheable: bool = False
    score: int = 0
    subpools: tuple[str, ...] = ()
    file_name: str = ""
    used_bytes: int = 0
    relative: bool = False  # its address is set when the image is loaded; `address` is a proposal

    @property
    def virtual(self) -> bool:
        return bool(self.subpools)


class Buffer(Struct, frozen=True):
    """Bytes in a pool with a logical view: (N, H, W, C), element width, channel blocking.

    `batch` is the number of channels stored together: C for channel-last, 1 for channel-first,
    in between for blocks of channels, each block channel-last. `first` and `last` are the
    epochs it lives in, both included. A view (reshape) names the buffer it lies in.
    """

    name: str
    size_bytes: int
    shape: tuple[int, ...]
    nbits: int
    batch: int
    pool: str = ""
    offset: int = 0
    first: int = 0
    last: int = 0
    is_param: bool = False
    is_float: bool = False
    signed: bool = True
    quant: Quant | None = None
    tensor: str = ""
    view_of: str = ""
    block: str = ""  # buffers of one block lie side by side
    coefficients: bool = False  # vectors the CPU writes into units: not counted as weights

    @property
    def channels(self) -> int:
        return self.shape[-1]

    def placed(self, pool: str, offset: int) -> Buffer:
        return self._with(pool, offset, self.first, self.last)

    def living(self, first: int, last: int) -> Buffer:
        return self._with(self.pool, self.offset, first, last)

    def _with(self, pool: str, offset: int, first: int, last: int) -> Buffer:
        """Written out: every buffer comes here twice, and `replace` takes three times as long."""
        return Buffer(
            self.name,
            self.size_bytes,
            self.shape,
            self.nbits,
            self.batch,
            pool,
            offset,
            first,
            last,
            self.is_param,
            self.is_float,
            self.signed,
            self.quant,
            self.tensor,
            self.view_of,
            self.block,
            self.coefficients,
        )


class Group(Struct, frozen=True, dict=True):
    """Units configured and started together, with the switch links between them."""

    units: tuple[Unit, ...]
    links: tuple[Link, ...]


Argument = bool | int | float | str | tuple[int, ...]


class Call(Struct, frozen=True):
    """A software kernel: its name, buffers, and scalar arguments."""

    kernel: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    args: tuple[tuple[str, Argument], ...] = ()

    def arg(self, name: str) -> Argument:
        return dict(self.args)[name]


class Access(Struct, frozen=True):
    """What a compiler states an epoch moves in one pool: bytes, and its own cycle terms."""

    pool: str
    reads: int = 0
    writes: int = 0
    read_cycles: float = 0.0
    write_cycles: float = 0.0


class Claims(Struct, frozen=True):
    """The compiler's own estimate of an epoch, kept as it stated it."""

    ops: int = 0
    compute_cycles: int = 0
    max_cycles: int = 0
    accesses: tuple[Access, ...] = ()


class Evidence(Struct, frozen=True):
    """Values by name, and the words that tell them: "axis $axis of $rank dimensions"."""

    words: str = ""
    values: tuple[tuple[str, Argument], ...] = ()

    def value(self, name: str) -> Argument | None:
        return dict(self.values).get(name)

    def __str__(self) -> str:
        # Words may come from a file: a Template, unlike a format, reaches nothing but its values.
        return Template(self.words).safe_substitute(dict(self.values))


def evidence(words: str, **values: Argument) -> Evidence:
    return Evidence(words, tuple(values.items()))


class Refused(Struct, frozen=True):
    """A way of running an op that a rule refused before the chosen one.

    `sentence` is the rule's own, kept so that a program tells its reasons to versions that lack the
    rule; empty where `found` says it all.
    """

    way: str
    rule: str
    sentence: str = ""
    found: Evidence = Evidence()
    limit: Argument | None = None

    @property
    def reason(self) -> str:
        """What users read."""
        evidence = str(self.found) if self.limit is None else f"{self.found}, limit {self.limit}"
        return (
            f"{self.sentence} ({evidence})"
            if self.sentence and evidence
            else self.sentence or evidence
        )


class Epoch(Struct, frozen=True):
    """One step of execution. `groups` is None when the source has no unit registers."""

    number: int
    last_number: int
    kind: EpochKind
    operators: tuple[str, ...] = ()  # hardware operators in it: "Conv", "Mul", "Softmax", ...
    origin: tuple[str, ...] = ()
    blob: int | None = None
    groups: tuple[Group, ...] | None = ()
    call: Call | None = None
    claims: Claims = Claims()
    trail: tuple[Refused, ...] = ()

    @property
    def name(self) -> str:
        if self.number == self.last_number:
            return f"EpochBlock_{self.number}"
        return f"EpochBlock_{self.number} -> {self.last_number}"

    @property
    def units(self) -> tuple[Unit, ...]:
        groups = self.groups or ()
        if len(groups) == 1:  # as most epochs of the NPU have it
            return groups[0].units
        return tuple(unit for group in groups for unit in group.units)


class Program(ShownRecord, Apart, frozen=True):
    """The whole: made by a compiler (ours or another), run by simulator and boards.

    `constants` holds the bytes of parameter buffers by buffer name.
    """

    apart = ("constants",)

    name: str
    machine: str
    generation: str
    epoch_controller: bool
    pools: tuple[Pool, ...]
    buffers: tuple[Buffer, ...]
    epochs: tuple[Epoch, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    model_file: str = ""
    model_md5: str = ""
    source: str = "npuscope"
    notes: tuple[str, ...] = ()
    # What its compiler was called with, as a foreign file states it.
    compiler_options: tuple[tuple[str, str], ...] = ()
    stated_units: tuple[StatedUnits, ...] = ()  # of epochs whose `groups` is None
    macs: int = 0  # of the network it was compiled from, with `params`; 0 where no source has them
    params: int = 0
    # Where the files that it was read from do not agree: no board does what all of them say.
    contradictions: tuple[str, ...] = ()

    def pool(self, name: str) -> Pool:
        return next(pool for pool in self.pools if pool.name == name)

    def buffer_map(self) -> dict[str, Buffer]:
        return {buffer.name: buffer for buffer in self.buffers}

    def pool_map(self) -> dict[str, Pool]:
        return {pool.name: pool for pool in self.pools}

    def missing_weights(self) -> tuple[Pool, ...]:
        """Pools with parameters of which no bytes are known."""
        names = {
            buffer.pool
            for buffer in self.buffers
            if buffer.is_param
            and buffer.size_bytes
            and not buffer.view_of
            and buffer.name not in self.constants
        }
        return tuple(pool for pool in self.pools if pool.name in names)

    @property
    def executed(self) -> tuple[Epoch, ...]:
        """Epochs that do something; the empty ones only keep a number."""
        return tuple(epoch for epoch in self.epochs if epoch.kind is not EpochKind.EMPTY)

    def unit_counts(self, epoch: Epoch) -> dict[str, int]:
        """Units that an epoch uses by type, from its registers or else as its source states."""
        stated = self._stated(epoch)
        if stated is None:
            return dict(Counter(unit.unit for unit in epoch.units))
        return dict(Counter(stated.units)) | {Streng.unit: stated.reads + stated.writes}

    def streams(self, epoch: Epoch) -> tuple[int, int]:
        """Stream engines that read memory for an epoch, and those that write it."""
        stated = self._stated(epoch)
        if stated is not None:
            return stated.reads, stated.writes
        writes = [bool(unit.dir) for unit in epoch.units if isinstance(unit, Streng)]
        return writes.count(False), writes.count(True)

    def _stated(self, epoch: Epoch) -> StatedUnits | None:
        if epoch.groups is not None:
            return None
        return next((one for one in self.stated_units if one.epoch == epoch.number), None)

    def count(self, kind: EpochKind) -> int:
        return sum(1 for epoch in self.epochs if epoch.kind is kind)

    @property
    def tally(self) -> dict[str, int]:
        """Epochs by kind, as the reports of its compiler count them: those of 2.x take every number
        that is not the CPU's for an epoch of the NPU, also where it has no work."""
        kinds = (EpochKind.HW, EpochKind.SW, EpochKind.HYBRID)
        counts = {kind.value: self.count(kind) for kind in kinds}
        if self.generation.startswith(LISTS_ALL_EPOCHS):
            last = max((epoch.last_number for epoch in self.epochs), default=0)
            counts[EpochKind.HW.value] = (
                last - self.count(EpochKind.SW) - self.count(EpochKind.HYBRID)
            )
        return counts

    def told(self) -> str:
        kinds = ", ".join(
            f"{self.count(kind)} {kind.value}" for kind in EpochKind if self.count(kind)
        )
        return (
            f"{self.name} for {self.machine}, generation {self.generation}: {kinds or 'no epochs'}"
        )

    def table(self) -> Rows:
        """One row per epoch."""
        return [
            {
                "epoch": epoch.number,
                "kind": epoch.kind.value,
                "blob": epoch.blob,
                "ops": list(epoch.operators),
                "origin": list(epoch.origin),
            }
            for epoch in self.executed
        ]

    def save(self, directory: str | Path) -> None:
        """program.json and the images of its pools, in a folder; `npuscope.load` reads it."""
        save(self, directory)


# --- As files; `serialize` describes and reads them ---

SCHEMA = "npuscope/program/1"
JSON_NAME = "program.json"
_POOL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def save(program: Program, directory: Path | str) -> Path:
    """Write program.json and <pool>.raw: all of them, or none."""
    from npuscope.whole_file import write_files

    folder = Path(directory)
    files = {image_name(pool, str(folder)): image for pool, image in images(program).items()}
    # Last, so that a program never names images that are not there yet.
    write_files(folder, {**files, JSON_NAME: to_json(program)})
    return folder / JSON_NAME


def to_json(program: Program, image_sha256: str = "") -> bytes:
    """The program without its constants' bytes; those are in `images`. Beside a loadable image it
    states the digest of that image."""
    import orjson

    from npuscope.records import encode

    # Compilers leave NumPy integers in some fields.
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    sizes = {name: _raw(data).size for name, data in program.constants.items()}
    record = {"schema": SCHEMA, **encode(program), "constants": sizes}
    if image_sha256:
        record["image_sha256"] = image_sha256
    for epoch, row in zip(program.epochs, record["epochs"], strict=True):
        for refused, entry in zip(epoch.trail, row.get("trail", ()), strict=True):
            entry["reason"] = refused.reason
    return orjson.dumps(record, option=options)


def images(program: Program) -> dict[str, bytes]:
    """Pool name -> its constants in place, from the pool's first byte to the last constant."""
    buffers = program.buffer_map()
    ends: dict[str, int] = {}
    for name, data in program.constants.items():
        buffer = _fitting(buffers[name], _raw(data).size)
        ends[buffer.pool] = max(ends.get(buffer.pool, 0), buffer.offset + _raw(data).size)
    result = {pool: np.zeros(end, np.uint8) for pool, end in ends.items()}
    for name, data in program.constants.items():
        start = buffers[name].offset
        result[buffers[name].pool][start : start + _raw(data).size] = _raw(data)
    return {pool: image.tobytes() for pool, image in result.items()}


def _raw(data: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)


def _fitting(buffer: Buffer, size: int) -> Buffer:
    if size > buffer.size_bytes or buffer.offset < 0:
        raise InternalError(
            f"constant '{buffer.name}' has {size} bytes, but its buffer {buffer.size_bytes}"
        )
    return buffer


def image_name(pool: str, where: str) -> str:
    """Pool names come from files: only plain ones become file names."""
    if not _POOL_NAME.fullmatch(pool):
        raise FileError(f"pool name '{safe_terminal(pool)}' cannot be a file name", where=where)
    return f"{pool}.raw"
