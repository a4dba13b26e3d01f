"""The firmware's own epoch callback: counters by the options of a run, read into node counters."""

from __future__ import annotations

from collections.abc import Mapping

from npuscope.boards.device import NodeCounters, Option
from npuscope.boards.runtime import EpochBlock, EpochEvent
from npuscope.sim.debug_unit import (
    COUNTERS,
    DebugUnit,
    bits,
    cache_rows,
    watch_all_bursts,
    watch_clock,
    watch_engines,
    watch_envelopes,
)

_ALL_ENGINES = (1 << 10) - 1
_FIRST_ENGINE = 1  # counter 0 is the NPU clock
_ROOM = COUNTERS - _FIRST_ENGINE
_ENGINE_CHOICES = (
    Option.STRG_I_ACTIVE,
    Option.STRG_O_ACTIVE,
    Option.STRG_ACTIVE,
    Option.STRG_HENV,
)


def granted(options: Option) -> Option:
    """What a run with these options really counts: one choice for the counters, and the cache."""
    cache = options & Option.NPU_CACHE
    for choice in _ENGINE_CHOICES:
        if choice in options:
            return choice | Option.EPOCH_LEN | cache
    if Option.BUSIF_RW_DATA in options:
        return Option.BUSIF_RW_DATA | cache
    return options & Option.EPOCH_LEN | cache


class Instrument:
    """Called around every block of one inference; `nodes` grows by one a block."""

    def __init__(self, options: Option) -> None:
        self.options = granted(options)
        self.nodes: list[NodeCounters] = []
        self._stamps: list[tuple[int, int]] = []
        self._engines: Mapping[tuple[int, str], int] = {}
        self._henv: Mapping[int, int] = {}
        self._bursts: Mapping[tuple[int, str], range] = {}

    def __call__(self, event: EpochEvent, unit: DebugUnit, block: EpochBlock) -> None:
        if event is EpochEvent.PRE_START:
            self._configure(unit, block)
            self._stamps = []
        self._stamps.append((unit.mcu_cycles, unit.read(0)))
        if event is EpochEvent.POST_END:
            self.nodes.append(self._node(unit, block))
            unit.release()
            unit.cache.stop()

    def _configure(self, unit: DebugUnit, block: EpochBlock) -> None:
        if Option.EPOCH_LEN in self.options:
            watch_clock(unit)
        if self.options & (Option.STRG_I_ACTIVE | Option.STRG_O_ACTIVE | Option.STRG_ACTIVE):
            self._engines = watch_engines(unit, *self._masks(block), first=_FIRST_ENGINE)
        if Option.STRG_HENV in self.options:
            self._henv = watch_envelopes(unit, block.in_mask, first=_FIRST_ENGINE)
        if Option.BUSIF_RW_DATA in self.options:
            self._bursts = watch_all_bursts(unit)
        if Option.NPU_CACHE in self.options:
            unit.cache.start()

    def _masks(self, block: EpochBlock) -> tuple[int, int]:
        """Engines to count. Both ways at once, those past the last counter are left out."""
        if Option.STRG_I_ACTIVE in self.options:
            return _ALL_ENGINES, 0
        if Option.STRG_O_ACTIVE in self.options:
            return 0, _ALL_ENGINES
        outputs = bits(block.out_mask)[: _ROOM - block.in_mask.bit_count()]
        return block.in_mask, sum(1 << engine for engine in outputs)

    def _node(self, unit: DebugUnit, block: EpochBlock) -> NodeCounters:
        cached = Option.NPU_CACHE in self.options
        read, write = cache_rows(unit.cache.read())
        return NodeCounters(
            block.name,
            block.number,
            block.last_number,
            block.kind,
            flags=int(block.flags),
            mcu_cycles=self._phases(0),
            npu_cycles=self._phases(1) if Option.EPOCH_LEN in self.options else None,
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
