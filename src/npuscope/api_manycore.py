"""Verbs about the many-core machine: compile, run, and what its stats buffers say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.errors import FileError, OutputError, UsageError
from npuscope.lean_dataclass import dataclass, replace
from npuscope.options.check import verb
from npuscope.shown import Shown, counted
from npuscope.text import safe_terminal
from npuscope.whole_file import write_files, write_whole

if TYPE_CHECKING:
    from npuscope.many_core.machine import CoreMachine
    from npuscope.many_core.program import CoreProgram
    from npuscope.many_core.runner import RunReport
    from npuscope.report.opstats_work import Outcome

__all__ = ["manycore_compile", "manycore_run", "opstats"]


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
    from npuscope.report.opstats_work import OpstatsRequest, work

    folder = Path(input_dir)
    if not folder.exists():
        raise FileError("does not exist", where=f"--input-dir {safe_terminal(str(input_dir))}")
    endings = {"trace.json": trace, "perfetto-trace": perfetto}
    outcome = work(
        OpstatsRequest(
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
    from npuscope.report.opstats import opstats_text

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
    others: tuple[CoreProgram, ...] = ()  # for other sets of sizes, in the same file

    def told(self) -> str:
        layout = self.program.layout
        return f"{layout.network} on {counted(layout.cores, 'core')} of {self.machine.name}"


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
    batchsize: int | None = None,
    onnx_define_symbol: Mapping[str, int] | Sequence[str] | None = None,
    network_specialization_config: str | Path | None = None,
    mos: int | None = None,
    machine: str = "cloudai100",
    machine_file: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> CoreBuild:
    """A network to a program for a many-core accelerator.

    In: an .onnx or .tflite model, float or int8, and what its program has to collect; with a
    `network_specialization_config` there is one program for each of its sets of sizes. Out: the
    program with its machine; with `directory`, programqpc.bin there.

    >>> npuscope.manycore_compile("model.onnx", "qpc", stats_level=70).program
    """
    from npuscope.files.load import load_model
    from npuscope.many_core.compiler.options import CompileOptions, pmu_of
    from npuscope.many_core.compiler.pipeline import compile_graph
    from npuscope.many_core.machine import load_core_machine
    from npuscope.many_core.specializations import network_name, read_config

    asked = CompileOptions(
        cores=cores,
        devices=devices,
        stats_level=stats_level,
        stats_batch=stats_batchsize,
        ddr_stats=ddr_stats,
        pmu=pmu_of(pmu_recipe, pmu_events),
        mos=mos,
    )
    found = load_core_machine(machine, overrides=overrides, machine_file=machine_file)
    asked.check(found)
    if batchsize is not None and batchsize < 1:
        raise UsageError(f"expected at least 1, found {batchsize}", where="-batchsize")
    config = network_specialization_config
    programs = []
    for number, sizes in enumerate(read_config(config) if config else ({},)):
        symbols = {**_symbols(onnx_define_symbol), **sizes}
        graph = load_model(model, shapes, batchsize, symbols)
        named = replace(asked, network=network_name(asked.network, number))
        programs.append(compile_graph(graph, found, named))
    file = None if directory is None else _write_programs(Path(directory), programs)
    return CoreBuild(programs[0], found, file, tuple(programs[1:]))


def _symbols(given: Mapping[str, int] | Sequence[str] | None) -> dict[str, int]:
    """Sizes by the names that the file has for them; as words, NAME=SIZE or NAME,SIZE each."""
    if isinstance(given, Mapping):
        return dict(given)
    found = {}
    for word in given or ():
        name, _, size = word.replace("=", ",").rpartition(",")
        if not name or not (size.isascii() and size.isdecimal()) or not 0 < int(size) < 1 << 31:
            raise UsageError(
                f"expected a name and a size such as batch_size=8, found '{safe_terminal(word)}'",
                where="-onnx-define-symbol",
            )
        found[name] = int(size)
    return found


def _write_programs(folder: Path, programs: Sequence[CoreProgram]) -> Path:
    from npuscope.many_core.container import FILE_NAME
    from npuscope.many_core.specializations import write_programs

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileError("is a file, expected a folder", where=str(folder)) from None
    except OSError as error:
        raise OutputError(f"cannot be made: {error.strerror}", where=str(folder)) from None
    write_files(folder, {FILE_NAME: write_programs(programs)})
    return folder / FILE_NAME


@verb
def manycore_run(
    test_data: str | Path,
    *,
    num_iter: int = 1,
    time: float | None = None,
    activations: int = 1,
    specialization: str = "",
    program: int = 0,
    set_size: int | None = None,
    aic_profiling_type: str | Sequence[str] = (),
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
    from npuscope.many_core.machine import load_core_machine
    from npuscope.many_core.runner import run_program
    from npuscope.many_core.sim.conditions import RunOptions

    types = (aic_profiling_type,) if isinstance(aic_profiling_type, str) else aic_profiling_type
    asked = RunOptions(
        iterations=num_iter,
        samples=aic_profiling_num_samples,
        start_iteration=aic_profiling_start_iter,
        start_delay_ms=aic_profiling_start_delay,
        seed=seed,
        stats_overhead=stats_overhead,
        devices=_devices(devices),
        collect="raw_device_stats" in types,
        activations=activations,
        time_us=None if time is None else time * 1e6,
        set_size=set_size,
        program=program,
    )
    return run_program(
        str(test_data),
        profiling=types,
        out_dir=str(aic_profiling_out_dir),
        options=asked,
        wanted=[word.strip() for word in want.split(",") if word.strip()],
        specialization=str(specialization),
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
