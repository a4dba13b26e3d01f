"""Verbs about devices: images and boards, and the many-core machine with its stats buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import FileError, OutputError, UsageError
from npuscope.options import DEFAULT_ADDRESS, verb
from npuscope.shown import Shown
from npuscope.text import safe_terminal
from npuscope.whole_file import write_files, write_whole

if TYPE_CHECKING:
    import numpy as np

    from npuscope.board.emulated.board import EmulatedBoard
    from npuscope.board.emulated.boot import Placed
    from npuscope.board.listeners import PtyListener, Served, TcpListener
    from npuscope.board.simulated import SimulatedBoard
    from npuscope.building import Build, Options, Source
    from npuscope.loadable.build import Package
    from npuscope.loadable.options import PackageOptions
    from npuscope.manycore.machine import CoreMachine
    from npuscope.manycore.program import CoreProgram
    from npuscope.manycore.runner import RunReport
    from npuscope.profile.load_and_run import LoadAndRun
    from npuscope.report.opstats_work import Outcome

__all__ = ["board_serve", "manycore_compile", "manycore_run", "opstats", "package", "run"]

_DEFAULT_BUILD = "st_ai_output"
_DEFAULT_IMAGE = "build/network_rel.bin"


@verb
def package(
    source: str | Path = _DEFAULT_BUILD,
    directory: str | Path | None = None,
    options: PackageOptions | None = None,
    *,
    name: str = "",
    cpu: str = "cortex-m55",
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
    from npuscope.loadable.options import PackageOptions

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
    from npuscope.profile.image_source import named, parse_addresses, parse_modes, place
    from npuscope.profile.load_and_run import load_and_run

    told = {"clocks.mcu_mhz": mcu_mhz, "clocks.npu_mhz": npu_mhz}
    overrides = {name: value for name, value in told.items() if value is not None}
    modes, addresses = parse_modes(mode), parse_addresses(address)
    if "no-flash" in modes:
        raise UsageError(
            "the emulated board's flash is empty whenever it starts", where="--mode no-flash"
        )
    times = 0 if "no-run" in modes else batch
    if not isinstance(source, (str, Path)):
        clocks = load_machine(overrides=overrides).clocks
        return load_and_run(source, clocks, generation=generation, batch=times, inputs=inputs)
    placed = place(Path(source), modes, addresses)
    with named(Path(source)):
        clocks = load_machine(overrides=overrides).clocks
        return load_and_run(placed, clocks, generation=generation, batch=times, inputs=inputs)


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
    """Serve a virtual board to anybody's client, until it is interrupted.

    In: the networks on it; a pseudo terminal (`pty`) or a `tcp` port. `ready` is called with the
    address before anybody can connect. Out: nothing; Ctrl-C ends it.

    >>> npuscope.board_serve("model.tflite", tcp=0, ready=print)
    """
    if pty == (tcp is not None):
        raise UsageError("one way to reach the board is needed", hint="give --pty or --tcp PORT")
    if tcp is not None and not 0 <= tcp < 0x10000:
        raise UsageError(f"expected a port from 0 to 65535, found {tcp}", where="--tcp")
    with _powered(sources, emulated, options) as (served, names):
        listener = _listener(tcp, host)
        try:
            if ready is not None:
                ready(Listening(listener.address, tuple(names)))
            listener.serve(served)
        except KeyboardInterrupt:  # a signal is the usual way to switch a board off
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
            from npuscope.board.emulated.bridge import Bridge

            names = [network.name for network in found.info().networks]
            yield Bridge(found.machine), names
        return
    from npuscope.board.server import VirtualBoard

    board = _simulated(sources, options)
    yield VirtualBoard(board, memory=board), [network.name for network in board.info().networks]


@contextmanager
def _emulated(sources: Sequence[Source], options: Options) -> Iterator[EmulatedBoard]:
    """All sources packaged and loaded side by side."""
    from npuscope.board.emulated.boot import load, side_by_side
    from npuscope.board.emulated.firmware import CPU
    from npuscope.loadable.from_program import package_program
    from npuscope.loadable.options import PackageOptions
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
    from npuscope.board.simulated import SimulatedBoard

    made = _built(sources, options)
    pairs = zip(_unique(made), made, strict=True)
    programs = [replace(one.program, name=name) for name, one in pairs]
    return SimulatedBoard(programs, made[0].machine)


def _unique(made: list[Build]) -> list[str]:
    from npuscope.board.wire.describe import unique_names

    return list(unique_names(one.program.name for one in made))


def _built(sources: Sequence[Source], options: Options) -> list[Build]:
    if not sources:
        raise UsageError("a board needs a network", hint="give a model or a build")
    from npuscope.building import build

    made = [build(source, options) for source in sources]
    for source, one in zip(sources, made, strict=True):
        if one.machine != made[0].machine:
            raise UsageError(
                f"is for generation {one.machine.generation.name}, "
                f"the first source for {made[0].machine.generation.name}",
                where=safe_terminal(str(source)),
                hint="serve programs of one generation together, or name it with --generation",
            )
    return made


def _listener(tcp: int | None, host: str) -> PtyListener | TcpListener:
    from npuscope.board.listeners import PtyListener, TcpListener

    return PtyListener() if tcp is None else TcpListener(tcp, host)


@verb
def opstats(
    input_dir: str | Path,
    *,
    qpc: str | Path | None = None,
    output_dir: str | Path = ".",
    summary: bool = False,
    trace: bool = False,
    perfetto: bool = False,
    html: str | Path | None = None,
    host_trace: str | Path | None = None,
    select_cores: str | Iterable[int] | None = None,
    select_devices: str | Iterable[int] | None = None,
    merge_mq_traces: bool = True,
    merge_thread_groups: bool = True,
    flow_events: str = "none",
    show_barrier_events: bool = False,
    ignore_uuid: bool = False,
    adapter: str | None = None,
    raw_layout: str | Path | None = None,
    descriptors: str | Path | None = None,
) -> Outcome:
    """Stats buffers of a many-core accelerator as tables, and on request as files.

    In: the folder with the buffers, and the `qpc` that was run. Out: tables by buffer, the files
    that were written to `output_dir`, notes.

    >>> npuscope.opstats("stats", qpc="programqpc.bin", summary=True).tables
    """
    from npuscope.report.opstats_work import Request, work

    folder = Path(input_dir)
    if not folder.exists():
        raise FileError("does not exist", where=f"--input-dir {safe_terminal(str(input_dir))}")
    endings = {"trace.json": trace, "perfetto-trace": perfetto}
    outcome = work(
        Request(
            qpc=_path(qpc),
            source=folder,
            target=Path(output_dir),
            summary=summary,
            traces=tuple(ending for ending, asked in endings.items() if asked),
            host_trace=None if host_trace is None else str(host_trace),
            cores=_numbers(select_cores, "--select-cores"),
            devices=_numbers(select_devices, "--select-devices"),
            merge_devices=merge_mq_traces,
            merge_thread_groups=merge_thread_groups,
            flows=flow_events == "full",
            barriers=show_barrier_events,
            ignore_uuid=ignore_uuid,
            adapter=adapter,
            raw_layout=_path(raw_layout),
            descriptors=_path(descriptors),
        )
    )
    if html:
        _write_page(html, outcome)
    return outcome


def _write_page(path: str | Path, outcome: Outcome) -> None:
    from npuscope.report.html.opstats import opstats_page
    from npuscope.report.opstats_text import opstats_text

    answer = opstats_text(outcome.tables, outcome.written, outcome.notes).partition("\n")[0]
    page = opstats_page(outcome.tables, answer, outcome.notes)
    write_whole(path, page.encode("utf-8", "backslashreplace"))


def _path(name: str | Path | None) -> Path | None:
    return Path(name) if name else None


def _numbers(given: str | Iterable[int] | None, option: str) -> frozenset[int] | None:
    if given is None or not isinstance(given, str):
        return None if given is None else frozenset(given)
    words = [word.strip() for word in given.split(",")]
    if not all(word.isdecimal() and word.isascii() and len(word) < 10 for word in words):
        raise UsageError(
            f"expected numbers with commas between, such as 0,1,5, found '{safe_terminal(given)}'",
            where=option,
        )
    return frozenset(int(word) for word in words)


@dataclass(frozen=True, slots=True, repr=False)
class CoreBuild(Shown):
    """A program for many cores, its machine, and its file if one was written."""

    program: CoreProgram
    machine: CoreMachine
    file: Path | None

    def told(self) -> str:
        layout = self.program.layout
        return f"{layout.network} on {layout.cores} cores of {self.machine.name}"


@verb
def manycore_compile(
    model: str | Path,
    directory: str | Path | None = None,
    *,
    stats_level: int = 40,
    stats_batchsize: int = 1,
    ddr_stats: bool = False,
    pmu_recipe: str | None = None,
    pmu_events: str | None = None,
    cores: int | None = None,
    devices: int = 1,
    machine: str = "cloudai100",
    machine_file: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> CoreBuild:
    """A network to a program for a many-core accelerator.

    In: an .onnx or .tflite model, float or int8, and what its program has to collect. Out: the
    program with its machine; with `directory`, programqpc.bin there.

    >>> npuscope.manycore_compile("model.onnx", "qpc", stats_level=70).program
    """
    from npuscope.graph.load import load_model
    from npuscope.manycore.compiler.options import CompileOptions, pmu_of
    from npuscope.manycore.compiler.pipeline import compile_graph
    from npuscope.manycore.machine import load_core_machine

    asked = CompileOptions(
        cores=cores,
        devices=devices,
        stats_level=stats_level,
        stats_batch=stats_batchsize,
        ddr_stats=ddr_stats,
        pmu=pmu_of(pmu_recipe, pmu_events),
    )
    found = load_core_machine(machine, overrides=overrides, machine_file=machine_file)
    asked.check(found)
    program = compile_graph(load_model(model, shapes), found, asked)
    file = None if directory is None else _write_program(Path(directory), program)
    return CoreBuild(program, found, file)


def _write_program(folder: Path, program: CoreProgram) -> Path:
    from npuscope.manycore.container import FILE_NAME, write_program

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileError("is a file, expected a folder", where=str(folder)) from None
    except OSError as error:
        raise OutputError(f"cannot be made: {error.strerror}", where=str(folder)) from None
    write_files(folder, {FILE_NAME: write_program(program)})
    return folder / FILE_NAME


@verb
def manycore_run(
    test_data: str | Path,
    *,
    num_iter: int = 1,
    aic_profiling_type: str | None = None,
    aic_profiling_out_dir: str | Path = ".",
    aic_profiling_num_samples: int = 1,
    aic_profiling_start_iter: int = 0,
    aic_profiling_start_delay: float = 0.0,
    want: str = "",
    seed: int = 0,
    stats_overhead: bool = False,
    devices: str | Sequence[int] | None = None,
    machine: str = "cloudai100",
    machine_file: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> RunReport:
    """Run a compiled program on the simulated many-core device.

    In: the folder that `manycore_compile` wrote. Out: times over the inferences, and the files
    with stats that `aic_profiling_type` asks for.

    >>> npuscope.manycore_run("qpc", num_iter=10).inferences_per_s
    """
    from npuscope.manycore.machine import load_core_machine
    from npuscope.manycore.runner import run_program
    from npuscope.manycore.sim.options import RunOptions

    asked = RunOptions(
        iterations=num_iter,
        samples=aic_profiling_num_samples,
        start_iteration=aic_profiling_start_iter,
        start_delay_ms=aic_profiling_start_delay,
        seed=seed,
        stats_overhead=stats_overhead,
        devices=_devices(devices),
        collect=aic_profiling_type == "raw_device_stats",
    )
    return run_program(
        str(test_data),
        profiling=aic_profiling_type,
        out_dir=str(aic_profiling_out_dir),
        options=asked,
        wanted=[word.strip() for word in want.split(",") if word.strip()],
        machine=load_core_machine(machine, overrides=overrides, machine_file=machine_file),
    )


def _devices(given: str | Sequence[int] | None) -> tuple[int, ...]:
    if given is None or not isinstance(given, str):
        return tuple(given or ())
    try:
        return tuple(int(word) for word in given.split(","))
    except ValueError:
        raise UsageError(
            f"expected numbers such as 0,1, found '{safe_terminal(given)}'", where="--devices"
        ) from None
