"""What the runtime's services measure: each sets counters up, starts them and names them."""

from __future__ import annotations

from npuscope.sim.debug_unit import (
    HENV,
    STALL,
    CounterConfig,
    DebugUnit,
    Engine,
    Event,
    Signal,
    bus_signal,
)


def watch(unit: DebugUnit, counter: int, config: CounterConfig) -> int:
    unit.configure(counter, config)
    unit.start(counter)
    return counter


def watch_clock(unit: DebugUnit, counter: int = 0) -> int:
    """The NPU clock: a counter of the signal that is always high."""
    return watch(unit, counter, CounterConfig(Signal.VDD, wrap=True))


def watch_epoch_length(
    unit: DebugUnit, input_engine: int, output_engine: int, first: int = 0
) -> int:
    """From the first envelope of an input engine to the interrupt of an output engine.

    Takes three counters; the one to read is the last.
    """
    begin, end = first, first + 1
    watch(unit, begin, CounterConfig(HENV["i"] + input_engine, Event.RISING))
    watch(unit, end, CounterConfig(Signal.INTERRUPT + output_engine, Event.RISING))
    return watch(unit, first + 2, CounterConfig(Signal.VDD, start=begin, stop=end))


def watch_engines(
    unit: DebugUnit, in_mask: int, out_mask: int, first: int = 1
) -> dict[Engine, int]:
    """Cycles that stream engines are not stalled, one counter each."""
    wanted = [(engine, "i") for engine in bits(in_mask)] + [(e, "o") for e in bits(out_mask)]
    return {
        (engine, direction): watch(
            unit, counter, CounterConfig(STALL[direction] + engine, Event.LOW)
        )
        for counter, (engine, direction) in enumerate(wanted, first)
    }


def watch_envelopes(unit: DebugUnit, in_mask: int, first: int = 1) -> dict[int, int]:
    """Cycles inside the envelope (HENV) of input engines."""
    return {
        engine: watch(unit, counter, CounterConfig(HENV["i"] + engine))
        for counter, engine in enumerate(bits(in_mask), first)
    }


def watch_bursts(unit: DebugUnit, busif: int, direction: str, first: int = 0) -> range:
    """Bursts of 1, 2, 4 and 8 beats on one interface, four counters."""
    for length in range(4):
        watch(unit, first + length, CounterConfig(bus_signal(busif, direction, length)))
    return range(first, first + 4)


def watch_all_bursts(unit: DebugUnit) -> dict[tuple[int, str], range]:
    """Both interfaces, both directions: all 16 counters."""
    keys = [(busif, direction) for busif in (0, 1) for direction in ("w", "r")]
    return {key: watch_bursts(unit, *key, first=4 * i) for i, key in enumerate(keys)}


def bits(mask: int) -> tuple[int, ...]:
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)
