"""`npuscope manycore run`: a compiled program on the simulated device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.errors import UsageError
from npuscope.options.kinds import Mark, OptionGroup, Verb, file, flag, list_, real, text, whole
from npuscope.options.rows import CORE_MACHINE, OUTPUT, SET
from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.families.many_core.runner import RunReport

PROFILING_TYPES = ("stats", "trace", "latency", "raw_device_stats")

# One option per row is easier to read than the formatter's layout.
# fmt: off
_RUN = OptionGroup("", (
    file("test_data", "the folder that the compiler wrote, with programqpc.bin", "DIR",
        flags=("--test-data", "-t"), required=True),
    whole("num_iter", "inferences to run (1)", default=1, flags=("--num-iter", "-n")),
    real("time", "run for so many seconds of the device's time instead", "SECONDS"),
    whole("activations", "copies of the network, each on its own cores, that share DDR (1)",
        default=1, flags=("--activations", "-a", "--aic-num-of-activations")),
    text("specialization", "which of several programs of the container: its number or name (0)",
        "N", default=""),
    whole("program", "number of the program in the names of files (0)", default=0),
    whole("set_size", "inferences that wait in the queue of a copy (as the machine says)",
        flags=("--set-size", "-S")),
))
_COMPUTING = OptionGroup("computing", (
    list_("input_file", "raw values of an input, in the network's order; floats have 32 bits; may "
        "be repeated", "FILE", flags=("--input-file", "-i")),
    file("model", "the model that the program was compiled from: needed to compute"),
    file("write_output_dir", "folder for the raw outputs, which must exist (the current one)",
        "DIR", default="."),
))
_PROFILING = OptionGroup("profiling", (
    list_(
        "aic_profiling_type",
        "raw_device_stats saves buffers for `opstats`; stats, trace and latency save what the host "
        "saw; may be repeated",
        "|".join(PROFILING_TYPES),
    ),
    file("aic_profiling_out_dir", "output folder, which must exist (the current one)", "DIR",
        default="."),
    whole("aic_profiling_num_samples", "inferences saved (1)", default=1),
    whole("aic_profiling_start_iter", "first inference that is saved (0)", default=0),
    real("aic_profiling_start_delay", "milliseconds of device time before the first (0)", "MS",
        default=0.0),
    text("want",
        "views that the buffers must support: threads, pmu, ddr, ports, semaphores, ops, op-pmu",
        "LIST", default=""),
))
_SIMULATION = OptionGroup("simulation", (
    whole("seed", "seed of clocks and spreads (0)", default=0),
    flag("stats_overhead", "storing records takes time (default: none)"),
    text("devices", "numbers of the devices, such as 0,1 (from 0 on)", "LIST", flags=("--devices",
        "-d")),
    *CORE_MACHINE,
    replace(SET, means="what-if: replace one value of the machine, e.g. ddr.effective_gb_per_s=100",
        mark=Mark.NONE),
))
VERB = Verb(
    "run a compiled program on the simulated device and collect its stats",
    (),
    (_RUN, _COMPUTING, _PROFILING, _SIMULATION, OUTPUT),
    text="npuscope.families.many_core.report.manycore:run_text",
    json="npuscope.families.many_core.report.manycore:run_json",
    busy="running",
    reads=("test_data", "model"),
)
# fmt: on


@checked(VERB)
def manycore_run(
    test_data: str | Path,
    *,
    num_iter: int = 1,
    time: float | None = None,
    activations: int = 1,
    specialization: str = "",
    program: int = 0,
    set_size: int | None = None,
    input_file: str | Path | Sequence[str | Path] = (),
    model: str | Path | None = None,
    write_output_dir: str | Path = ".",
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

    In: the folder that `manycore_compile` wrote; with `input_file` and `model` it computes.
    Out: times, and the files with stats that `aic_profiling_type` asks for.

    >>> npuscope.manycore_run("qpc", num_iter=10).inferences_per_s
    """
    from npuscope.families.many_core.computing import compute_files
    from npuscope.families.many_core.machine import load_core_machine
    from npuscope.families.many_core.runner import load_program, run_program
    from npuscope.families.many_core.sim.conditions import RunOptions

    types = (aic_profiling_type,) if isinstance(aic_profiling_type, str) else aic_profiling_type
    options = RunOptions(
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
    target = load_core_machine(machine, overrides=overrides, machine_file=machine_file)
    report = run_program(
        str(test_data),
        profiling=types,
        out_dir=str(aic_profiling_out_dir),
        options=options,
        wanted=[word.strip() for word in want.split(",") if word.strip()],
        specialization=str(specialization),
        machine=target,
    )
    if not input_file:
        return report
    compiled = load_program(str(test_data), str(specialization))
    outputs = compute_files(compiled, model, input_file, Path(write_output_dir), target)
    return replace(report, files=(*report.files, *outputs))


def _devices(numbers: str | Sequence[int] | None) -> tuple[int, ...]:
    if numbers is None or not isinstance(numbers, str):
        return tuple(numbers or ())
    try:
        return tuple(int(word) for word in numbers.split(","))
    except ValueError:
        raise UsageError(
            f"expected numbers such as 0,1, found '{safe_terminal(numbers)}'", where="--devices"
        ) from None
