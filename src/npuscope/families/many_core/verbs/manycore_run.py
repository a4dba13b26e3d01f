"""`npuscope manycore run`: a compiled program on the simulated device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.errors import UsageError
from npuscope.families.many_core.verbs.vendor_options import RUNNER
from npuscope.options.kinds import (
    Mark,
    OptionGroup,
    OptionKind,
    Verb,
    file,
    flag,
    list_,
    real,
    text,
    whole,
)
from npuscope.options.rows import CORE_MACHINE, OUTPUT, SET, VERBOSE
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
    file("model", "the model that the program was compiled from (as the program says)"),
    file("aic_batch_input_file_list", "a file with the inputs of one inference per line, separated "
        "by commas"),
    file("aic_batch_input_directory", "all files of a folder, each the input of an inference",
        "DIR"),
    file("aic_batch_json_input", "JSON that maps files to the names of inputs, by inference"),
    file("write_output_dir", "folder for the raw outputs, which must exist (the current one); "
        "without inputs they are of random ones", "DIR"),
    whole("write_output_start_iter", "first inference whose outputs are written (0)", default=0),
    whole("write_output_num_samples", "inferences whose outputs are written (1)", default=1),
))
_PROFILING = OptionGroup("profiling", (
    list_(
        "aic_profiling_type",
        "raw_device_stats saves buffers for `opstats`, stats its summary; trace and latency what "
        "the host saw; may be repeated",
        "|".join(PROFILING_TYPES),
        flags=("--aic-profiling-type", "--aic-profiling-format"),
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
    text("devices", "numbers of the devices, such as 0,1 or 0:1 (from 0 on)", "LIST",
        flags=("--devices", "-d", "-D", "--aic-device-id", "--dev-list", "--aic-device-map")),
    *CORE_MACHINE,
    replace(SET, means="what-if: replace one value of the machine, e.g. ddr.effective_gb_per_s=100",
        mark=Mark.NONE),
))
_VENDOR = OptionGroup("the vendor's options", RUNNER)
# The vendor's -v may be followed by a level.
_OUTPUT = OptionGroup("output", (
    *(row for row in OUTPUT.options if row.name != "verbose"),
    replace(VERBOSE, kind=OptionKind.TEXT, value="LEVEL", default=None, const="info"),
))
VERB = Verb(
    "run a compiled program on the simulated device and collect its stats",
    (),
    (_RUN, _COMPUTING, _PROFILING, _SIMULATION, _VENDOR, _OUTPUT),
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
    aic_batch_input_file_list: str | Path | None = None,
    aic_batch_input_directory: str | Path | None = None,
    aic_batch_json_input: str | Path | None = None,
    write_output_dir: str | Path | None = None,
    write_output_start_iter: int = 0,
    write_output_num_samples: int = 1,
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
    from npuscope.families.many_core.computing import InputSources, OutputSamples, compute_files
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
        collect=bool({"raw_device_stats", "stats"} & set(types)),
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
        views=[word.strip() for word in want.split(",") if word.strip()],
        specialization=str(specialization),
        machine=target,
    )
    inputs = InputSources(
        (input_file,) if isinstance(input_file, str | Path) else tuple(input_file),
        aic_batch_input_file_list,
        aic_batch_input_directory,
        aic_batch_json_input,
        seed,
    )
    if inputs == InputSources(seed=seed) and write_output_dir is None:
        return report
    samples = OutputSamples(
        Path(write_output_dir or "."),
        write_output_start_iter,
        min(write_output_num_samples, num_iter - write_output_start_iter),
    )
    compiled = load_program(str(test_data), str(specialization))
    outputs = compute_files(compiled, Path(test_data), model, target, inputs, samples)
    return replace(report, files=(*report.files, *outputs))


def _devices(numbers: str | Sequence[int] | None) -> tuple[int, ...]:
    if numbers is None or not isinstance(numbers, str):
        return tuple(numbers or ())
    try:
        return tuple(int(word) for word in numbers.replace(":", ",").split(","))
    except ValueError:
        raise UsageError(
            f"expected numbers such as 0,1, found '{safe_terminal(numbers)}'", where="--devices"
        ) from None
