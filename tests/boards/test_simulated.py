"""The simulated board: what it says of itself, what each option counts, its memory."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.boards.device import NOTHING, CounterOption, Device, Request
from npuscope.boards.simulated import SimulatedBoard
from npuscope.building import build
from npuscope.demo_network import demo_graph
from npuscope.errors import DeviceError, TargetError, UsageError
from npuscope.machine.load import load_machine
from npuscope.sim.run import execute
from npuscope.structs import replace

NET = build(demo_graph(), {"epoch_controller": False})
NAME = NET.program.name


@pytest.fixture
def board():
    return SimulatedBoard(NET.program, NET.machine)


def image(seed=1):
    return np.random.default_rng(seed).integers(-128, 128, (1, 96, 96, 3), np.int8)


def first(board, options, per_layer=True):
    return board.run(Request(NAME, options=options, per_layer=per_layer)).nodes[0]


def test_what_it_says_of_itself(board):
    device: Device = board
    info = device.info()
    assert info.clocks.mcu_hz == 800_000_000 and info.clocks.npu_hz == 1_000_000_000
    assert "simulated" in info.description and "simulated" in info.networks[0].runtime
    (network,) = info.networks
    assert network.nodes == len(NET.program.executed)
    (given,), (scores,) = network.inputs, network.outputs
    assert (given.name, given.shape, given.dtype) == ("image", (1, 96, 96, 3), "int8")
    assert (scores.scale, scores.zero_point) == (1 / 256, -128)
    buffer = NET.program.buffer_map()["image"]
    assert given.address == NET.program.pool(buffer.pool).address + buffer.offset
    board.close()


def test_outputs_are_the_hardwares(board):
    answer = board.run(Request(NAME, (image(),)))
    (expected,) = execute(NET.program, {"image": image()}).outputs.values()
    assert np.array_equal(answer.outputs[0], expected)
    (other,) = board.run(Request(NAME, (image(2),))).outputs
    assert not np.array_equal(other, expected)
    flat = board.run(Request(NAME, (image().reshape(-1),)))
    assert np.array_equal(flat.outputs[0], expected)


def test_its_own_inputs_are_seeded(board):
    again, other = (SimulatedBoard(NET.program, NET.machine, seed=seed) for seed in (0, 1))
    outputs = [b.run(Request(NAME)).outputs[0] for b in (board, again, other)]
    assert np.array_equal(outputs[0], outputs[1])
    assert not np.array_equal(outputs[0], outputs[2])


def test_only_the_total_when_epochs_are_not_asked_for(board):
    whole = board.run(Request(NAME, per_layer=False))
    assert whole.nodes == ()
    nodes = board.run(Request(NAME)).nodes
    assert whole.mcu_cycles == tuple(sum(n.mcu_cycles[i] for n in nodes) for i in range(3))
    assert whole.duration_ms == pytest.approx(sum(whole.mcu_cycles) / 800e3)


# Options: (counts NPU cycles, engine directions, envelopes, bursts, cache)

EPOCH_LEN, CACHE = CounterOption.EPOCH_LEN, CounterOption.NPU_CACHE
BOTH, IN, OUT = CounterOption.STRG_ACTIVE, CounterOption.STRG_I_ACTIVE, CounterOption.STRG_O_ACTIVE
HENV, BUSIF = CounterOption.STRG_HENV, CounterOption.BUSIF_RW_DATA
GRANTED = [
    (NOTHING, (False, "", False, False, False)),
    (EPOCH_LEN, (True, "", False, False, False)),
    (CACHE, (False, "", False, False, True)),
    (IN, (True, "i", False, False, False)),
    (OUT | CACHE, (True, "o", False, False, True)),
    (BOTH, (True, "io", False, False, False)),
    (HENV, (True, "", True, False, False)),
    (BUSIF, (False, "", False, True, False)),
    (BUSIF | EPOCH_LEN | CACHE, (False, "", False, True, True)),
    (IN | OUT | BOTH | HENV | BUSIF, (True, "i", False, False, False)),
    (OUT | BOTH | HENV | BUSIF, (True, "o", False, False, False)),
    (BOTH | HENV | BUSIF, (True, "io", False, False, False)),
    (HENV | BUSIF, (True, "", True, False, False)),
]


@pytest.mark.parametrize(("options", "expected"), GRANTED)
def test_options_count_exactly_what_they_allow(board, options, expected):
    node = first(board, options)
    directions = "".join(sorted({way for _, way in node.engines}))
    assert (node.cache_read is None) == (node.cache_write is None)
    assert sum(node.mcu_cycles) > 0
    assert (
        node.npu_cycles is not None,
        directions,
        bool(node.henv),
        bool(node.bursts),
        node.cache_read is not None,
    ) == expected


def test_counters_are_whole_and_agree(board):
    both, one_way = first(board, BOTH), first(board, IN)
    assert {key: n for key, n in both.engines.items() if key[1] == "i"} == one_way.engines
    assert first(board, HENV).henv == {key[0]: n for key, n in one_way.engines.items()}
    assert max(both.engines.values()) <= both.npu_cycles[1]


def test_a_foreign_program_is_timed_but_not_run():
    epochs = tuple(replace(epoch, groups=None) for epoch in NET.program.epochs)
    board = SimulatedBoard(replace(NET.program, epochs=epochs), NET.machine)
    answer = board.run(Request(NAME))
    assert answer.outputs == () and answer.duration_ms > 0
    with pytest.raises(TargetError, match="cannot be executed"):
        board.run(Request(NAME, (image(),)))


def test_several_programs():
    other = replace(NET.program, name="second")
    board = SimulatedBoard([NET.program, other], load_machine(epoch_controller=False))
    assert [net.name for net in board.info().networks] == [NAME, "second"]
    answers = [board.run(Request(name, (image(),))) for name in (NAME, "second")]
    assert np.array_equal(answers[0].outputs[0], answers[1].outputs[0])
    with pytest.raises(UsageError, match="programs with different names"):
        SimulatedBoard([NET.program, NET.program], NET.machine)
    with pytest.raises(UsageError, match="a board needs programs"):
        SimulatedBoard([], NET.machine)


def test_bad_requests(board):
    with pytest.raises(DeviceError) as caught:
        board.run(Request("other"))
    assert str(caught.value) == f"the board has no network 'other'\n  hint: it has: {NAME}"
    with pytest.raises(UsageError, match="2 inputs given, the network has 1"):
        board.run(Request(NAME, (image(), image())))
    with pytest.raises(UsageError, match="has shape"):
        board.run(Request(NAME, (image()[:, :5],)))


# Memory by address.


def test_memory_holds_what_the_inference_left(board):
    (scores,) = board.run(Request(NAME, (image(),))).outputs
    tensor = board.info().networks[0].outputs[0]
    assert board.read(tensor.address, tensor.size_bytes) == scores.tobytes()


def test_memory_holds_what_the_last_network_left():
    """Both have their output in one place."""
    board = SimulatedBoard([NET.program, replace(NET.program, name="second")], NET.machine)
    tensor = board.info().networks[0].outputs[0]
    for name, seed in ((NAME, 0), ("second", 2), (NAME, 0), (NAME, 3)):
        (scores,) = board.run(Request(name, (image(seed),))).outputs
        assert board.read(tensor.address, tensor.size_bytes) == scores.tobytes()


def test_memory_can_be_written_anywhere_in_the_pools(board):
    pool = next(pool for pool in NET.program.pools if pool.size_bytes)
    for address in (pool.address, pool.address + pool.size_bytes - 3):
        board.write(address, b"abc")
        assert board.read(address, 3) == b"abc"
    tensor = board.info().networks[0].inputs[0]
    board.write(tensor.address + 5, b"\1\2\3")
    assert board.read(tensor.address + 4, 5)[1:4] == b"\1\2\3"


def test_weights_written_count_in_the_next_inference(board):
    (before,) = board.run(Request(NAME, (image(),))).outputs
    buffers = NET.program.buffer_map()
    for name in NET.program.constants:
        place = NET.program.pool(buffers[name].pool).address + buffers[name].offset
        board.write(place, bytes(buffers[name].size_bytes))
    (after,) = board.run(Request(NAME, (image(),))).outputs
    assert not np.array_equal(before, after)
    fresh = SimulatedBoard(NET.program, NET.machine).run(Request(NAME, (image(),)))
    assert np.array_equal(fresh.outputs[0], before)


def test_memory_ends_with_the_pools(board):
    end = max(pool.address + pool.size_bytes for pool in NET.program.pools)
    for address, size in ((end, 1), (end - 2, 4), (0, 4)):
        with pytest.raises(DeviceError) as caught:
            board.read(address, size)
        assert str(caught.value) == (
            f"{size} bytes at {address:#x} are outside of the program's pools\n"
            "  hint: read and write inside one pool"
        )
    with pytest.raises(DeviceError):
        board.write(end, b"x")


def test_tensors_of_blocks_end_in_the_outputs():
    made = build(demo_graph(), {"epoch_controller": False})
    board = SimulatedBoard(made.program, made.machine)
    inference, shown = board.run_with_tensors(Request(made.program.name))
    assert len(shown) == len(inference.nodes)
    assert all(array.shape == desc.shape for rows in shown for desc, array in rows)
    ((last, array),) = shown[-1]
    assert last.name == made.program.outputs[0]
    assert np.array_equal(array, inference.outputs[0])


def test_a_buffer_that_cannot_hold_its_shape_is_not_shown():
    """Other compilers' tables list a part of a buffer under the shape of the whole."""
    made = build(demo_graph(), {"epoch_controller": False})
    board = SimulatedBoard(made.program, made.machine)
    _, shown = board.run_with_tensors(Request(made.program.name))
    name = shown[0][0][0].name
    buffers = tuple(replace(b, nbits=16) if b.name == name else b for b in made.program.buffers)
    odd = SimulatedBoard(replace(made.program, buffers=buffers), made.machine)
    inference, rows = odd.run_with_tensors(Request(made.program.name))
    assert name not in {tensor.name for tensor, _ in rows[0]}
    assert rows[-1][0][0].name == made.program.outputs[0]
    assert len(rows) == len(inference.nodes)
