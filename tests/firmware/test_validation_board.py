"""The validation firmware on the emulated board: loaded networks compute and count as simulated."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler.nets import random_network
from firmware.bare_build import M33
from firmware.sample_image import Board, build_sample, expected
from firmware.validation_board import (
    CLEAR,
    COPY,
    EMPTY,
    REFUSED,
    SERVED,
    XIP,
    Entry,
    Image,
    booted,
    check,
    image_of,
    inputs_of,
    results,
)
from npuscope.boards.client_exchange import Exchange, RefusedError, Timeouts
from npuscope.boards.device import CounterOption, Request
from npuscope.boards.emulated.board import EmulatedBoard
from npuscope.boards.emulated.memory import EXEC_RAM_ADDRESS, FIRMWARE_ADDRESS, FLASH_ADDRESS
from npuscope.boards.server_run import bsd_checksum
from npuscope.boards.wire.framing import State, TensorFlag, WireCommand
from npuscope.boards.wire.messages import Ack, Data, Operator, SysInfo, Tensor
from program.network_c.nets import kernels, layers, moves

for module in ("ziglang", "unicorn", "elftools"):
    pytest.importorskip(module, reason=f"{module} is not installed: no emulated board")

GRAPHS = {
    "moves": moves,
    "kernels": kernels,
    "layers": layers,
    "random": lambda: random_network(1),
}
BUILDS = {
    "4.0 controller": {"generation": "4.0", "epoch_controller": True},
    "4.0": {"generation": "4.0", "epoch_controller": False},
    "2.2": {"generation": "2.2", "epoch_controller": False},
}
PASSES = tuple(map(CounterOption, (0, 0x31, 0x51, 0x08, 0x02, 0x04)))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Image]:
    folder = tmp_path_factory.mktemp("images")
    return {
        (graph, build): image_of(make(), folder / f"{graph} {build}", **options)
        for graph, make in GRAPHS.items()
        for build, options in BUILDS.items()
    }


Images = dict[tuple[str, str], Image]


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_network_runs_and_counts_as_simulated(images: Images, graph: str, build: str) -> None:
    image = images[graph, build]
    with booted(Entry(image)) as board:
        info = board.info()
        assert results(board)[0] == (0, SERVED, "")
        assert info.description.endswith("emulated")
        assert info.link_checked
        (network,) = info.networks
        known = image.simulated.info().networks[0]
        assert [(t.name, t.shape, t.dtype) for t in network.outputs] == [
            (t.name, t.shape, t.dtype) for t in known.outputs
        ]
        assert [t.scale for t in network.inputs] == pytest.approx(
            [t.scale for t in known.inputs], rel=1e-6
        )
        assert network.nodes == known.nodes
        values = inputs_of(board, network.name)
        for options in PASSES:
            found = board.run(Request(network.name, values, options=options))
            check(found, image.simulated.run(Request(known.name, values, options=options)))


@pytest.mark.parametrize("mode", [XIP, COPY])
def test_parameters_in_a_file_of_their_own(tmp_path: Path, mode: int) -> None:
    image = image_of(layers(), tmp_path, split=True)
    with booted(Entry(image, mode | CLEAR)) as board:
        (network,) = board.info().networks
        values = inputs_of(board, network.name)
        wanted = image.simulated.run(Request(image.program.name, values))
        check(board.run(Request(network.name, values)), wanted)


def damaged(image: Image) -> Image:
    broken = bytearray(image.file)
    broken[len(broken) // 2] ^= 1
    return replace(image, file=bytes(broken))


def test_networks_side_by_side(images: Images) -> None:
    """One that does not fit and one that is damaged leave the others alone."""
    first, second = images["random", "4.0"], images["layers", "4.0 controller"]
    third = images["moves", "4.0"]
    entries = (Entry(first), Entry(third, exec_bytes=64), Entry(damaged(third)), Entry(second))
    with booted(*entries) as board:
        names = [network.name for network in board.info().networks]
        assert names == ["network", "network_2"]
        assert [(code, status) for code, status, _ in results(board)] == [
            (0, SERVED),
            (-2, REFUSED),
            (-1, REFUSED),
            (0, SERVED),
        ]
        assert results(board)[1][2] == "the exec RAM is too small"
        assert system_info(board).extra[4:] == (1 << 16 | 0xFFFE, 2 << 16 | 0xFFFF)
        for seed in (1, 2):
            for name, image in zip(names, (first, second), strict=True):
                values = inputs_of(board, name, seed)
                wanted = image.simulated.run(Request(image.program.name, values))
                check(board.run(Request(name, values)), wanted)


def test_parameters_in_shared_memory_are_copied_again(images: Images) -> None:
    """Both networks use the same pool, one for its activations. The sample counts inferences
    since it was installed, and leaves its inputs and outputs to the firmware."""
    other = images["random", "4.0"]
    pool = min(p.address for p in other.program.pools if p.writable and p.used_bytes)
    place = Board(M33, FLASH_ADDRESS, 0, 0, 0, pool, 0x34270000, 0)
    sample = replace(other, file=build_sample(place).sealed)
    numbers = np.arange(-3, 5, dtype="<i4")
    wanted = [struct.pack("<8i", *expected(tuple(numbers), n)) for n in (1, 2)]
    with booted(Entry(sample), Entry(other)) as board:
        assert [n.name for n in board.info().networks] == ["sample", "network"]
        request = Request("sample", (numbers.view(np.uint8),))
        others = Request("network", inputs_of(board, "network"))
        found = [
            board.run(r).outputs[0].tobytes()[:32] for r in (request, request, others, request)
        ]
    assert found[:2] + found[3:] == [wanted[0], wanted[1], wanted[0]]


def conversation(board: EmulatedBoard) -> Exchange:
    exchange = Exchange(board.machine.link(), Timeouts(), 100)
    exchange.synchronise()
    return exchange


def system_info(board: EmulatedBoard) -> SysInfo:
    exchange = conversation(board)
    exchange.request(WireCommand.SYS_INFO)
    return exchange.answer(SysInfo, 1.0, "system info")[0]


@pytest.mark.parametrize(
    ("exec_ram", "reason"),
    [(FIRMWARE_ADDRESS, "not one of this board"), (EXEC_RAM_ADDRESS + 64, "another network's")],
)
def test_code_is_not_put_over_other_code(images: Images, exec_ram: int, reason: str) -> None:
    image = images["moves", "4.0"]
    with booted(Entry(image), Entry(image, exec_ram=exec_ram)) as board:
        assert [network.name for network in board.info().networks] == ["network"]
        code, status, text = results(board)[1]
        assert (code, status) == (-2, REFUSED)
        assert reason in text


def test_a_board_without_networks(images: Images) -> None:
    with booted() as board:
        assert board.info().networks == ()
        assert [status for _, status, _ in results(board)] == [EMPTY] * 4


def test_files_without_a_checksum_can_be_refused(images: Images) -> None:
    image = images["moves", "4.0"]
    bare = replace(image, file=image.file[:-16])
    with booted(Entry(bare), Entry(image), requires_trailer=True) as board:
        assert len(board.info().networks) == 1
        assert [status for _, status, _ in results(board)[:2]] == [REFUSED, SERVED]


def test_broken_packets_are_dropped_after_a_silence(images: Images) -> None:
    with booted(Entry(images["moves", "4.0"])) as board:
        link = board.machine.link()
        for noise in (b"\x00\x0b\x0a", b"\xff" * 40, b"\x00\x03\x02\x0b\x0b" + bytes(29)):
            link.write(noise)
            assert link.read(1, 0.5) == b""
            assert conversation(board).reqid > 100
        assert len(board.info().networks) == 1


def test_a_host_that_starts_again_inside_a_run(images: Images) -> None:
    image = images["layers", "4.0"]
    with booted(Entry(image)) as board:
        values = inputs_of(board, "network")
        exchange = conversation(board)
        exchange.request(WireCommand.NETWORK_RUN, param=3, name="network", opt=0x1 << 8)
        exchange.answer(Ack, 1.0, "start", State.WAITING)
        for value in values:
            exchange.send(Data(size_bytes=value.nbytes, data=value.tobytes()))
            exchange.answer(Ack, 1.0, "input")
            exchange.send(Ack())
        # The first line of the first node waits for its acknowledgement.
        wanted = image.simulated.run(Request(image.program.name, values))
        check(board.run(Request("network", values)), wanted)


def test_memory_of_the_board(images: Images) -> None:
    data = bytes(range(256)) * 6
    place = EXEC_RAM_ADDRESS + 0x90000
    with booted(Entry(images["moves", "4.0"])) as board:
        exchange = conversation(board)
        exchange.request(WireCommand.MEMORY_WRITE, param=place, opt=len(data))
        assert exchange.answer(Ack, 1.0, "room")[0] == Ack(1024)
        for start in (0, 1024):
            exchange.send(Data(size_bytes=len(data[start:][:1024]), data=data[start:][:1024]))
            assert exchange.answer(Ack, 1.0, "sum")[0].param == bsd_checksum(data[start:][:1024])
        assert board.machine.read(place, len(data)) == data
        exchange.request(WireCommand.MEMORY_CHECKSUM, param=place, opt=len(data))
        assert exchange.answer(Ack, 1.0, "sum")[0].param == bsd_checksum(data)
        for address in (FIRMWARE_ADDRESS, 0x70000000, 0x10000000):
            exchange.request(WireCommand.MEMORY_WRITE, param=address, opt=4)
            with pytest.raises(RefusedError):
                exchange.answer(Ack, 1.0, "room")


def test_tensors_of_epochs(images: Images) -> None:
    """An image has its outputs in its tables, so these are shown at the epoch that writes them."""
    image = images["layers", "4.0"]
    with booted(Entry(image)) as board:
        values = inputs_of(board, "network")
        wanted = image.simulated.run(Request(image.program.name, values))
        exchange = conversation(board)
        exchange.request(WireCommand.NETWORK_RUN, param=7, name="network", opt=1)
        exchange.answer(Ack, 1.0, "start", State.WAITING)
        for value in values:
            exchange.send(Data(size_bytes=value.nbytes, data=value.tobytes()))
            exchange.answer(Ack, 1.0, "input")
            exchange.send(Ack())
        shown = dict(tensors_of_nodes(exchange))
    for name, value in zip(image.program.outputs, wanted.outputs, strict=True):
        assert shown[name] == value.tobytes()


def tensors_of_nodes(exchange: Exchange) -> Iterator[tuple[str, bytes]]:
    while True:
        operator, _ = exchange.answer(Operator, 5.0, "node", limit_bytes=1 << 20)
        if not operator.type >> 24:
            return
        last = bool(operator.type >> 24 & 4)
        while not last:
            tensor, _ = exchange.answer(Tensor, 5.0, "tensor", limit_bytes=1 << 20)
            assert tensor.desc.flags & TensorFlag.INTERNAL
            yield tensor.desc.name, tensor.data.data
            last = bool(tensor.desc.flags & TensorFlag.LAST)
