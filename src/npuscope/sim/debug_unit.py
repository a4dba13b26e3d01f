"""The debug and trace unit: 16 counters of 32 bits, and the NPU cache's own monitors.

A counter watches one signal and counts the cycles it is low or high, or its edges. Signals are
given for whole time spans (a phase of an epoch), not cycle by cycle: how long each was low and
high. Links of units other than stream engines are not modelled; they read as idle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, IntEnum

from msgspec import Struct, field
from msgspec.structs import astuple

from npuscope.errors import UsageError
from npuscope.sim.counters import Bursts, CacheCounts, EpochCounters

COUNTERS = 16
_LIMIT = 1 << 32
Engine = tuple[int, str]  # id, "i" (memory to NPU) or "o"


class SignalEvent(Enum):
    LOW = 0
    HIGH = 1
    RISING = 2
    FALLING = 3


class Signal(IntEnum):
    """First number of each family; engine, interrupt or bus interface is added."""

    GND = 0
    VDD = 1
    OUTPUT_STALL = 2
    OUTPUT_HENV = 56
    INPUT_STALL = 83
    INPUT_HENV = 165
    TRIGGER = 216
    INTERRUPT = 220
    BUS_READ = 276
    BUS_WRITE = 284


LAST_SIGNAL = 291
CONTROLLER_INTERRUPT = 28
# Sources of the switch have an output link: an engine that reads memory has its stall and envelope
# signals there.
STALL = {"i": Signal.OUTPUT_STALL, "o": Signal.INPUT_STALL}
HENV = {"i": Signal.OUTPUT_HENV, "o": Signal.INPUT_HENV}
_BUS = {"r": Signal.BUS_READ, "w": Signal.BUS_WRITE}


def bus_signal(busif: int, direction: str, length: int) -> int:
    """`length` 0 to 3: bursts of 1, 2, 4 and 8 beats."""
    return _BUS[direction] + 2 * length + busif


class Level(Struct, frozen=True):
    """A signal over a time span: cycles low and high, and how often it rose and fell."""

    low: int
    high: int
    edges: int = 0


class Activity(Struct, frozen=True):
    """A span of NPU time: its cycles, the signals that were not idle, the cache."""

    cycles: int
    levels: Mapping[int, Level] = field(default_factory=dict)
    cache: CacheCounts = field(default_factory=CacheCounts)

    def level(self, signal: int) -> Level:
        level = self.levels.get(signal)
        if level is not None:
            return level
        stalls = Signal.OUTPUT_STALL <= signal < Signal.OUTPUT_HENV
        stalls |= Signal.INPUT_STALL <= signal < Signal.INPUT_HENV
        # The stall signal of an idle unit is high.
        high = stalls or signal == Signal.VDD
        return Level(0, self.cycles) if high else Level(self.cycles, 0)

    def count(self, signal: int, event: SignalEvent) -> int:
        level = self.level(signal)
        return {SignalEvent.LOW: level.low, SignalEvent.HIGH: level.high}.get(event, level.edges)


def core_activity(counters: EpochCounters, blob_ends: bool = False) -> Activity:
    """The core phase of an epoch as the unit sees it."""
    cycles = round(counters.core_cycles)
    levels = dict(_engine_levels(counters, cycles))
    for row in counters.busif:
        for direction, bursts in (("r", row.read_bursts), ("w", row.write_bursts)):
            for length, count in enumerate(bursts):
                levels[bus_signal(row.id, direction, length)] = _pulses(count, cycles)
    if blob_ends:
        levels[Signal.INTERRUPT + CONTROLLER_INTERRUPT] = _pulses(1, cycles)
    return Activity(cycles, levels, counters.cache)


def _engine_levels(counters: EpochCounters, cycles: int) -> Iterator[tuple[int, Level]]:
    active: dict[Engine, int] = {}
    turns: dict[Engine, int] = {}
    for row in counters.engines:
        key = row.id, row.dir
        active[key] = active.get(key, 0) + row.active_cycles
        turns[key] = turns.get(key, 0) + 1
    for (engine, direction), busy in active.items():
        idle, edges = max(0, cycles - busy), turns[engine, direction]
        yield STALL[direction] + engine, Level(busy, idle, edges)
        # The envelope lasts from first to last beat, which is what the model calls active.
        yield HENV[direction] + engine, Level(idle, busy, edges)
        if direction == "o":
            yield Signal.INTERRUPT + engine, _pulses(edges, cycles)


def _pulses(count: int, cycles: int) -> Level:
    """One cycle high each."""
    return Level(max(0, cycles - count), count, count)


def fetch_activity(busif: int, bursts: Bursts) -> Activity:
    """Reads that take no additional time: a blob fetched while its epochs run."""
    rows = enumerate(bursts)
    return Activity(0, {bus_signal(busif, "r", i): Level(0, count, count) for i, count in rows})


class CounterConfig(Struct, frozen=True):
    """What one counter does. `start` and `stop` name counters whose first event binds this one.

    Without `wrap` a counter stays at its end: 2^32 - 1, or 0 when it counts down.
    """

    signal: int
    event: SignalEvent = SignalEvent.HIGH
    wrap: bool = False
    count_down: bool = False
    start: int | None = None
    stop: int | None = None
    value: int = 0


class _Counter(Struct):
    config: CounterConfig
    value: int
    enabled: bool = False
    running: bool = False
    was_read: bool = False

    def add(self, events: int) -> None:
        value = self.value - events if self.config.count_down else self.value + events
        self.value = value % _LIMIT if self.config.wrap else min(max(value, 0), _LIMIT - 1)


_OFF = CounterConfig(Signal.GND)


class DebugUnit:
    """One unit of the device, with the clocks around it.

    `npu_cycles` and `mcu_cycles` run freely from power-up and never wrap.
    """

    def __init__(self) -> None:
        self._counters = [_Counter(_OFF, 0) for _ in range(COUNTERS)]
        self.cache = CacheMonitors()
        self.npu_cycles = 0
        self.mcu_cycles = 0

    def configure(self, counter: int, config: CounterConfig) -> None:
        """Stops the counter and sets it up; `start` lets it count."""
        if not 0 <= config.signal <= LAST_SIGNAL:
            raise UsageError(f"signal {config.signal} is not one of 0 to {LAST_SIGNAL}")
        for source in (config.start, config.stop):
            if source is not None:
                self._at(source)
        self._at(counter)
        self._counters[counter] = _Counter(config, config.value % _LIMIT)

    def start(self, counter: int) -> None:
        """A counter bound to a start event waits for it."""
        row = self._at(counter)
        row.enabled, row.running = True, row.config.start is None

    def stop(self, counter: int) -> None:
        row = self._at(counter)
        row.enabled = row.running = False

    def read(self, counter: int) -> int:
        row = self._at(counter)
        row.was_read = True
        return row.value

    def is_taken(self, counter: int, config: CounterConfig) -> bool:
        """True for a counter that counts something else, which nobody has read yet."""
        row = self._at(counter)
        return row.enabled and not row.was_read and row.config != config

    def write(self, counter: int, value: int = 0) -> None:
        """Sets the counter's value; it keeps running or stopped as before."""
        self._at(counter).value = value % _LIMIT

    def release(self) -> None:
        """Stops and frees all counters."""
        self._counters = [_Counter(_OFF, 0) for _ in range(COUNTERS)]

    def advance(self, activity: Activity, mcu_cycles: int = 0) -> None:
        """Let time pass."""
        self.npu_cycles += activity.cycles
        self.mcu_cycles += mcu_cycles
        self.cache.add(activity.cache)
        fired = [c.enabled and self._events(c, activity) > 0 for c in self._counters]
        for counter in self._counters:
            if counter.enabled:
                # A span begins with its start event and ends with its stop event.
                config = counter.config
                if config.start is not None and fired[config.start]:
                    counter.running = True
                if counter.running:
                    counter.add(self._events(counter, activity))
                if config.stop is not None and fired[config.stop]:
                    counter.running = False

    @staticmethod
    def _events(counter: _Counter, activity: Activity) -> int:
        return activity.count(counter.config.signal, counter.config.event)

    def _at(self, counter: int) -> _Counter:
        if not 0 <= counter < COUNTERS:
            raise UsageError(
                f"counter {counter} does not exist",
                hint=f"the unit has {COUNTERS} counters; spread the measurements over several "
                f"inferences",
            )
        return self._counters[counter]


class CacheMonitors:
    """Eight monitors of 32 bits in the NPU cache; they count only while switched on."""

    def __init__(self) -> None:
        self.on = False
        self._counts = CacheCounts()

    def start(self) -> None:
        """From zero."""
        self.on, self._counts = True, CacheCounts()

    def stop(self) -> None:
        self.on = False

    def read(self) -> CacheCounts:
        return self._counts

    def add(self, more: CacheCounts) -> None:
        if self.on:
            pairs = zip(astuple(self._counts), astuple(more), strict=True)
            self._counts = CacheCounts(*((a + b) % _LIMIT for a, b in pairs))


def cache_rows(counts: CacheCounts) -> tuple[Bursts, Bursts]:
    """Reads (hit, miss, alloc-miss, evict) and writes (hit, miss, alloc-miss, through)."""
    read = [getattr(counts, n) for n in counts.__struct_fields__ if n.startswith("read_")]
    write = [getattr(counts, n) for n in counts.__struct_fields__ if n.startswith("write_")]
    return _four(read), _four(write)


def _four(values: list[int]) -> Bursts:
    one, two, three, four = values
    return one, two, three, four


# --- Services of the runtime: each sets up counters, starts them and names them ---


def watch(unit: DebugUnit, counter: int, config: CounterConfig) -> int:
    """The counter, started. The device would let a second watch take the counter of a first one."""
    if unit.is_taken(counter, config):
        raise UsageError(
            f"counter {counter} already counts for another watch, and was not read yet",
            hint="give the second watch another first counter, or another inference",
        )
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

    Takes three counters; the one to read is the first.
    """
    begin, end = first + 1, first + 2
    watch(unit, begin, CounterConfig(HENV["i"] + input_engine, SignalEvent.RISING))
    watch(unit, end, CounterConfig(Signal.INTERRUPT + output_engine, SignalEvent.RISING))
    for event in (begin, end):  # they start and stop the first one; nobody reads them
        unit.read(event)
    return watch(unit, first, CounterConfig(Signal.VDD, start=begin, stop=end))


def watch_engines(
    unit: DebugUnit, in_mask: int, out_mask: int, first: int = 1
) -> dict[Engine, int]:
    """Cycles that stream engines are not stalled: counters in ascending order of the engines."""
    engines = [(engine, "i") for engine in bits(in_mask)] + [(e, "o") for e in bits(out_mask)]
    counters = {
        (engine, way): watch(unit, counter, CounterConfig(STALL[way] + engine, SignalEvent.LOW))
        for counter, (engine, way) in enumerate(sorted(engines), first)
    }
    return {key: counters[key] for key in engines}  # told inputs first


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
