"""`npuscope board serve` with several networks, asked by our own client over every line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import Net, conv_net, dense_net, mobilenet_like, save, to_tflite
from npuscope import building, child
from npuscope.boards.client import send_inputs, start_run
from npuscope.boards.client_exchange import Exchange, Timeouts
from npuscope.boards.device import (
    CounterOption,
    NetworkDesc,
    Request,
    parse_descriptor,
    random_values,
)
from npuscope.boards.link import open_link
from npuscope.boards.remote import RemoteBoard
from npuscope.boards.simulated import SimulatedBoard
from npuscope.boards.wire.framing import OPERATOR_FLAG_SHIFT, State
from npuscope.boards.wire.messages import Operator
from npuscope.cli.main import main
from npuscope.report.build_files import write_network as write_build
from processes import LIMIT_S, started

Capture = pytest.CaptureFixture[str]
START = "import sys; from npuscope.cli.main import main; sys.exit(main(sys.argv[1:]))"
NETS = {"mobile": mobilenet_like(), "dense": dense_net(), "plain net": conv_net()}
EMULATOR = all(find_spec(module) for module in ("ziglang", "unicorn", "elftools"))
BOARDS = (
    pytest.param((), id="simulated"),
    pytest.param(
        ("--emulated",),
        id="emulated",
        marks=pytest.mark.skipif(not EMULATOR, reason="the emulated board is not installed"),
    ),
)
LINES = (
    pytest.param(("--tcp", "0"), id="tcp"),
    pytest.param(
        ("--pty",),
        id="pty",
        marks=pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo terminals"),
    ),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A network with inputs, and what it makes of them where it is alone."""

    source: Path
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]


def case(folder: Path, name: str, net: Net, *, controller: bool) -> Case:
    """Compiled into a folder of its own: served networks differ in who starts their epochs."""
    model = save(folder, f"{name}.tflite", to_tflite(net))
    made = building.build(model, {"epoch_controller": controller, "relocatable": True})
    write_build(made, folder / name)
    board = SimulatedBoard(made.program, made.machine)
    random, (described,) = np.random.default_rng(7), board.info().networks
    inputs = tuple(random_values(random, np.dtype(t.dtype), t.shape) for t in described.inputs)
    return Case(folder / name, inputs, board.run(Request(described.name, inputs)).outputs)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    folder = tmp_path_factory.mktemp("networks")
    return [
        case(folder, name, net, controller=number % 2 == 0)
        for number, (name, net) in enumerate(NETS.items())
    ]


@contextmanager
def served(*words: object) -> Iterator[dict[str, Any]]:
    """What `npuscope board serve` says in its first line, while it serves."""
    command = [*child.command(), "-c", START, "board", "serve", *map(str, words), "--json"]
    with started(command, env=child.environment(), stdout=subprocess.PIPE, text=True) as board:
        assert board.stdout is not None
        yield json.loads(board.stdout.readline())
        board.send_signal(signal.SIGINT)
        assert board.wait(LIMIT_S) == 0


def connected(address: str) -> RemoteBoard:
    return RemoteBoard.connect(parse_descriptor(address))


def node_lines(address: str, network: NetworkDesc, asked: Request) -> list[list[str]]:
    """The `s:node` lines of every node, as they come."""
    with closing(open_link(parse_descriptor(address))) as link:
        exchange = Exchange(link, Timeouts(), 0)
        exchange.synchronise()
        start_run(exchange, network, asked)
        send_inputs(exchange, [values.tobytes() for values in asked.inputs or ()])
        found = []
        while True:
            operator, _ = exchange.answer(Operator, 50.0, "a node", State.PROCESSING)
            if not operator.type >> OPERATOR_FLAG_SHIFT:
                return found
            found.append([line.removeprefix("s:node:") for line in exchange.take_lines()])


def busiest(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("streng_active:max")]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("board", BOARDS)
def test_three_networks_on_one_board(
    cases: list[Case], board: tuple[str, ...], line: tuple[str, ...]
) -> None:
    with served(*(one.source for one in cases), *board, *line) as told:
        for _ in range(2):  # one client after the other
            with closing(connected(told["address"])) as device:
                networks = device.info().networks
                assert [network.name for network in networks] == told["networks"]
                # Memory is shared: each has to run again after each of the others.
                pairs = list(zip(networks, cases, strict=True))
                for network, one in (*pairs, *reversed(pairs)):
                    found = device.run(Request(network.name, one.inputs))
                    assert len(found.nodes) == network.nodes
                    assert np.array_equal(found.outputs[0], one.outputs[0])
                assert device.info().link_checked  # so outputs were compared with the memory too


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize(
    ("option", "way"),
    [
        (CounterOption.STRG_I_ACTIVE, "i"),
        (CounterOption.STRG_O_ACTIVE, "o"),
        (CounterOption.STRG_ACTIVE, "i"),
    ],
)
def test_every_node_names_its_busiest_engine(
    cases: list[Case], board: tuple[str, ...], option: CounterOption, way: str
) -> None:
    """Also a software epoch, with the same words as a real board: no engine, no cycles."""
    mobile = cases[0]
    with served(mobile.source, *board, "--tcp", 0) as told:
        with closing(connected(told["address"])) as device:
            (network,) = device.info().networks
        asked = Request(network.name, mobile.inputs, options=option)
        found = node_lines(told["address"], network, asked)
    software = [":SW" in lines[0] for lines in found]
    assert True in software and False in software
    none = f"streng_active:max:{way}:-1:0"
    for lines, is_software in zip(found, software, strict=True):
        told_of = busiest(lines)
        assert told_of
        assert told_of == [none] if is_software else none not in told_of


@pytest.mark.parametrize("board", BOARDS)
def test_names_on_a_board(cases: list[Case], board: tuple[str, ...], capsys: Capture) -> None:
    """A name with a space, one network twice, and a name that is not there."""
    plain = cases[2].source
    with served(plain, plain, *board, "--tcp", 0) as told:
        first, second = told["networks"]
        assert first.replace("_", " ") == "plain net"
        assert second == f"{first}_2"
        for name in (second, first):
            words = ["profile", "--connect", told["address"], "--name", name, "--json"]
            assert main(words) == 0
            assert json.loads(capsys.readouterr().out)["epochs"]
        assert main(["profile", "--connect", told["address"], "--name", "other"]) == 4
        assert capsys.readouterr().err == (
            "npuscope: --name: no network 'other' on the device\n"
            f"  hint: found: {first}, {second}\n"
        )
        assert main(["profile", "--connect", told["address"]]) == 2
        assert f"hint: one of {first}, {second}\n" in capsys.readouterr().err


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("board", BOARDS)
def test_a_client_that_leaves_in_the_middle(
    cases: list[Case], board: tuple[str, ...], line: tuple[str, ...]
) -> None:
    dense = cases[1]
    with ExitStack() as stack:
        told = stack.enter_context(served(dense.source, *board, *line))
        with closing(connected(told["address"])) as device:
            (network,) = device.info().networks
        with closing(open_link(parse_descriptor(told["address"]))) as link:
            exchange = Exchange(link, Timeouts(), 100)
            exchange.synchronise()
            start_run(exchange, network, Request(network.name, dense.inputs))
        device = stack.enter_context(closing(connected(told["address"])))
        found = device.run(Request(network.name, dense.inputs))
        assert np.array_equal(found.outputs[0], dense.outputs[0])
