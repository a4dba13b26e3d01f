"""One fault in a whole conversation, anywhere: the right result or a clear error, always in time.

The wire has no checksum. A flipped bit that leaves a message well formed cannot be seen on it:
such cases are counted apart, and only flips may end there.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from msgspec.structs import astuple

from boards.pump import (
    CLIENT,
    SERVER,
    FakeDevice,
    Fault,
    FaultKind,
    Pump,
    network,
    virtual_board,
)
from npuscope.boards.client_exchange import Timeouts
from npuscope.boards.device import NOTHING, CounterOption, DeviceInfo, Inference, Request
from npuscope.boards.remote import RemoteBoard
from npuscope.errors import DeviceError, UsageError
from npuscope.structs import replace

SCALE = 0.01
CASES = 250
TIMEOUTS = Timeouts().scaled(SCALE)
# Three attempts, in each of which every kind of wait may run out; four tries to get into step.
LIMIT_S = 3 * 4 * sum(astuple(TIMEOUTS))
# An error says what was awaited, what was refused, or that nobody is there any more.
CLEAR = ("wait", "SYNC", "lost", "cannot open", "no network", "damaged", "expected", "tensor")
PLAIN: dict[str, Any] = {"mcu_cycles": (0, 0, 0), "duration_ms": 0.0}
RIGHT, ERROR, UNSEEN = "right result", "device error", "unseen flip"


@dataclass(frozen=True, slots=True)
class Scenario:
    network: str
    per_layer: bool
    memory: bool
    reset_on_open: bool  # TCP; else a serial line, where the board keeps its state
    options: CounterOption = NOTHING
    baud: int | None = None


COUNTED = CounterOption.EPOCH_LEN | CounterOption.NPU_CACHE
SCENARIOS = {
    "tiny-io-socket": Scenario("tiny", False, False, True),
    "tiny-io-serial": Scenario("tiny", False, False, False, baud=921600),
    "tiny-layers-serial": Scenario("tiny", True, False, False, baud=115200),
    "pair-layers-socket": Scenario("pair", True, False, True, COUNTED),
    "pair-layers-serial": Scenario("pair", True, False, False, COUNTED),
    "pair-io-checked": Scenario("pair", False, True, True, baud=921600),
    "wide-io-checked": Scenario("wide", False, True, False),
    "wide-layers-checked": Scenario("wide", True, True, True, COUNTED),
}


@cache
def device() -> FakeDevice:
    return FakeDevice(
        network("tiny", (3,)),
        network("pair", (2, 5), "int16", inputs=2, nodes=3),
        network("wide", (97,), "int8", nodes=4),
    )


def only(name: str) -> FakeDevice:
    """A board with one network: less talk before the run, so faults hit the run more often."""
    return FakeDevice(device()._networks[name])


def request(scenario: Scenario) -> Request:
    desc = device()._networks[scenario.network].desc
    values = np.random.default_rng(7)
    inputs = tuple(
        values.integers(-50, 50, size=tensor.shape).astype(tensor.dtype) for tensor in desc.inputs
    )
    return Request(scenario.network, inputs, scenario.per_layer, scenario.options)


def pump_for(scenario: Scenario, fault: Fault | None) -> Pump:
    board = virtual_board(only(scenario.network), memory=scenario.memory, scale=SCALE)
    # The line is as much faster as the time-outs are shorter.
    baud = round(scenario.baud / SCALE) if scenario.baud else None
    return Pump(board, fault=fault, baud=baud, reset_on_open=scenario.reset_on_open)


def talk(scenario: Scenario, pump: Pump) -> tuple[DeviceInfo, Inference]:
    board = RemoteBoard(pump.open, TIMEOUTS)
    try:
        return board.info(), board.run(request(scenario))
    finally:
        board.close()
        pump.hang_up()
        assert pump.crash is None, pump.crash


@cache
def faultless(name: str) -> tuple[DeviceInfo, Inference, tuple[int, int]]:
    pump = pump_for(SCENARIOS[name], None)
    info, inference = talk(SCENARIOS[name], pump)
    return info, inference, pump.sent_bytes


def fault_of(seed: int, sent: tuple[int, int]) -> Fault:
    """Every byte of the conversation has the same chance."""
    draw = random.Random(seed)
    kind = draw.choice(tuple(FaultKind))
    at = draw.randrange(sum(sent))
    sender, position = (CLIENT, at) if at < sent[CLIENT] else (SERVER, at - sent[CLIENT])
    return Fault(kind, sender, position, draw.randrange(1, 256), 10 ** draw.uniform(-4, 1))


def same(got: Inference, wanted: Inference) -> bool:
    plain = replace(got, outputs=()) == replace(wanted, outputs=())
    pairs = zip(got.outputs, wanted.outputs, strict=True)
    return plain and all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in pairs)


def outcome(name: str, fault: Fault) -> str:
    scenario = SCENARIOS[name]
    wanted_info, wanted, _ = faultless(name)
    pump = pump_for(scenario, fault)
    try:
        info, got = talk(scenario, pump)
    except DeviceError as error:
        assert error.where == "pump"
        assert any(word in error.message for word in CLEAR), error.message
        return ERROR
    except UsageError:
        # A network described wrongly: our inputs seem not to fit it.
        return UNSEEN
    finally:
        assert pump.touched, "the fault has hit nothing"
        assert pump.clock < LIMIT_S
    if info == wanted_info and info.link_checked and fault.sender == SERVER:
        assert same(replace(got, nodes=(), **PLAIN), replace(wanted, nodes=(), **PLAIN))
    return RIGHT if same(got, wanted) and info == wanted_info else UNSEEN


def hopeless(fault: Fault) -> bool:
    """Beyond repair: a cable that stays out, or a silence longer than we wait for an answer."""
    long_stall = fault.kind is FaultKind.STALL and fault.stall_s > TIMEOUTS.sync_s
    return long_stall or fault.kind is FaultKind.UNPLUG


@pytest.mark.parametrize("name", SCENARIOS)
def test_one_fault_ends_in_the_right_result_or_an_error(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    start = CASES * list(SCENARIOS).index(name)
    counts: Counter[tuple[str, str]] = Counter()
    for seed in range(start, start + CASES):
        fault = fault_of(seed, faultless(name)[2])
        ended = outcome(name, fault)
        assert ended != UNSEEN or fault.kind is FaultKind.CORRUPT, (seed, fault)
        assert ended != ERROR or hopeless(fault) or fault.kind is FaultKind.CORRUPT, (seed, fault)
        counts[fault.kind.value, ended] += 1
    for (kind, ended), n in sorted(counts.items()):
        record_property(f"{kind}: {ended}", n)
        print(f"{name}: {kind}: {ended}: {n}")
    assert counts["corrupt", RIGHT] > counts["corrupt", UNSEEN] + counts["corrupt", ERROR]


@pytest.mark.parametrize("name", ["pair-io-checked", "wide-io-checked"])
def test_where_memory_is_checked_no_flip_of_an_output_passes(name: str) -> None:
    size = sum(array.nbytes for array in faultless(name)[1].outputs)
    last = faultless(name)[2][SERVER]
    # The two output messages and what comes after them: some 60 bytes of heads each.
    for position in range(last - size - 150, last, 3):
        fault = Fault(FaultKind.CORRUPT, SERVER, position, 1 << position % 8)
        assert outcome(name, fault) == RIGHT


@pytest.mark.parametrize("kind", [FaultKind.DROP, FaultKind.DUPLICATE])
@pytest.mark.parametrize("sender", [CLIENT, SERVER])
def test_a_byte_too_few_or_too_many_in_the_last_messages_is_noticed(
    kind: FaultKind, sender: int
) -> None:
    """The end is where nothing follows that would be out of step."""
    last = faultless("tiny-io-socket")[2][sender]
    for position in range(last - 170, last):
        assert outcome("tiny-io-socket", Fault(kind, sender, position)) == RIGHT


@pytest.mark.parametrize(("baud", "least_s"), [(115200, 10.0), (921600, 1.0)])
def test_700_epochs_over_a_slow_line_are_no_time_out(baud: int, least_s: float) -> None:
    """With the default time-outs and no second attempt; the seconds are those of the line."""
    slow = FakeDevice(network("long", (1000,), nodes=700))
    pump = Pump(virtual_board(slow), baud=baud)
    board = RemoteBoard(pump.open, attempts=1)
    inputs = (np.arange(1000).astype(np.int8),)
    got = board.run(Request("long", inputs, True, COUNTED))
    board.close()
    assert pump.openings == 1
    assert len(got.nodes) == 700
    assert same(got, slow.run(Request("long", inputs, True, COUNTED)))
    print(f"700 epochs at {baud} baud: {pump.clock:.1f} s, {sum(pump.sent_bytes)} bytes")
    assert pump.clock > least_s
