"""The runtime's flow around a program: epoch blocks one after the other, with callbacks between.

A callback may set up counters of the debug unit before a block starts and read them when it has
ended, as on the board. Its own time is left out: the clocks stand still while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, IntFlag
from itertools import groupby
from types import TracebackType

from msgspec import Struct

from npuscope.boards.device import CounterOption, NodeCounters, granted
from npuscope.errors import NpuscopeError
from npuscope.machine.model import Machine
from npuscope.program.ec_blob.binary import EcBinary, write_binary
from npuscope.program.ec_blob.lower import lower
from npuscope.program.model import Epoch, EpochKind, Program
from npuscope.program.units import Streng
from npuscope.sim.counters import BEAT, BLOCK, Bursts
from npuscope.sim.debug_unit import (
    COUNTERS,
    Activity,
    DebugUnit,
    bits,
    cache_rows,
    core_activity,
    fetch_activity,
    watch_all_bursts,
    watch_clock,
    watch_engines,
    watch_envelopes,
)
from npuscope.sim.epochs import count_epochs
from npuscope.structs import replace


class RuntimeEvent(Enum):
    """The stack comes up or goes down: the moment to clock the debug unit."""

    RT_INIT = 6
    RT_DEINIT = 7


class EpochEvent(Enum):
    """Around a block: pre phase, core phase and post phase lie between two events."""

    PRE_START = 0
    POST_START = 1
    PRE_END = 2
    POST_END = 3


class BlockFlag(IntFlag):
    EPOCH_START = 1
    EPOCH_END = 2
    BLOB = 4
    LAST_BLOCK = 8
    PURE_HW = 0x10
    PURE_SW = 0x20
    HYBRID = 0x40
    INTERNAL = 0x80
    BLOB_ENCRYPTED = 0x100


_WHOLE = BlockFlag.EPOCH_START | BlockFlag.EPOCH_END
_KIND_FLAGS = {
    EpochKind.HW: BlockFlag.PURE_HW,
    EpochKind.SW: BlockFlag.PURE_SW,
    EpochKind.HYBRID: BlockFlag.HYBRID,
}
# Which interface the epoch controller fetches by is not documented.
FETCH_BUSIF = 0


class EpochBlock(Struct, frozen=True):
    """What the runtime starts and waits for: one epoch, or a blob of many (a meta epoch).

    `blob_bytes` is an estimate, made only where fetches are counted; `note` tells when a
    blob's size is not known.
    """

    number: int
    last_number: int
    kind: EpochKind
    flags: BlockFlag
    in_mask: int
    out_mask: int
    blob: int | None = None
    blob_bytes: int = 0
    note: str = ""

    @property
    def name(self) -> str:
        return Epoch(self.number, self.last_number, self.kind).name

    @property
    def engines(self) -> int:
        """Stream engines in use; one that works both ways counts twice."""
        return self.in_mask.bit_count() + self.out_mask.bit_count()


RuntimeCallback = Callable[[RuntimeEvent, DebugUnit], None]
EpochCallback = Callable[[EpochEvent, DebugUnit, EpochBlock], None]


def epoch_blocks(program: Program) -> tuple[EpochBlock, ...]:
    """Blocks in the order of execution; the epochs of one blob are one block."""
    return tuple(_block(epochs) for epochs in _by_block(program))


def _by_block(program: Program) -> list[tuple[Epoch, ...]]:
    keyed = enumerate(program.executed)
    # An epoch that the CPU starts stands alone.
    groups = groupby(keyed, lambda row: ("alone", row[0]) if row[1].blob is None else row[1].blob)
    return [tuple(epoch for _, epoch in rows) for _, rows in groups]


def _block(epochs: tuple[Epoch, ...]) -> EpochBlock:
    first, last = epochs[0], epochs[-1]
    flags = _WHOLE | _KIND_FLAGS[first.kind]
    return EpochBlock(
        first.number,
        last.last_number,
        first.kind,
        flags if first.blob is None else flags | BlockFlag.BLOB,
        _mask(epochs, 0),
        _mask(epochs, 1),
        first.blob,
    )


def _mask(epochs: Iterable[Epoch], direction: int) -> int:
    mask = 0
    for unit in (unit for epoch in epochs for unit in epoch.units):
        if isinstance(unit, Streng) and unit.dir == direction:
            mask |= 1 << unit.id
    return mask


def with_blob_size(block: EpochBlock, program: Program) -> EpochBlock:
    """The block with the bytes that the epoch controller has to fetch for it."""
    if block.blob is None:
        return block
    try:
        size = len(write_binary(EcBinary(lower(program, block.blob))))
    except NpuscopeError as error:
        return replace(block, note=f"fetches of blob {block.blob} not counted: {error.message}")
    return replace(block, blob_bytes=size)


def fetch_bursts(size_bytes: int) -> Bursts:
    """A blob is one run from an aligned address: whole blocks, then the rest."""
    whole, rest = divmod(size_bytes, BLOCK)
    beats = -(-rest // BEAT)
    return beats & 1, beats >> 1 & 1, beats >> 2 & 1, whole + (beats >> 3)


class Runtime:
    """The program on the simulated device; use it in a `with` statement.

    `blob_fetch` adds the reads that load epoch-controller blobs, on bus interface 0.
    """

    def __init__(
        self,
        program: Program,
        machine: Machine,
        *,
        on_runtime: RuntimeCallback | None = None,
        on_epoch: EpochCallback | None = None,
        blob_fetch: bool = False,
    ) -> None:
        self.unit = DebugUnit()
        self.on_runtime = on_runtime
        self.on_epoch = on_epoch
        self._npu_per_mcu = machine.clocks.npu_mhz / machine.clocks.mcu_mhz
        blocks = epoch_blocks(program)
        if blob_fetch:
            blocks = tuple(with_blob_size(block, program) for block in blocks)
        self.blocks = blocks
        counters = iter(count_epochs(program, machine))
        self._counted = [tuple(next(counters) for _ in epochs) for epochs in _by_block(program)]

    def __enter__(self) -> Runtime:
        self._tell(RuntimeEvent.RT_INIT)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tell(RuntimeEvent.RT_DEINIT)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(block.note for block in self.blocks if block.note)

    def infer(self) -> None:
        """One inference: time passes and counters count. Data is run by `npuscope.sim.run`."""
        for block, counters in zip(self.blocks, self._counted, strict=True):
            self._call(EpochEvent.PRE_START, block)
            for row in counters:
                self._on_mcu(row.pre_cycles)
            self._call(EpochEvent.POST_START, block)
            last = len(counters) - 1 if block.blob is not None else None
            for index, row in enumerate(counters):
                mcu_cycles = round(row.core_cycles / self._npu_per_mcu)
                self.unit.advance(core_activity(row, blob_ends=index == last), mcu_cycles)
            self.unit.advance(fetch_activity(FETCH_BUSIF, fetch_bursts(block.blob_bytes)))
            self._call(EpochEvent.PRE_END, block)
            for row in counters:
                self._on_mcu(row.post_cycles)
            self._call(EpochEvent.POST_END, block)

    def _on_mcu(self, cycles: float) -> None:
        """A phase that the MCU's clock measures; the NPU's units idle."""
        self.unit.advance(Activity(round(cycles * self._npu_per_mcu)), round(cycles))

    def _call(self, event: EpochEvent, block: EpochBlock) -> None:
        if self.on_epoch is not None:
            self.on_epoch(event, self.unit, block)

    def _tell(self, event: RuntimeEvent) -> None:
        if self.on_runtime is not None:
            self.on_runtime(event, self.unit)


# The firmware's own epoch callback: counters by the options of a run, read into node counters.

_ALL_ENGINES = (1 << 10) - 1
_FIRST_ENGINE = 1  # counter 0 is the NPU clock
_ROOM = COUNTERS - _FIRST_ENGINE


class Instrument:
    """Called around every block of one inference; `nodes` grows by one a block."""

    def __init__(self, options: CounterOption) -> None:
        self.options = granted(options)
        self.nodes: list[NodeCounters] = []
        self._stamps: list[tuple[int, int]] = []
        self._engines: Mapping[tuple[int, str], int] = {}
        self._henv: Mapping[int, int] = {}
        self._bursts: Mapping[tuple[int, str], range] = {}

    def __call__(self, event: EpochEvent, unit: DebugUnit, block: EpochBlock) -> None:
        if event is EpochEvent.PRE_START:
            if CounterOption.EPOCH_LEN in self.options:
                watch_clock(unit)
            if self.options & (
                CounterOption.STRG_I_ACTIVE
                | CounterOption.STRG_O_ACTIVE
                | CounterOption.STRG_ACTIVE
            ):
                self._engines = watch_engines(unit, *self._masks(block), first=_FIRST_ENGINE)
            if CounterOption.STRG_HENV in self.options:
                self._henv = watch_envelopes(unit, block.in_mask, first=_FIRST_ENGINE)
            if CounterOption.BUSIF_RW_DATA in self.options:
                self._bursts = watch_all_bursts(unit)
            if CounterOption.NPU_CACHE in self.options:
                unit.cache.start()
            self._stamps = []
        self._stamps.append((unit.mcu_cycles, unit.read(0)))
        if event is EpochEvent.POST_END:
            self.nodes.append(self._node(unit, block))
            unit.release()
            unit.cache.stop()

    def _masks(self, block: EpochBlock) -> tuple[int, int]:
        """Engines to count. Both ways at once, those past the last counter are left out."""
        if CounterOption.STRG_I_ACTIVE in self.options:
            return _ALL_ENGINES, 0
        if CounterOption.STRG_O_ACTIVE in self.options:
            return 0, _ALL_ENGINES
        outputs = bits(block.out_mask)[: _ROOM - block.in_mask.bit_count()]
        return block.in_mask, sum(1 << engine for engine in outputs)

    def _node(self, unit: DebugUnit, block: EpochBlock) -> NodeCounters:
        cached = CounterOption.NPU_CACHE in self.options
        read, write = cache_rows(unit.cache.read())
        return NodeCounters(
            block.name,
            block.number,
            block.last_number,
            block.kind,
            flags=int(block.flags),
            mcu_cycles=self._phases(0),
            npu_cycles=self._phases(1) if CounterOption.EPOCH_LEN in self.options else None,
            engines=_used({key: unit.read(counter) for key, counter in self._engines.items()}),
            henv={engine: unit.read(counter) for engine, counter in self._henv.items()},
            bursts={key: _four(unit, counters) for key, counters in self._bursts.items()},
            cache_read=read if cached else None,
            cache_write=write if cached else None,
        )

    def _phases(self, clock: int) -> tuple[int, int, int]:
        """pre, core and post between the four stamps; a 32-bit counter may have wrapped."""
        a, b, c, d = (stamp[clock] for stamp in self._stamps)
        return (b - a) % (1 << 32), (c - b) % (1 << 32), (d - c) % (1 << 32)


def _used(active: dict[tuple[int, str], int]) -> dict[tuple[int, str], int]:
    """An idle engine is stalled all the time."""
    return {key: cycles for key, cycles in active.items() if cycles}


def _four(unit: DebugUnit, counters: range) -> tuple[int, int, int, int]:
    one, two, four, eight = (unit.read(counter) for counter in counters)
    return one, two, four, eight
