"""Load and run on the emulated board: the right values, wherever an image lies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from boards.emulated.loads import (
    CLOCKS,
    Net33,
    bench,
    check_values,
    packaged,
    start_good,
)
from compiler.nets import MACHINES
from firmware.bare_build import M33
from firmware.sample_image import Board, build_sample, expected
from npuscope import structs
from npuscope.boards.device import Request
from npuscope.boards.emulated import boot
from npuscope.boards.emulated import boot as mailbox
from npuscope.boards.emulated.boot import Mode, Placed, entries_of, files_of, load, side_by_side
from npuscope.boards.emulated.memory import (
    EXEC_RAM_ADDRESS,
    FIRMWARE_ADDRESS,
    MAILBOX_ADDRESS,
    NETWORK_RAM_ADDRESS,
    POOLS_ADDRESS,
)
from npuscope.errors import DeviceError
from npuscope.machine.mpool import with_relative_pools
from npuscope.program.model import EpochKind

MEMORY = -2
COPY, XIP = Mode.COPY | Mode.CLEAR, Mode.XIP | Mode.CLEAR
LOW, USUAL, ODD = 0x70000000, 0x71000000, 0x72345640


@pytest.fixture
def net() -> Net33:
    return packaged("hardware", controller=False)


@pytest.mark.parametrize(
    ("name", "generation", "controller", "split", "mode", "address"),
    [
        ("mixed", "4.0", True, False, COPY, USUAL),
        ("mixed", "4.0", True, True, XIP, ODD),
        ("mixed", "4.0", False, False, XIP, LOW),
        ("mixed", "4.0", False, True, COPY, USUAL),
        ("mixed", "2.2", False, False, COPY, ODD),
        ("mixed", "2.2", True, True, XIP, LOW),
        ("hardware", "4.0", True, False, XIP, ODD),
        ("hardware", "4.0", False, True, COPY, LOW),
        ("hardware", "2.2", True, False, COPY, USUAL),
        ("hardware", "2.2", False, False, XIP, USUAL),
    ],
)
def test_outputs_are_the_simulated_ones(
    name: str, generation: str, controller: bool, split: bool, mode: Mode, address: int
) -> None:
    net = packaged(name, generation, controller, split)
    found = net.load(mode=mode, address=address, params_address=address + 0x400000)
    found.require_all()
    for seed in (0, 1):
        check_values(found.board, net, seed=seed)
    found.board.close()


def test_the_networks_have_what_they_are_chosen_for() -> None:
    for generation in ("2.2", "4.0"):
        kinds = {e.kind for e in packaged("mixed", generation, False).program.executed}
        assert {EpochKind.HW, EpochKind.SW} <= kinds
        only = {e.kind for e in packaged("hardware", generation, False).program.executed}
        assert only == {EpochKind.HW}
    assert packaged("mixed", "4.0", False).program.count(EpochKind.HYBRID) >= 2


def test_one_board_takes_images_in_turn(net: Net33) -> None:
    """The same process: other files, another mailbox, a reset."""
    with bench() as machine:
        for each in (net, packaged("mixed"), net):
            start_good(machine, each)


def test_networks_side_by_side() -> None:
    nets = {
        "first": packaged("hardware", controller=False, called="first"),
        "second": packaged("mixed", called="second"),
    }
    found = load(side_by_side([net.file for net in nets.values()]), "4.0", CLOCKS)
    found.require_all()
    assert [network.name for network in found.board.info().networks] == [*nets]
    for seed in (1, 2):
        for name, net in nets.items():
            check_values(found.board, net, name, seed)
    found.board.close()


def test_one_that_does_not_fit_leaves_the_others_alone(
    net: Net33, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for two inside, and too little of it outside."""
    size = -(-net.image.copy_bytes // 64) * 64
    monkeypatch.setattr(boot, "EXEC_RAM_BYTES", 2 * size)
    monkeypatch.setattr(boot, "_OUTER_EXEC", MAILBOX_ADDRESS - 256)
    found = load(side_by_side([net.file] * 3), "4.0", CLOCKS)
    assert [result.code for result in found.results] == [0, 0, MEMORY]
    assert found.results[2].status is mailbox.Status.REFUSED
    assert found.results[2].reason == "the exec RAM is too small"
    for name in ("network", "network_2"):
        check_values(found.board, net, name)
    with pytest.raises(DeviceError, match=r"refused image 3: the exec RAM is too small \(code -2"):
        found.require_all()
    with pytest.raises(DeviceError, match="the board's process has ended"):
        found.board.machine.state()


def test_code_runs_in_external_ram_where_the_internal_is_full(
    net: Net33, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot, "EXEC_RAM_BYTES", 64)
    assert entries_of([net.placed])[0].exec_ram == NETWORK_RAM_ADDRESS + boot.NETWORK_RAM_BYTES
    found = net.load()
    found.require_all()
    check_values(found.board, net)
    found.board.close()


@pytest.mark.parametrize("with_flash", [True, False])
def test_pools_at_the_first_byte_of_external_ram(with_flash: bool) -> None:
    """The vendor's pools ext2 and ext3: hyperRAM at a fixed address, without flash for all."""
    machine = with_relative_pools(MACHINES["4.0"])
    named = {pool.name: pool for pool in machine.pools}
    fixed, flash = structs.replace(named["hyperRAM"], relative=False), named["octoFlash"]
    pools = (fixed, flash) if with_flash else (fixed,)
    net = packaged("hardware", pools=pools)
    kinds = [(pool.flags.text, pool.descriptor.dst) for pool in net.image.pools]
    alone = [("COPY.MIXED.WCACHED", 0x90000000)]
    beside = [("RESET.ACTIV.WCACHED", 0x90000000), ("RELOC.PARAM.0.RCACHED", 0)]
    assert kinds == (beside if with_flash else alone)
    found = net.load()
    found.require_all()
    check_values(found.board, net)
    found.board.close()


def test_inputs_and_outputs_that_a_network_leaves_to_its_user() -> None:
    """An image that another packager made; it brings no buffers for them."""
    places = (FIRMWARE_ADDRESS, FIRMWARE_ADDRESS, EXEC_RAM_ADDRESS, NETWORK_RAM_ADDRESS)
    board = Board(M33, *places, POOLS_ADDRESS, POOLS_ADDRESS + 0x1000, 0)
    found = load([Placed(build_sample(board).sealed)], "4.0", CLOCKS)
    found.require_all()
    (network,) = found.board.info().networks
    numbers = np.arange(8, dtype="<i4")
    output = found.board.run(Request(network.name, (numbers.view(np.uint8),))).outputs[0]
    # It counts its inferences, and there are two numbers behind those that it writes.
    assert output.view("<i4")[:8].tolist() == list(expected(tuple(numbers.tolist()), 1))
    found.board.close()


def test_files_over_each_other_are_refused() -> None:
    split = packaged("hardware", controller=False, split=True)
    end = USUAL + len(split.file)
    assert set(files_of([replace(split.placed, params_address=end)])) == {USUAL, end}
    with pytest.raises(DeviceError, match=f"overlap the file at {end - 1:#x}"):
        split.load(params_address=end - 1)
    with pytest.raises(DeviceError, match="overlap the file at 0x71000000"):
        files_of([split.placed, split.placed])
