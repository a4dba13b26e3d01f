"""The runtime's flow: blocks, flags, masks, the order of callbacks, blob fetches."""

from __future__ import annotations

import pytest

from npuscope.boards.runtime import (
    EpochEvent,
    Runtime,
    RuntimeEvent,
    epoch_blocks,
    fetch_bursts,
)
from npuscope.building import build
from npuscope.demo_network import demo_graph
from npuscope.program.ec_blob.binary import EcBinary, write_binary
from npuscope.program.ec_blob.lower import lower
from npuscope.program.model import EpochKind
from npuscope.program.units import Streng
from npuscope.sim.debug_unit import watch_bursts, watch_clock
from npuscope.sim.epochs import count_epochs
from npuscope.structs import replace


def made(epoch_controller=False, **options):
    return build(demo_graph(), {"epoch_controller": epoch_controller, **options})


def test_a_block_an_epoch_without_the_controller():
    program = made().program
    blocks = epoch_blocks(program)
    assert [b.name for b in blocks] == [epoch.name for epoch in program.executed]
    assert {(b.kind, int(b.flags)) for b in blocks} == {(EpochKind.HW, 0x13), (EpochKind.SW, 0x23)}
    for block, epoch in zip(blocks, program.executed, strict=True):
        engines = [unit for unit in epoch.units if isinstance(unit, Streng)]
        assert block.in_mask == sum({1 << e.id for e in engines if not e.dir})
        assert block.out_mask == sum({1 << e.id for e in engines if e.dir})


def test_a_blob_is_one_block():
    program = made(epoch_controller=True).program
    blob, softmax = epoch_blocks(program)
    assert blob.name == f"EpochBlock_{program.executed[0].number} -> {softmax.number - 1}"
    assert (int(blob.flags), int(softmax.flags)) == (0x17, 0x23)
    assert blob.engines > 2 and softmax.engines == 0


def test_epochs_with_a_blob_each_stay_apart():
    program = made(epoch_controller=True, ec_single_epoch=True).program
    blocks = epoch_blocks(program)
    assert len(blocks) == len(program.executed)
    assert {int(block.flags) for block in blocks} == {0x17, 0x23}


def test_callbacks_come_in_order():
    net = made()
    seen = []
    runtime = Runtime(
        net.program,
        net.machine,
        on_runtime=lambda event, unit: seen.append(event),
        on_epoch=lambda event, unit, block: seen.append((event, block.number)),
    )
    with runtime:
        runtime.infer()
    assert seen[0] is RuntimeEvent.RT_INIT and seen[-1] is RuntimeEvent.RT_DEINIT
    numbers = [epoch.number for epoch in net.program.executed]
    assert seen[1:-1] == [(event, number) for number in numbers for event in EpochEvent]


@pytest.mark.parametrize("epoch_controller", [True, False])
def test_a_callback_times_the_phases(epoch_controller):
    net = made(epoch_controller)
    stamps = []

    def stamp(event, unit, block):
        if event is EpochEvent.PRE_START:
            watch_clock(unit)
        stamps.append((unit.mcu_cycles, unit.read(0)))

    with Runtime(net.program, net.machine, on_epoch=stamp) as runtime:
        runtime.infer()
    mcu = [stamps[i + 1][0] - stamps[i][0] for i in range(len(stamps) - 1) if i % 4 != 3]
    npu = [stamps[i + 1][1] - stamps[i][1] for i in range(len(stamps) - 1) if i % 4 != 3]
    rows = count_epochs(net.program, net.machine)
    assert sum(mcu[0::3]) == sum(round(row.pre_cycles) for row in rows)
    assert sum(npu[1::3]) == sum(round(row.core_cycles) for row in rows)
    assert sum(mcu[2::3]) == sum(round(row.post_cycles) for row in rows)


def test_without_callbacks_time_still_passes():
    net = made()
    runtime = Runtime(net.program, net.machine)
    runtime.infer()
    once = runtime.unit.npu_cycles
    runtime.infer()
    assert runtime.unit.npu_cycles == 2 * once > 0


# What the epoch controller reads for itself.


def test_bursts_of_a_fetch():
    assert fetch_bursts(0) == (0, 0, 0, 0)
    assert fetch_bursts(64 * 5 + 8 * 7) == (1, 1, 1, 5)
    assert fetch_bursts(63) == (0, 0, 0, 1)
    assert fetch_bursts(4) == (1, 0, 0, 0)


def read_bytes(net, blob_fetch):
    def count(event, unit, block):
        if event is EpochEvent.PRE_START:
            watch_bursts(unit, 0, "r")
        if event is EpochEvent.POST_END:
            total.append(sum(8 * unit.read(i) << i for i in range(4)))

    total = []
    with Runtime(net.program, net.machine, on_epoch=count, blob_fetch=blob_fetch) as runtime:
        runtime.infer()
    return sum(total), runtime


def test_fetches_of_blobs_can_be_counted():
    net = made(epoch_controller=True)
    without, plain = read_bytes(net, False)
    with_fetch, runtime = read_bytes(net, True)
    number = runtime.blocks[0].blob
    size = len(write_binary(EcBinary(lower(net.program, number))))
    assert (plain.blocks[0].blob_bytes, runtime.blocks[0].blob_bytes) == (0, size)
    assert size <= with_fetch - without < size + 8
    assert runtime.notes == ()


def test_a_blob_that_cannot_be_lowered_is_noted():
    net = made(epoch_controller=True)
    epochs = tuple(
        replace(epoch, groups=None) if epoch.blob is not None else epoch
        for epoch in net.program.epochs
    )
    runtime = Runtime(replace(net.program, epochs=epochs), net.machine, blob_fetch=True)
    block = runtime.blocks[0]
    assert block.blob_bytes == 0
    assert runtime.notes == (
        f"fetches of blob {block.blob} not counted: the epoch has no unit registers, "
        "so no blob can be made",
    )
