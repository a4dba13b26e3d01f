"""`npuscope board serve SOURCE...`: a virtual board for the vendor's own tools."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Unpack

from npuscope.clock import compile_time
from npuscope.errors import UsageError
from npuscope.options.kinds import Argument, OptionGroup, Verb, flag, text, whole
from npuscope.options.rows import OUTPUT, READING, SOURCE_HELP, TARGET
from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.boards.emulated.board import EmulatedBoard
    from npuscope.boards.listeners import Served
    from npuscope.building import Build, Options, Source
    from npuscope.report.addresses import Listening

# fmt: off
VERB = Verb(
    "serve a virtual board to any client",
    (
        Argument("action", "ACTION", "serve: answer the vendor's protocol", "", ("serve",), False),
        Argument("sources", "SOURCE", SOURCE_HELP, "+"),
    ),
    (
        OptionGroup("connection", (
            flag("pty", "a pseudo terminal, used as a serial port"),
            whole("tcp", "a TCP port; 0 for any free one", "PORT"),
            text("host", "address for --tcp (default: this computer only)", "",
                default="127.0.0.1"),
        ), exclusive=("pty", "tcp"), needs_one=True),
        OptionGroup("", (
            flag("emulated", "firmware on an emulated Cortex-M answers"),
            text("ready", "called with address and networks", "FUNCTION", shell=False),
        )),
        TARGET,
        READING,
        OUTPUT,
    ),
    run="serve",
    text="npuscope.report.addresses:board_text",
    json="npuscope.report.addresses:board_json",
    busy="compiling",
    reads=("sources",),
)
# fmt: on


@checked(VERB)
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
        raise UsageError("no connection selected", hint="give --pty or --tcp PORT")
    if tcp is not None and not 0 <= tcp < 0x10000:
        raise UsageError(f"expected a port from 0 to 65535, found {tcp}", where="--tcp")
    from npuscope.boards.listeners import PtyListener, TcpListener
    from npuscope.report.addresses import Listening

    with _powered(sources, emulated, options) as (served, names):
        listener = PtyListener() if tcp is None else TcpListener(tcp, host)
        try:
            if ready is not None:
                ready(Listening(listener.address, tuple(names)))
            listener.serve(served)
        except KeyboardInterrupt:  # a signal is the usual way to stop a board
            pass
        finally:
            listener.close()


def serve(
    *sources: str,
    pty: bool,
    tcp: int | None = None,
    host: str,
    emulated: bool,
    announce: Callable[[Listening], None],
    **options: Unpack[Options],
) -> None:
    with stoppable():
        board_serve(
            *sources, pty=pty, tcp=tcp, host=host, emulated=emulated, ready=announce, **options
        )


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGINT and SIGTERM both switch off, also where SIGINT was ignored at the start, as it is
    in a script's background jobs."""
    stops = (signal.SIGINT, signal.SIGTERM)
    before = {stop: signal.signal(stop, signal.default_int_handler) for stop in stops}
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, signal.SIG_DFL if handler is None else handler)


@contextmanager
def _powered(
    sources: Sequence[Source], emulated: bool, options: Options
) -> Iterator[tuple[Served, list[str]]]:
    """What answers, and the networks on it."""
    if emulated:
        with _emulated(sources, options) as emulator:
            from npuscope.boards.emulated.board import LinkBridge

            names = [network.name for network in emulator.info().networks]
            yield LinkBridge(emulator.machine), names
        return
    from npuscope.boards.server import VirtualBoard

    # All sources as the networks of one board, each under its own name
    from npuscope.boards.simulated import SimulatedBoard

    builds = _built(sources, options)
    pairs = zip(_unique(builds), builds, strict=True)
    programs = [replace(one.program, name=name) for name, one in pairs]
    board = SimulatedBoard(programs, builds[0].machine, compiled=compile_time())
    yield VirtualBoard(board, memory=board), [network.name for network in board.info().networks]


@contextmanager
def _emulated(sources: Sequence[Source], options: Options) -> Iterator[EmulatedBoard]:
    """All sources packaged and loaded side by side."""
    from npuscope.boards.emulated.boot import load, side_by_side
    from npuscope.boards.emulated.firmware import CPU
    from npuscope.building import for_a_loader
    from npuscope.loadable.build import package_program
    from npuscope.loadable.codes import PackageOptions
    from npuscope.program.network_c.layout import dialect

    builds = _built(sources, options, for_a_loader)
    images = [
        package_program(one.program, one.machine, PackageOptions(cpu=CPU, name=name))
        for one, name in zip(builds, _unique(builds), strict=True)
    ]
    generation = builds[0].program.generation
    start = load(
        side_by_side([next(iter(image.files.values())) for image in images]),
        generation,
        builds[0].machine.clocks,
        dialect=dialect(generation).number,
    )
    start.require_all()
    try:
        yield start.board
    finally:
        start.board.close()


def _unique(builds: list[Build]) -> list[str]:
    from npuscope.boards.wire.describe import unique_names

    return list(unique_names(one.program.name for one in builds))


def _built(
    sources: Sequence[Source],
    options: Options,
    of_source: Callable[[Source, Options], Options] = lambda _, options: options,
) -> list[Build]:
    if not sources:
        raise UsageError("a board needs a network", hint="give a model or a build")
    from npuscope.building import build

    builds = [build(source, of_source(source, options)) for source in sources]
    # Who starts the epochs is in each program: one board runs both kinds.
    machines = [replace(one.machine, epoch_controller=True) for one in builds]
    for source, one, machine in zip(sources, builds, machines, strict=True):
        if machine != machines[0]:
            raise UsageError(
                f"is compiled for generation {one.machine.generation.name}, "
                f"the first source for {builds[0].machine.generation.name}",
                where=safe_terminal(str(source)),
                hint="serve programs of one generation together, or name it with --generation",
            )
    return builds
