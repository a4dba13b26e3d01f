"""`npuscope manycore compile`: a network to a program for many cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.errors import FileError, OutputError, UsageError
from npuscope.families.many_core.verbs.vendor_options import COMPILER
from npuscope.options.kinds import (
    Mark,
    OptionGroup,
    VendorEffect,
    Verb,
    file,
    flag,
    list_,
    text,
    whole,
)
from npuscope.options.rows import CORE_MACHINE, OUTPUT, SET, SHAPE
from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.families.many_core.compiler.options import CoreCompileOptions
    from npuscope.families.many_core.partitions import DeviceShares
    from npuscope.families.many_core.program import CoreProgram
    from npuscope.families.many_core.report.manycore import CompiledPrograms
    from npuscope.graph.model import Graph


# One option per row is easier to read than the formatter's layout.
# fmt: off
_NETWORK = OptionGroup("", (
    file("model", "a network, float or int8: .onnx or .tflite", flags=("-model", "--model", "-m"),
        required=True),
    file(
        "directory",
        "folder for programqpc.bin",
        "DIR",
        flags=("-aic-binary-dir", "--binary-dir", "-o"),
        required=True,
    ),
))
_STATS = OptionGroup("stats", (
    whole("stats_level",
        "what to collect: 40 (default) threads, 50 ports, 70 ops, 100 counters per op", "LEVEL",
        default=40, flags=("-stats-level", "--stats-level")),
    whole("stats_batchsize", "inferences in one run of the network (1)", default=1,
        flags=("-stats-batchsize", "--stats-batchsize")),
    flag("ddr_stats", "DDR traffic per core; needs level 40 or higher",
        flags=("-ddr-stats", "--ddr-stats")),
    text("pmu_recipe", "counters: AxiRd, AxiWr, AxiRdWr, KernelUtil or HmxMacs",
        flags=("-aic-pmu-recipe", "--pmu-recipe")),
    text("pmu_events", "counters by number, up to 8, such as 3F,70,200", "HEX,...",
        flags=("-aic-pmu-events", "--pmu-events")),
    flag("perf_warnings", "what makes the program slower than necessary",
        flags=("-aic-perf-warnings", "--perf-warnings"), python=False),
    flag("perf_metrics", "traffic, VTCM, barriers and MACs per core", flags=("-aic-perf-metrics",
        "--perf-metrics"), python=False),
))
_TARGET = OptionGroup("machine", (
    whole("cores", "number of cores to use on a device (default: all that have work)",
        flags=("-aic-num-cores", "--aic-num-cores", "--cores")),
    whole("devices", "devices that share the network (1)", default=1),
    *CORE_MACHINE,
    replace(SET, means="what-if: replace one value of the machine, e.g. clocks.core_mhz=1000",
        mark=Mark.NONE),
    replace(SHAPE, value="NAME=1,128", mark=Mark.NONE),
))
_VENDOR = OptionGroup("the vendor's options", (
    whole("batchsize", "the size of a batch where the file leaves it open",
        flags=("-batchsize", "--batchsize")),
    list_("aic_profiling_type", "not needed: -stats-level says what is collected", "T",
        flags=("-aic-profiling-type", "--aic-profiling-type"), python=False,
        effect=VendorEffect.NONE),
    list_("onnx_define_symbol", "a size that the file has a name for", "NAME=SIZE",
        flags=("-onnx-define-symbol", "--onnx-define-symbol")),
    file("network_specialization_config", "sets of sizes (JSON): one container, a program for each",
        flags=("-network-specialization-config", "--network-specialization-config")),
    text("mos", "cores over which the channels of a product are split at most (any number); of "
        "several the largest counts", "N[,N]", flags=("-mos", "--mos")),
    whole("size_split_granularity", "largest output of one op on a core (as the machine says)",
        "KB", flags=("-size-split-granularity", "--size-split-granularity")),
    text("aic_enable_depth_first", "take a batch that does not fit VTCM in parts, each through "
        "several layers", "true|false", flags=("-aic-enable-depth-first",
        "--aic-enable-depth-first"), const="true"),
    whole("aic_depth_first_mem", "most VTCM of a core for activations of these parts (as the "
        "machine says)", "MB", flags=("-aic-depth-first-mem", "--aic-depth-first-mem")),
    file("mdp_load_partition_config", "devices that share the network, and their cores (JSON); "
        "with several partitions a pipeline", flags=("-mdp-load-partition-config",
        "--mdp-load-partition-config")),
    file("mdp_dump_partition_config", "write how the network was shared, in the same form",
        flags=("-mdp-dump-partition-config", "--mdp-dump-partition-config")),
    *COMPILER,
))
VERB = Verb(
    "a network to a program for many cores, with its stats layout",
    (),
    (_NETWORK, _STATS, _TARGET, _VENDOR, OUTPUT),
    text="npuscope.families.many_core.report.manycore:compile_text",
    json="npuscope.families.many_core.report.manycore:compile_json",
    busy="compiling",
    reads=("model",),
)
# fmt: on


@checked(VERB)
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
    mos: int | str | None = None,
    size_split_granularity: int | None = None,
    aic_enable_depth_first: bool | str = False,
    aic_depth_first_mem: int | None = None,
    mdp_load_partition_config: str | Path | None = None,
    mdp_dump_partition_config: str | Path | None = None,
    machine: str = "cloudai100",
    machine_file: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> CompiledPrograms:
    """A network to a program for a many-core accelerator.

    In: an .onnx or .tflite model, float or int8, and what its program has to collect; with a
    `network_specialization_config` there is one program for each of its sets of sizes. Out: the
    program with its machine; with `directory`, programqpc.bin there.

    >>> npuscope.manycore_compile("model.onnx", "qpc", stats_level=70).program
    """
    from npuscope.families.many_core.compiler.options import CoreCompileOptions, pmu_of
    from npuscope.families.many_core.compiler.pipeline import compile_graph
    from npuscope.families.many_core.machine import load_core_machine
    from npuscope.families.many_core.partitions import DeviceShares, read_partitions
    from npuscope.families.many_core.report.manycore import CompiledPrograms
    from npuscope.families.many_core.setups.network import compilable_graph
    from npuscope.families.many_core.specializations import network_name, read_config

    partitions = mdp_load_partition_config
    shares = DeviceShares(devices, cores) if partitions is None else read_partitions(partitions)
    options = CoreCompileOptions(
        cores=shares.cores,
        devices=shares.devices,
        stages=shares.stages,
        stats_level=stats_level,
        stats_batch=stats_batchsize,
        ddr_stats=ddr_stats,
        pmu=pmu_of(pmu_recipe, pmu_events),
        mos=_most(mos),
        tile_kb=size_split_granularity,
        depth_first=_is_on(aic_enable_depth_first),
        depth_first_mb=aic_depth_first_mem,
    )
    target = load_core_machine(machine, overrides=overrides, machine_file=machine_file)
    options.check(target)
    if batchsize is not None and batchsize < 1:
        raise UsageError(f"expected at least 1, found {batchsize}", where="-batchsize")
    config = network_specialization_config
    programs = []
    for number, sizes in enumerate(read_config(config) if config else ({},)):
        symbols = {**_symbols(onnx_define_symbol), **sizes}
        graph = compilable_graph(Path(model), shapes, batchsize, symbols)
        if partitions is not None:
            shares.check(graph, partitions)
        renamed = replace(options, network=network_name(options.network, number))
        programs.append(compile_graph(graph, target, renamed))
    if mdp_dump_partition_config is not None:
        _write_partitions(mdp_dump_partition_config, Path(model), graph, shares, programs[0])
    file = (
        None
        if directory is None
        else _write_programs(Path(directory), programs, Path(model), options)
    )
    return CompiledPrograms(programs[0], target, file, tuple(programs[1:]))


def _most(mos: int | str | None) -> int | None:
    """The largest of a list such as 1,2."""
    if mos is None or isinstance(mos, int):
        return mos
    try:
        return max(int(word) for word in mos.split(","))
    except ValueError:
        raise UsageError(
            f"expected whole numbers such as 1,2, found '{safe_terminal(mos)}'", where="-mos"
        ) from None


def _is_on(word: bool | str) -> bool:
    """As the vendor's tool has it: a bare option, =true or =1."""
    if isinstance(word, str) and word.lower() not in ("true", "false", "1", "0"):
        raise UsageError(
            f"expected true or false, found '{safe_terminal(word)}'",
            where="-aic-enable-depth-first",
        )
    return word if isinstance(word, bool) else word.lower() in ("true", "1")


def _symbols(words: Mapping[str, int] | Sequence[str] | None) -> dict[str, int]:
    """Sizes by the names that the file has for them; as words, NAME=SIZE or NAME,SIZE each."""
    if isinstance(words, Mapping):
        return dict(words)
    sizes = {}
    for word in words or ():
        name, _, size = word.replace("=", ",").rpartition(",")
        if not name or not (size.isascii() and size.isdecimal()) or not 0 < int(size) < 1 << 31:
            raise UsageError(
                f"expected a name and a size such as batch_size=8, found '{safe_terminal(word)}'",
                where="-onnx-define-symbol",
            )
        sizes[name] = int(size)
    return sizes


def _write_partitions(
    path: str | Path, model: Path, graph: Graph, shares: DeviceShares, program: CoreProgram
) -> None:
    from npuscope.families.many_core.partitions import partition_json
    from npuscope.whole_file import refuse_same, write_whole

    refuse_same(model, path)
    write_whole(path, partition_json(graph, shares, program.layout.cores))


def _write_programs(
    folder: Path, programs: Sequence[CoreProgram], model: Path, options: CoreCompileOptions
) -> Path:
    from npuscope.families.many_core.container import FILE_NAME
    from npuscope.families.many_core.sources import source_segment
    from npuscope.families.many_core.specializations import write_programs
    from npuscope.whole_file import write_files

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileError("is a file, expected a folder", where=str(folder)) from None
    except OSError as error:
        raise OutputError(f"cannot be made: {error.strerror}", where=str(folder)) from None
    source = source_segment(model, folder, options)
    write_files(folder, {FILE_NAME: write_programs(programs, source)})
    return folder / FILE_NAME
