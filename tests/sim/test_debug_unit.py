"""The debug unit: signals, events, 32 bits, bindings, and the services built on them."""

from __future__ import annotations

import pytest

from npuscope.errors import UsageError
from npuscope.sim.counters import (
    Bound,
    BusTraffic,
    CacheCounts,
    EngineActivity,
    EpochCounters,
)
from npuscope.sim.debug_unit import (
    Activity,
    CounterConfig,
    DebugUnit,
    Signal,
    SignalEvent,
    bits,
    bus_signal,
    cache_rows,
    core_activity,
    watch,
    watch_all_bursts,
    watch_bursts,
    watch_clock,
    watch_engines,
    watch_envelopes,
    watch_epoch_length,
)

COUNTED = EpochCounters(
    4,
    4,
    100.0,
    1000.4,
    50.0,
    Bound.FEATURES,
    (
        EngineActivity(3, "i", 0, 400, "npuRAM3", 64),
        EngineActivity(3, "i", 0, 200, "npuRAM3", 64),
        EngineActivity(7, "o", 1, 1000, "npuRAM4", 64),
    ),
    (BusTraffic(0, (1, 2, 3, 4), (0, 0, 0, 0)), BusTraffic(1, (0, 0, 0, 0), (5, 6, 7, 8))),
    CacheCounts(read_hit=1, read_miss=20, read_alloc_miss=3, write_through=9),
)
CORE = core_activity(COUNTED)


def counted(config, activity=CORE, value=None):
    unit = DebugUnit()
    unit.configure(0, config)
    if value is not None:
        unit.write(0, value)
    unit.start(0)
    unit.advance(activity)
    return unit.read(0)


# Signals by number.


@pytest.mark.parametrize(
    ("signal", "event", "count"),
    [
        (0, SignalEvent.HIGH, 0),
        (0, SignalEvent.LOW, 1000),
        (1, SignalEvent.HIGH, 1000),
        (1, SignalEvent.RISING, 0),
        (2 + 3, SignalEvent.LOW, 600),  # output link of engine 3: active = not stalled
        (2 + 3, SignalEvent.HIGH, 400),
        (2 + 4, SignalEvent.LOW, 0),  # idle: stalled all the time
        (2 + 7, SignalEvent.LOW, 0),  # engine 7 writes: nothing on its output link
        (83 + 7, SignalEvent.LOW, 1000),
        (56 + 3, SignalEvent.HIGH, 600),
        (56 + 3, SignalEvent.RISING, 2),
        (56 + 3, SignalEvent.FALLING, 2),
        (165 + 7, SignalEvent.HIGH, 1000),
        (56 + 4, SignalEvent.HIGH, 0),
        (216, SignalEvent.RISING, 0),
        (220 + 7, SignalEvent.RISING, 1),
        (220 + 3, SignalEvent.RISING, 0),
        (276, SignalEvent.HIGH, 1),
        (282, SignalEvent.HIGH, 4),
        (283, SignalEvent.HIGH, 0),
        (285, SignalEvent.HIGH, 5),
        (291, SignalEvent.HIGH, 8),
    ],
)
def test_what_a_signal_counts(signal, event, count):
    assert counted(CounterConfig(signal, event)) == count


def test_numbers_of_bus_signals():
    reads = [bus_signal(1, "r", length) for length in range(4)]
    assert reads == [277, 279, 281, 283]
    assert bus_signal(0, "w", 0) == 284 and bus_signal(1, "w", 3) == 291


def test_the_controller_interrupts_at_the_end_of_a_blob():
    signal = Signal.INTERRUPT + 28
    assert counted(CounterConfig(signal, SignalEvent.RISING)) == 0
    assert counted(CounterConfig(signal, SignalEvent.RISING), core_activity(COUNTED, True)) == 1


# Counters.


def test_counters_have_32_bits():
    near = 2**32 - 10
    assert counted(CounterConfig(1, wrap=True), value=near) == 990
    assert counted(CounterConfig(1), value=near) == 2**32 - 1


def test_counting_down():
    assert counted(CounterConfig(1, count_down=True), value=3000) == 2000
    assert counted(CounterConfig(1, count_down=True), value=300) == 0
    assert counted(CounterConfig(1, count_down=True, wrap=True), value=300) == 2**32 - 700


def test_a_counter_counts_between_start_and_stop():
    unit = DebugUnit()
    unit.configure(5, CounterConfig(1, value=7))
    unit.advance(Activity(10))
    assert unit.read(5) == 7
    unit.start(5)
    unit.advance(Activity(10))
    unit.stop(5)
    unit.advance(Activity(10))
    assert unit.read(5) == 17
    unit.release()
    assert unit.read(5) == 0


def test_bound_counters_wait_for_their_event():
    unit = DebugUnit()
    length = watch_epoch_length(unit, input_engine=3, output_engine=7, first=4)
    assert length == 4
    unit.advance(Activity(500))
    assert unit.read(length) == 0
    unit.advance(CORE)
    unit.advance(Activity(500))
    assert unit.read(length) == 1000


def test_a_bound_counter_goes_on_until_it_is_stopped():
    unit = DebugUnit()
    length = watch_epoch_length(unit, input_engine=3, output_engine=8)
    unit.advance(CORE)
    unit.advance(Activity(500))
    assert unit.read(length) == 1500


@pytest.mark.parametrize("counter", [-1, 16])
def test_there_are_sixteen(counter):
    with pytest.raises(UsageError) as caught:
        watch_clock(DebugUnit(), counter)
    assert str(caught.value) == (
        f"counter {counter} does not exist\n"
        "  hint: the unit has 16 counters; spread the measurements over several inferences"
    )


def test_bad_settings_are_refused():
    with pytest.raises(UsageError, match="signal 292"):
        watch(DebugUnit(), 0, CounterConfig(292))
    with pytest.raises(UsageError, match="counter 16"):
        watch(DebugUnit(), 0, CounterConfig(1, start=16))


def test_clocks_run_freely():
    unit = DebugUnit()
    clock = watch_clock(unit, 15)
    unit.advance(Activity(2**32 + 5), mcu_cycles=40)
    assert (unit.npu_cycles, unit.mcu_cycles, unit.read(clock)) == (2**32 + 5, 40, 5)


# Services.


def test_engines_and_envelopes():
    unit = DebugUnit()
    engines = watch_engines(unit, in_mask=0b1001000, out_mask=1 << 7)
    assert engines == {(3, "i"): 1, (6, "i"): 2, (7, "o"): 3}
    envelopes = watch_envelopes(unit, 1 << 3, first=8)
    unit.advance(CORE)
    assert {key: unit.read(c) for key, c in engines.items()} == {
        (3, "i"): 600,
        (6, "i"): 0,
        (7, "o"): 1000,
    }
    assert {key: unit.read(c) for key, c in envelopes.items()} == {3: 600}


def test_counters_ascend_with_the_engines():
    engines = watch_engines(DebugUnit(), in_mask=0b1010, out_mask=0b0011)
    assert engines == {(1, "i"): 2, (3, "i"): 4, (0, "o"): 1, (1, "o"): 3}
    assert [way for _, way in engines] == ["i", "i", "o", "o"]


def test_both_ways_of_ten_engines_do_not_fit():
    with pytest.raises(UsageError, match="counter 16 does not exist"):
        watch_engines(DebugUnit(), 0x3FF, 0x3FF)


def test_bursts():
    unit = DebugUnit()
    one = watch_bursts(unit, 1, "w", first=12)
    unit.advance(CORE)
    assert [unit.read(counter) for counter in one] == [5, 6, 7, 8]
    watched = watch_all_bursts(unit)
    unit.advance(CORE)
    assert sorted(c for counters in watched.values() for c in counters) == list(range(16))
    found = {key: [unit.read(c) for c in counters] for key, counters in watched.items()}
    assert found[0, "r"] == [1, 2, 3, 4] and found[1, "w"] == [5, 6, 7, 8]
    assert found[0, "w"] == found[1, "r"] == [0, 0, 0, 0]


def test_cache_monitors_count_while_on():
    unit = DebugUnit()
    unit.advance(CORE)
    assert unit.cache.read() == CacheCounts()
    unit.cache.start()
    unit.advance(CORE)
    unit.advance(CORE)
    unit.cache.stop()
    unit.advance(CORE)
    assert cache_rows(unit.cache.read()) == ((2, 40, 6, 0), (0, 0, 0, 18))
    unit.cache.start()
    assert unit.cache.read() == CacheCounts()


def test_bits_of_a_mask():
    assert bits(0b1000000101) == (0, 2, 9) and bits(0) == ()


def test_a_watch_does_not_take_the_counter_of_another_one() -> None:
    unit = DebugUnit()
    clock = watch_clock(unit)
    with pytest.raises(UsageError, match="counter 0 already counts for another watch"):
        watch_all_bursts(unit)
    assert watch_clock(unit) == clock  # the same again is no other watch
    unit.read(clock)
    assert len(watch_all_bursts(unit)) == 4
