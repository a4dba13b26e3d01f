"""Verbs about devices: loadable images and the boards that run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import UsageError
from npuscope.lean_dataclass import dataclass, replace
from npuscope.options.check import verb
from npuscope.options.rows import DEFAULT_ADDRESS
from npuscope.text import safe_terminal
from npuscope.whole_file import write_files

if TYPE_CHECKING:
    import numpy as np

    from npuscope.boards.emulated.board import EmulatedBoard
    from npuscope.boards.emulated.boot import Placed
    from npuscope.boards.listeners import PtyListener, Served, TcpListener
    from npuscope.boards.simulated import SimulatedBoard
    from npuscope.building import Build, Options, Source
    from npuscope.loadable.build import Package
    from npuscope.loadable.codes import PackageOptions
    from npuscope.loadable.deploy import Ran
    from npuscope.profiling.load_and_run import LoadAndRun

__all__ = ["board_serve", "deploy", "package", "run"]

_DEFAULT_BUILD = "st_ai_output"
_DEFAULT_IMAGE = "build/network_rel.bin"


@verb
def package(
    source: str | Path = _DEFAULT_BUILD,
    directory: str | Path | None = None,
    options: PackageOptions | None = None,
    *,
    name: str = "",
    cpu: str = "cortex-m33",
    toolchain: str = "zig",
    split: bool = False,
    no_secure: bool = False,
    gen_c_file: bool = False,
    no_clean: bool = False,
) -> Package:
    """A compiled network as an image that a firmware loads at run time.

    In: a folder that `compile` wrote with `relocatable`, or its network.c. Out: the image with its
    files; with `directory` they are written there.

    >>> npuscope.package("net", "build", cpu="cortex-m33").files
    """
    from npuscope.loadable.build import package as run_package
    from npuscope.loadable.codes import PackageOptions

    asked = options or PackageOptions(
        name=name,
        cpu=cpu,
        toolchain=toolchain,
        split=split,
        secure=not no_secure,
        c_file=gen_c_file,
    )
    made = run_package(Path(source), asked)
    if directory is not None:
        write_files(Path(directory), made.files)
        if no_clean:
            write_files(Path(directory) / f"{made.name}_build", made.intermediate)
    return made


@verb
def run(
    source: str | Path | Placed = _DEFAULT_IMAGE,
    *,
    mode: str = "copy",
    address: str = DEFAULT_ADDRESS,
    generation: str = "",
    batch: int = 1,
    inputs: Sequence[np.ndarray] | None = None,
    mcu_mhz: float | None = None,
    npu_mhz: float | None = None,
) -> LoadAndRun:
    """Load an image on the emulated board and run it.

    In: NAME_rel.bin of `package` for the cortex-m33, or a build folder, which is packaged on the
    way; `mode` and `address` as on the command line. Out: the inferences, with cycles by epoch.

    >>> npuscope.run("build/network_rel.bin", batch=3).total_ms
    """
    from npuscope.machine.load import load_machine
    from npuscope.profiling.load_and_run import (
        load_and_run,
        named,
        parse_addresses,
        parse_modes,
        place,
    )

    told = {"clocks.mcu_mhz": mcu_mhz, "clocks.npu_mhz": npu_mhz}
    overrides = {name: value for name, value in told.items() if value is not None}
    modes, addresses = parse_modes(mode), parse_addresses(address)
    if "no-flash" in modes:
        raise UsageError(
            "the emulated board's flash is empty whenever it starts", where="--mode no-flash"
        )
    clocks = load_machine(overrides=overrides).clocks
    start = partial(
        load_and_run,
        clocks=clocks,
        generation=generation,
        batch=0 if "no-run" in modes else batch,
        inputs=inputs,
        fast_line="max-speed" in modes,
    )
    if not isinstance(source, (str, Path)):
        return start(source)
    placed = place(Path(source), modes, addresses)
    with named(Path(source)):
        return start(placed)


@verb
def deploy(
    source: str | Path,
    *,
    board: str = "stm32n6570-dk",
    fsbl: str | Path | None = None,
    application: str | Path | None = None,
    tool: str = "STM32_Programmer_CLI",
    run: bool = False,
) -> tuple[Ran, ...]:
    """A network onto a real board, with the programmer's command line tool.

    In: a build folder or a NAME_rel.bin; boot loader and application are programmed where given.
    Out: the steps, each with what its command printed; without `run` nothing is done.

    >>> npuscope.deploy("net", application="app_signed.hex")
    """
    from npuscope.loadable.deploy import Ran, recipe, run_steps

    parts = {"fsbl": fsbl, "application": application}
    paths = {name: Path(path) if path else None for name, path in parts.items()}
    steps = recipe(Path(source), board, tool=tool, **paths)
    if not run:
        return tuple(Ran(step, "") for step in steps)
    return tuple(run_steps(steps, board, tool))


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a virtual board answers, and the networks on it."""

    address: str
    networks: tuple[str, ...]


@verb
def board_serve(
    *sources: Source,
    pty: bool = False,
    tcp: int | None = None,
    host: str = "127.0.0.1",
    emulated: bool = False,
    ready: Callable[[Listening], None] | None = None,
    **options: Unpack[Options],
) -> None:
    """Serve a virtual board to any client, until it is interrupted.

    In: the networks on it; a pseudo terminal (`pty`) or a `tcp` port. `ready` is called with the
    address before anybody can connect. Out: nothing; Ctrl-C ends it.

    >>> npuscope.board_serve("model.tflite", tcp=0, ready=print)
    """
    if pty == (tcp is not None):
        raise UsageError("a way to reach the board is needed", hint="give --pty or --tcp PORT")
    if tcp is not None and not 0 <= tcp < 0x10000:
        raise UsageError(f"expected a port from 0 to 65535, found {tcp}", where="--tcp")
    with _powered(sources, emulated, options) as (served, names):
        listener = _listener(tcp, host)
        try:
            if ready is not None:
                ready(Listening(listener.address, tuple(names)))
            listener.serve(served)
        except KeyboardInterrupt:  # a signal is the usual way to stop a board
            pass
        finally:
            listener.close()


@contextmanager
def _powered(
    sources: Sequence[Source], emulated: bool, options: Options
) -> Iterator[tuple[Served, list[str]]]:
    """What answers, and the networks on it."""
    if emulated:
        with _emulated(sources, options) as found:
            from npuscope.boards.emulated.board import Bridge

            names = [network.name for network in found.info().networks]
            yield Bridge(found.machine), names
        return
    from npuscope.boards.server import VirtualBoard

    board = _simulated(sources, options)
    yield VirtualBoard(board, memory=board), [network.name for network in board.info().networks]


@contextmanager
def _emulated(sources: Sequence[Source], options: Options) -> Iterator[EmulatedBoard]:
    """All sources packaged and loaded side by side."""
    from npuscope.boards.emulated.boot import load, side_by_side
    from npuscope.boards.emulated.firmware import CPU
    from npuscope.loadable.build import package_program
    from npuscope.loadable.codes import PackageOptions
    from npuscope.program.network_c.layout import DIALECT_2, dialect

    made = _built(sources, {**options, "relocatable": True})
    images = [
        package_program(one.program, one.machine, PackageOptions(cpu=CPU, name=name))
        for one, name in zip(made, _unique(made), strict=True)
    ]
    generation = made[0].program.generation
    found = load(
        side_by_side([next(iter(image.files.values())) for image in images]),
        generation,
        made[0].machine.clocks,
        dialect=2 if dialect(generation) is DIALECT_2 else 3,
    )
    found.require_all()
    try:
        yield found.board
    finally:
        found.board.close()


def _simulated(sources: Sequence[Source], options: Options) -> SimulatedBoard:
    """All sources as the networks of one board, each under its own name."""
    from npuscope.boards.simulated import SimulatedBoard

    made = _built(sources, options)
    pairs = zip(_unique(made), made, strict=True)
    programs = [replace(one.program, name=name) for name, one in pairs]
    return SimulatedBoard(programs, made[0].machine)


def _unique(made: list[Build]) -> list[str]:
    from npuscope.boards.wire.describe import unique_names

    return list(unique_names(one.program.name for one in made))


def _built(sources: Sequence[Source], options: Options) -> list[Build]:
    if not sources:
        raise UsageError("a board needs a network", hint="give a model or a build")
    from npuscope.building import build

    made = [build(source, options) for source in sources]
    # Who starts the epochs is in each program: one board runs both kinds.
    machines = [replace(one.machine, epoch_controller=True) for one in made]
    for source, one, machine in zip(sources, made, machines, strict=True):
        if machine != machines[0]:
            raise UsageError(
                f"is for generation {one.machine.generation.name}, "
                f"the first source for {made[0].machine.generation.name}",
                where=safe_terminal(str(source)),
                hint="serve programs of one generation together, or name it with --generation",
            )
    return made


def _listener(tcp: int | None, host: str) -> PtyListener | TcpListener:
    from npuscope.boards.listeners import PtyListener, TcpListener

    return PtyListener() if tcp is None else TcpListener(tcp, host)
