"""The firmware's callbacks and debug services count what ours count, on the same debug unit."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from compiler.nets import random_network
from firmware.validation_instrument import (
    DEBUG,
    Bench,
    Item,
    build_instrument,
    item_of,
    node_of,
)
from npuscope.boards.device import CounterOption, NodeCounters, granted
from npuscope.boards.runtime import (
    EpochBlock,
    EpochEvent,
    Instrument,
    Runtime,
    RuntimeEvent,
)
from npuscope.boards.wire.framing import BlockType
from npuscope.boards.wire.statistics import block_type
from npuscope.program.ec_blob.registers import clock_gate
from npuscope.sim.debug_unit import DebugUnit, watch_epoch_length
from program.network_c.nets import build


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build_instrument(tmp_path_factory.mktemp("instrument"))


def firmware_nodes(library: ctypes.CDLL, runtime: Runtime, options: int) -> list[NodeCounters]:
    """One inference with the firmware's callbacks."""
    bench, nodes = Bench(library, runtime.unit), []
    items = (Item * (len(runtime.blocks) + 1))(*map(item_of, runtime.blocks), Item(flags=8))

    def on_epoch(event: EpochEvent, unit: DebugUnit, block: EpochBlock) -> None:
        at = runtime.blocks.index(block)
        library.instrument_on_block(event.value, None, ctypes.byref(items[at]))
        if event is EpochEvent.POST_END:
            nodes.append(node_of(library.host_node().contents, block))
            assert BlockType(library.host_node().contents.block) == block_type(nodes[-1])

    def on_runtime(event: RuntimeEvent, unit: DebugUnit) -> None:
        library.instrument_on_runtime(event.value)

    runtime.on_epoch, runtime.on_runtime = on_epoch, on_runtime
    library.host_start(options)
    with runtime:
        runtime.infer()
    assert bench.faults == []
    assert library.host_nodes() == len(nodes)
    return nodes


def our_nodes(runtime: Runtime, options: int) -> list[NodeCounters]:
    instrument = Instrument(CounterOption(options))
    runtime.on_epoch, runtime.on_runtime = instrument, None
    with runtime:
        runtime.infer()
    return instrument.nodes


@pytest.mark.parametrize("controller", [True, False])
def test_every_option_counts_the_same(library: ctypes.CDLL, controller: bool) -> None:
    program, machine = build(random_network(1), "4.0", controller)
    for options in range(128):
        ours = our_nodes(Runtime(program, machine), options)
        assert firmware_nodes(library, Runtime(program, machine), options) == ours
        assert library.instrument_granted(options) == granted(CounterOption(options))


def test_counters_that_wrap_and_clocks_that_run(library: ctypes.CDLL) -> None:
    """Stamps are differences: where the clocks stand does not matter."""
    program, machine = build(random_network(2), "4.0", False)
    runtime, later = Runtime(program, machine), Runtime(program, machine)
    later.unit.mcu_cycles = (1 << 32) - 100
    assert firmware_nodes(library, later, 1) == firmware_nodes(library, runtime, 1)


def blocks_of(flags: int, *masks: tuple[int, int]) -> Iterator[Item]:
    for number, (inputs, outputs) in enumerate(masks):
        start, end = number == 0, number == len(masks) - 1
        yield Item(flags=flags | start | end << 1, first=7, last=7, inputs=inputs, outputs=outputs)


def test_blocks_of_one_epoch_are_one_node(library: ctypes.CDLL) -> None:
    bench = Bench(library, DebugUnit())
    rows = [*blocks_of(0x10, (1, 0x20), (2, 0x40)), *blocks_of(0x10, (4, 0x80)), Item(flags=8)]
    items = (Item * len(rows))(*rows)
    library.instrument_on_runtime(RuntimeEvent.RT_INIT.value)
    library.host_start(int(CounterOption.STRG_ACTIVE))
    found = []
    for at in range(3):
        for event in EpochEvent:
            library.instrument_on_block(event.value, None, ctypes.byref(items[at]))
            bench.unit.mcu_cycles += 10
        node = library.host_node().contents
        found.append((library.host_nodes(), tuple(node.mcu_cycles), node.flags))
    assert [count for count, _, _ in found] == [0, 1, 2]
    assert [cycles for _, cycles, _ in found[1:]] == [(20, 20, 20), (10, 10, 10)]
    assert [flags for _, _, flags in found[1:]] == [0x13, 0x13]


def test_the_length_of_an_epoch(library: ctypes.CDLL) -> None:
    program, machine = build(random_network(1), "4.0", False)

    def lengths(by_firmware: bool) -> list[int]:
        runtime, read = Runtime(program, machine), []
        bench = Bench(library, runtime.unit)
        bench.gates = 1 << clock_gate(DEBUG)

        def on_epoch(event: EpochEvent, unit: DebugUnit, block: EpochBlock) -> None:
            engines = block.in_mask.bit_length() - 1, block.out_mask.bit_length() - 1
            if event is EpochEvent.PRE_START and min(engines) >= 0:
                if by_firmware:
                    assert library.LL_Dbgtrc_Count_Epoch_Len(3, *engines) == 0
                else:
                    watch_epoch_length(unit, *engines, first=3)
            if event is EpochEvent.POST_END:
                read.append(unit.read(3))

        runtime.on_epoch = on_epoch
        with runtime:
            runtime.infer()
        return read

    assert lengths(True) == lengths(False)
    assert any(lengths(True))


def test_what_the_services_watch(library: ctypes.CDLL) -> None:
    """Numbers and order as applications for the vendor's runtime know them."""
    bench = Bench(library, DebugUnit())
    bench.gates = 1 << clock_gate(DEBUG)

    def watched(first: int, count: int) -> list[int]:
        return [bench._read(DEBUG * 4096 + 0x40 + 4 * at) >> 1 & 0x1FFF for at in range(16)][
            first : first + count
        ]

    assert library.LL_Dbgtrc_Count_BurstsLen(0, 1, 0) == 0  # writes
    assert library.LL_Dbgtrc_Count_BurstsLen(4, 0, 1) == 0  # reads
    assert watched(0, 8) == [285, 287, 289, 291, 276, 278, 280, 282]
    library.LL_Dbgtrc_Count_Stalls(0, 0, 4, 1)  # a source of the switch
    library.LL_Dbgtrc_Count_Stalls(1, 1, 4, 1)
    assert watched(0, 2) == [2 + 4, 83 + 4]
    assert library.LL_Dbgtrc_Count_StrengActive_Config(0b1010, 0b0011, 5) == 4
    assert watched(5, 4) == [83 + 0, 2 + 1, 83 + 1, 2 + 3]
    assert library.LL_Dbgtrc_Count_StrengHENV_Config(0b1011, 2) == 3
    assert library.LL_Dbgtrc_Count_StrengActive_Config(0x3FF, 0x3FF, 0) == -1


def test_the_busiest_engine_is_told_by_its_number(library: ctypes.CDLL) -> None:
    bench, engine = Bench(library, DebugUnit()), ctypes.c_uint(0)
    for counter, cycles in enumerate((30, 20, 90, 40), 5):
        bench.unit.write(counter, cycles)
    most = library.LL_Dbgtrc_Count_StrengActive_GetMAX(0b1010, 0b0011, 5, ctypes.byref(engine))
    assert (most, engine.value) == (90, 1)


def test_counters_that_do_not_exist(library: ctypes.CDLL) -> None:
    bench = Bench(library, DebugUnit())
    assert library.LL_Dbgtrc_Count_Epoch_Len(14, 0, 5) == -1
    assert library.LL_Dbgtrc_Counter_Start(1, 0) == -1
    assert library.LL_Dbgtrc_BurstLenBenchStart(1) == -1
    assert library.LL_Dbgtrc_Counter_Read(0, 16) == 0
    assert bench.gates == 0
