"""Run a compiled program as the vendor's runner does: iterations, samples, files, a table."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from statistics import fmean, pstdev

from msgspec import Struct
from msgspec.structs import asdict

from npuscope.bounded_file import CORE_PROGRAM, read_bytes
from npuscope.errors import FileError, UsageError
from npuscope.families.many_core.machine import CoreMachine, load_core_machine
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.runner_files import (
    absent_notes,
    buffer_files,
    check_folder,
    check_views,
    host_files,
    summary_files,
)
from npuscope.families.many_core.sim.conditions import RunOptions, RunResult
from npuscope.families.many_core.sim.run import simulate
from npuscope.shown import Rows, ShownRecord, counted
from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.whole_file import write_files


class ProfilingType(Enum):
    STATS = "stats"
    TRACE = "trace"
    LATENCY = "latency"
    RAW = "raw_device_stats"


class Metric(Struct, frozen=True):
    """One row of the table: over all iterations."""

    name: str
    average: float
    least: float
    most: float
    deviation: float


class RunReport(ShownRecord, frozen=True):
    """What a run gave. Times are those of the simulated machine."""

    network: str
    inferences: int
    total_us: float
    batch: int
    metrics: tuple[Metric, ...]
    files: tuple[Path, ...]
    notes: tuple[str, ...]
    result: RunResult

    @property
    def inferences_per_s(self) -> float:
        return self.inferences * self.batch / self.total_us * 1e6

    def told(self) -> str:
        times = counted(self.inferences, "inference")
        return f"{self.network}: {times}, {self.inferences_per_s:.1f} per s"

    def table(self) -> Rows:
        """One row per metric."""
        return [asdict(metric) for metric in self.metrics]


def run_program(
    test_data: str | Path,
    *,
    profiling: ProfilingType | str | Sequence[str] | None = None,
    out_dir: str | Path = ".",
    options: RunOptions | None = None,
    views: Sequence[str] = (),
    machine: CoreMachine | None = None,
    specialization: str = "",
) -> RunReport:
    """Run the program of a folder; with profiling types their files are written to `out_dir`.

    `views` (see runner_views) are those that the program must have been compiled for.
    """
    kinds = _types(profiling)
    folder = Path(out_dir)
    if kinds:
        check_folder(folder)
    program = load_program(test_data, specialization)
    check_views(program.layout, views)
    options = options or RunOptions()
    result = simulate(program, machine or load_core_machine(), options)
    layout = program.layout
    columns = {
        "ExecTimeUs": [one.exec_us for one in result.iterations],
        "InputWaitTimeUs": [one.input_wait_us for one in result.iterations],
        "OutputWaitTimeUs": [one.output_wait_us for one in result.iterations],
    }
    report = RunReport(
        network=layout.network,
        inferences=len(result.iterations) * options.activations,
        total_us=result.total_us,
        batch=max(layout.stats_batch, 1),
        metrics=tuple(
            Metric(name, fmean(values), min(values), max(values), pstdev(values))
            for name, values in columns.items()
        ),
        files=(),
        notes=result.notes,
        result=result,
    )
    for kind in kinds:
        report = _with_files(report, program, kind, folder, options)
    return report


def _types(kinds: ProfilingType | str | Sequence[str] | None) -> tuple[ProfilingType, ...]:
    """Each once, in the order in which they were asked for."""
    if kinds is None or isinstance(kinds, ProfilingType):
        return () if kinds is None else (kinds,)
    words = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    # A simulated run is over at once: what a stream would have saved is saved whole.
    words = tuple(word.removesuffix("_stream") for word in words)
    names = [kind.value for kind in ProfilingType]
    for word in words:
        if word not in names:
            raise UsageError(
                f"unknown type '{safe_terminal(word)}'",
                where="--aic-profiling-type",
                hint=f"known: {', '.join(names)}",
            )
    return tuple(ProfilingType(word) for word in dict.fromkeys(words))


def load_program(test_data: str | Path, specialization: str = "") -> CoreProgram:
    """From the folder that the compiler wrote, or from programqpc.bin itself."""
    from npuscope.families.many_core.container import FILE_NAME
    from npuscope.families.many_core.specializations import chosen, read_programs

    path = Path(test_data)
    path = path / FILE_NAME if path.is_dir() else path
    hint = "`npuscope manycore compile -model=FILE -aic-binary-dir=DIR` makes it"
    data = read_bytes(path, CORE_PROGRAM, hint=hint)
    try:
        return chosen(read_programs(data), specialization)
    except FileError as error:
        where = f"{path}: {error.where}" if error.where else str(path)
        raise FileError(error.message, where=where, hint=error.hint) from None


def _with_files(
    report: RunReport, program: CoreProgram, kind: ProfilingType, folder: Path, options: RunOptions
) -> RunReport:
    before = report.files
    if kind is ProfilingType.STATS:
        files = summary_files(report.result)
        return replace(report, files=(*before, *write_files(folder, files)))
    if kind is ProfilingType.RAW:
        files = buffer_files(report.result)
        notes = (*report.notes, *absent_notes(program.layout))
        return replace(report, files=(*before, *write_files(folder, files)), notes=notes)
    files = host_files(report.result, program.layout, kind.value, options)
    return replace(report, files=(*before, *write_files(folder, files)))


def run_lines(report: RunReport) -> list[str]:
    """What the vendor's runner prints: a line of totals, then the table of the iterations."""
    lines = [
        " ---- Stats ----",
        f"InferenceCnt {report.inferences} TotalDuration {report.total_us:.0f}us "
        f"BatchSize {report.batch} Inf/Sec {report.inferences_per_s:.3f}",
        "Device Performance: ",
        _metric_line("Metric", ("Avg", "Min", "Max", "Std")),
    ]
    for row in report.metrics:
        values = (row.average, row.least, row.most, row.deviation)
        lines.append(_metric_line(row.name, [f"{value:.3f}" for value in values]))
    return lines


def _metric_line(name: str, values: Sequence[str]) -> str:
    *others, last = values
    return f"{name + ',':<17}" + "".join(f"{value + ',':<15}" for value in others) + f"{last:<15}"
