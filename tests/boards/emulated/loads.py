"""Networks packaged for the emulated board, changed on purpose, and run there."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from compiler.nets import MACHINES, Net, random_network, sample
from npuscope.boards.device import Request
from npuscope.boards.emulated import boot as mailbox
from npuscope.boards.emulated.board import EmulatedBoard, EmulatedMachine, EmulatedSetup
from npuscope.boards.emulated.boot import BootedBoard, Placed, entries_of, files_of, load, start
from npuscope.boards.emulated.firmware import validation_firmware
from npuscope.compiler.pipeline import CompileOptions, compile_graph
from npuscope.graph.model import Activation, Graph
from npuscope.loadable.build import package_program
from npuscope.loadable.codes import PackageOptions
from npuscope.loadable.image import context_place, read_image
from npuscope.loadable.image_model import Image
from npuscope.loadable.layout import Header, Trailer
from npuscope.machine.model import Machine
from npuscope.machine.mpool import with_relative_pools
from npuscope.ops.images import BlockAttrs
from npuscope.program.model import Pool, Program
from npuscope.program.network_c.layout import dialect
from npuscope.sim.run import execute
from npuscope.structs import replace

CLOCKS = MACHINES["4.0"].clocks


def mixed() -> Graph:
    """Epochs of all kinds: a join, blocks of depth, a turn, scores, float at both ends."""
    net = Net(21)
    x = net.quantize(net.input((1, 8, 8, 8), None), (0.05, 3))
    y = net.conv(x, 8, activation=Activation.RELU)
    joined = net.concat((y, net.conv(x, 8)), (0.3, 4))
    spread = net.op("DepthToSpace", (joined,), BlockAttrs(2), (1, 16, 16, 4), net.quant(joined))
    turned = net.transpose(spread, (0, 2, 1, 3))
    scores = net.softmax(net.reshape(turned, (1, 1024)))
    return net.graph(scores, net.dequantize(net.quantize(turned, (0.2, 1))))


def hardware() -> Graph:
    return random_network(1)


GRAPHS: dict[str, Callable[[], Graph]] = {"mixed": mixed, "hardware": hardware}


@dataclass(frozen=True, slots=True)
class Net33:
    """A network packaged for the board's core, and the graph and the program it came from."""

    graph: Graph
    program: Program
    machine: Machine
    file: bytes
    params: bytes | None

    @property
    def dialect(self) -> int:
        return dialect(self.program.generation).number

    @property
    def image(self) -> Image:
        return read_image(self.file, self.params)

    @property
    def placed(self) -> Placed:
        return Placed(self.file, self.params)

    def load(self, **changes: object) -> BootedBoard:
        placed = dataclasses.replace(self.placed, **changes)  # type: ignore[arg-type]
        return load([placed], self.program.generation, self.machine.clocks, dialect=self.dialect)


@cache
def packaged(
    name: str,
    generation: str = "4.0",
    controller: bool = True,
    split: bool = False,
    called: str = "",
    cpu: str = "cortex-m33",
    pools: tuple[Pool, ...] = (),
) -> Net33:
    for module in ("ziglang", "unicorn", "elftools"):
        pytest.importorskip(module, reason=f"{module} is not installed: no emulated board")
    graph = GRAPHS[name]()
    machine = replace(with_relative_pools(MACHINES[generation]), epoch_controller=controller)
    machine = replace(machine, pools=pools or machine.pools)
    program = compile_graph(graph, machine, CompileOptions(3))
    options = PackageOptions(cpu=cpu, split=split, name=called)
    files = list(package_program(program, machine, options).files.values())
    return Net33(graph, program, machine, files[0], files[1] if split else None)


def check_values(board: EmulatedBoard, net: Net33, name: str = "", seed: int = 0) -> None:
    """An inference on the board gives the simulator's bytes."""
    values = sample(net.graph, seed)
    network = name or board.info().networks[0].name
    inputs = tuple(values[name] for name in net.program.inputs)
    found = board.run(Request(network, inputs))
    wanted = execute(net.program, values).outputs
    for output, value in zip(net.program.outputs, found.outputs, strict=True):
        np.testing.assert_array_equal(value, wanted[output], strict=True)


@contextmanager
def bench(**limits: int) -> Iterator[EmulatedMachine]:
    """A board with the validation firmware and nothing loaded yet."""
    setup = EmulatedSetup(validation_firmware(3), **limits)  # type: ignore[arg-type]
    with EmulatedMachine(setup) as machine:
        yield machine


def start_good(machine: EmulatedMachine, net: Net33) -> None:
    """The board takes the next image and runs it."""
    (result,) = start(machine, entries_of([net.placed]), files_of([net.placed]), CLOCKS)
    assert result == mailbox.Result(0, mailbox.Status.SERVED, "")
    check_values(EmulatedBoard(machine), net)


def start_as_it_is(
    machine: EmulatedMachine, net: Net33, *, data: bytes = b"", **changes: int
) -> mailbox.Result:
    """What the loader says of `data` in the place of a good file, or of a changed entry."""
    data = data or net.file
    (entry,) = entries_of([net.placed])
    entry = replace(entry, file_bytes=len(data))
    entry = replace(entry, **changes)
    (result,) = start(machine, (entry,), {entry.file: data}, CLOCKS)
    return result


def sealed(body: bytes) -> bytes:
    return body + Trailer.of(body).pack()


def patched(file: bytes, at: int, data: bytes) -> bytes:
    """Other bytes, and the trailer that fits them."""
    body = file[: -Trailer.BYTES]
    return sealed(body[:at] + data + body[at + len(data) :])


def with_header(net: Net33, name: str, value: int) -> bytes:
    return patched(net.file, Header.offset(name), struct.pack("<I", value))


def with_context(net: Net33, name: str, value: int) -> bytes:
    return patched(net.file, context_place(net.image.header, name), struct.pack("<I", value))


def with_code(net: Net33, entry: str, code: bytes) -> bytes:
    """One of the image's functions begins with this code."""
    return patched(net.file, net.image.entry_points[entry], code)
