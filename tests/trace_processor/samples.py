"""Traces for tests: every feature once, random nesting, and a many-core run of any size."""

from __future__ import annotations

import numpy as np

from npuscope.trace_builder import TraceBuilder
from npuscope.trace_model import TraceModel, floats, ints, texts, ticks_to_ns

UTIMER_HZ = 19_200_000
HOSTILE = (
    "",
    "plain",
    '"}],"x":["',
    "back\\slash %s %d %",
    "line\nbreak\ttab\x00nul",
    "\u202eright to left\u200b",
    "lone \ud800 surrogate",
    "größe 漢字 😀",
    "</script><!--",
    "'; drop table slice; --",
    "a.b[0].c",
    "x" * 5000,
)


def every_feature() -> TraceModel:
    """Nesting, slices without length, neighbours, transfers in flight, all kinds of arguments."""
    builder = TraceBuilder()
    core = builder.process("Core 0", 2000)
    other = builder.process("Core 1", 2001, sort=1)
    ops, barrier = builder.thread(core, "HVX"), builder.thread(core, "barrier", sort=1)
    dma = builder.thread(other, "DMA")
    names = builder.texts(["outer", "inner", "sync", "next"])
    first = builder.add_slices(
        ops,
        [100, 100, 200, 200],
        [200, 150, 200, 300],
        names,
        "aic",
        {
            "cycles": ints([1, -2, 2**62, 0]),
            "clock": floats([1450.25, 0.0, 1e300, -0.5], [True, False, True, True]),
            "shape": texts(builder.texts(["<1>", "<2>", "<3>", "<4>"]), [True, True, False, False]),
        },
    )
    waits = builder.add_slices(barrier, [200, 260], [250, 270], "barrier HVX", "wait")
    moves = builder.add_slices(
        dma,
        [120, 130, 400],
        [400, 390, 410],
        "copy",
        "dma",
        {"bytes": ints(4096)},
        overlapping=True,
    )
    builder.add_instants(barrier, [100, 255], "ring", "port", {"port": ints([100, 101])})
    clock, traffic = builder.counter(core, "Freq", "MHz"), builder.counter(other, "DDR")
    builder.add_samples(clock, [100, 150, 300], [1450.5, 1233.0, 1e-3])
    builder.add_samples(traffic, [100, 200], [0, 2.0**40])
    builder.add_flows(first[[0, 2, 0]], [first[3], waits[1], moves[2]], "true")
    builder.add_flows(first[[2, 1]], [first[3], waits[0]], "false")
    return builder.build()


def hostile() -> TraceModel:
    """Foreign text in every place that takes text."""
    builder = TraceBuilder()
    for number, name in enumerate(HOSTILE):
        process = builder.process(name, 1000 + number)
        thread = builder.thread(process, name)
        value = texts(builder.text(name))
        pair = builder.add_slices(thread, [10, 20], [15, 25], name, name, {name: value})
        builder.add_flows(pair[0], pair[1], name)
        builder.add_samples(builder.counter(process, name, name), [10], [number])
    return builder.build()


def nested_at_random(seed: int, threads: int = 60) -> TraceModel:
    """Coarse times, so that starts and ends coincide; each slice has a name of its own.

    Some have the argument `n`, some `t`, some both.
    """
    random = np.random.default_rng(seed)
    builder = TraceBuilder()
    numbers = []
    for index in range(threads):
        process = builder.process(f"p{index}", 5000 + index)
        thread = builder.thread(process, f"t{index}")
        spans = np.array(_spans(random, 0, 40, 0)) * 1000
        shuffled = random.permutation(len(spans))
        names = builder.texts(f"s{index}.{place}" for place in shuffled)
        some = random.random((2, len(spans))) < 0.5
        args = {"n": ints(random.integers(-(2**40), 2**40, len(spans)), some[0])}
        args["t"] = texts(names, some[1])
        start, end = spans[shuffled].T
        numbers.append(builder.add_slices(thread, start, end, names, "random", args))
    every = np.concatenate(numbers)
    builder.add_flows(*random.choice(every, (2, 4 * threads)), "any")
    return builder.build()


def _spans(random: np.random.Generator, start: int, end: int, depth: int) -> list[tuple[int, int]]:
    """Spans one behind the other, some empty, some with others inside."""
    found = []
    at = start
    while at < end and len(found) < 30:
        stop = min(end, at + int(random.integers(0, 12)))
        found.append((at, stop))
        if stop - at > 1 and depth < 3 and random.random() < 0.5:
            found += _spans(random, at, stop, depth + 1)
        at = stop + int(random.random() < 0.3)
    return found


def many_core_run(slices: int, seed: int = 1) -> TraceModel:
    """16 cores of 6 threads; seven arguments an op, one flow for four ops, a clock a core."""
    random = np.random.default_rng(seed)
    builder = TraceBuilder()
    threads, clocks = [], []
    for core in range(16):
        process = builder.process(f"Program:0 [Net_Core_{core}]", 2000 + core, core)
        threads += [builder.thread(process, f"Net_Core_{core}_{t}", sort=t) for t in range(6)]
        clocks.append(builder.counter(process, "Freq", "MHz"))
    each = slices // len(threads)
    count = each * len(threads)
    ticks = random.integers(0, 3000, (len(threads), each))
    end = np.cumsum(ticks, axis=1).reshape(-1) + 10**6
    start = end - ticks.reshape(-1)
    numbers = builder.add_slices(
        np.repeat(threads, each),
        ticks_to_ns(start, UTIMER_HZ),
        ticks_to_ns(end, UTIMER_HZ),
        _some(builder, random, count, [f"aickind{i}" for i in range(40)]),
        "aic",
        {
            "opName": texts(_some(builder, random, count, [f"/{i}/op" for i in range(20_000)])),
            "opMemory": texts(_some(builder, random, count, ["TCM", "DDR"])),
            "opShape": texts(_some(builder, random, count, [f"<1 x {i}>" for i in range(50)])),
            "oc": ints(np.arange(count)),
            "opPCycle": ints(random.integers(0, 10**6, count)),
            "opUCycle": ints(ticks.reshape(-1)),
            "effectiveFreq": floats(random.random(count) * 1450),
        },
    )
    by_time = numbers[np.argsort(start, kind="stable")]
    source = random.integers(0, count - 200, count // 4)
    builder.add_flows(by_time[source], by_time[source + random.integers(100, 200, len(source))])
    for clock in clocks:
        builder.add_samples(clock, np.arange(100) * 10**6, 1000 + random.random(100))
    return builder.build()


def _some(
    builder: TraceBuilder, random: np.random.Generator, count: int, names: list[str]
) -> np.ndarray:
    return builder.texts(names)[random.integers(0, len(names), count)]
