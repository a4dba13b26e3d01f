"""A network of 700 epochs, profiled through the wire at the speed of a serial line."""

from __future__ import annotations

from pathlib import Path

import pytest

from boards.pump import Pump
from models import Net, save, to_tflite
from npuscope.boards.remote import RemoteBoard
from npuscope.boards.server import VirtualBoard
from npuscope.boards.simulated import SimulatedBoard
from npuscope.building import Build, build
from npuscope.profiling.measure import RunSubject, measure
from npuscope.profiling.model import Profile
from npuscope.profiling.run import profile

EPOCHS = 700


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Build:
    net = Net((1, 6, 6, 4))
    for _ in range(2 * EPOCHS):  # two of them make an epoch
        net.conv(4)
    folder: Path = tmp_path_factory.mktemp("long")
    path = save(folder, "long.tflite", to_tflite(net))
    return build(path, {"epoch_controller": False, "optimization": 0})


def cycles(found: Profile) -> list[tuple[int, ...]]:
    rows = (epoch.counters for epoch in found.epochs)
    return [(round(r.pre_cycles), round(r.core_cycles), round(r.post_cycles)) for r in rows]


@pytest.mark.parametrize("baud", [115200, 921600])
def test_it_profiles_without_a_time_out(made: Build, baud: int) -> None:
    """The time-outs are the default ones, on the clock of the line; no second attempt."""
    simulated = SimulatedBoard(made.program, made.machine)
    pump = Pump(VirtualBoard(simulated, memory=simulated), baud=baud)
    board = RemoteBoard(pump.open, attempts=1)
    found = measure(board, RunSubject(made.program, made.machine))
    board.close()
    expected = profile(made.program, made.machine)
    assert len(found.profile.epochs) == len(expected.epochs) == EPOCHS
    # Counters are whole cycles.
    assert cycles(found.profile) == cycles(expected)
    sent = sum(pump.sent_bytes)
    assert pump.clock > sent * 10 / baud / 2  # the line really was that slow
    print(f"{len(expected.epochs)} epochs at {baud} baud: {pump.clock:.0f} s, {sent} bytes")
