"""Options of the many-core verbs and of opstats, one row each, as in `rows`."""

from __future__ import annotations

from npuscope.lean_dataclass import replace
from npuscope.options.kinds import (
    Kind,
    Mark,
    Option,
    VendorEffect,
    file,
    flag,
    list_,
    option,
    real,
    text,
    whole,
)
from npuscope.options.rows import FORCE, HTML, JSON, QUIET, SET, SHAPE, VERBOSE

# One option per row is easier to read than the formatter's layout.
# fmt: off
CORE_MACHINE = (
    text("machine", "the machine (cloudai100)", default="cloudai100"),
    file("machine_file", "a machine of your own (TOML)"),
)
CORE_COMPILE = (
    file("model", "a network, float or int8: .onnx or .tflite", flags=("-model", "--model", "-m"),
        required=True),
    file(
        "directory",
        "folder for programqpc.bin",
        "DIR",
        flags=("-aic-binary-dir", "--binary-dir", "-o"),
        required=True,
    ),
)
CORE_STATS = (
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
)
CORE_TARGET = (
    whole("cores", "number of cores to use on a device (default: all that have work)",
        flags=("-aic-num-cores", "--aic-num-cores", "--cores")),
    whole("devices", "devices that share the network (1)", default=1),
    *CORE_MACHINE,
    replace(SET, means="what-if: replace one value of the machine, e.g. clocks.core_mhz=1000",
        mark=Mark.NONE),
    replace(SHAPE, value="NAME=1,128", mark=Mark.NONE),
)


def _idle(name: str, means: str, kind: Kind = Kind.FLAG, value: str = "") -> Option:
    """An option of the vendor's compiler that changes nothing here."""
    spelling = f"-{name.replace('_', '-')}"
    default: object = {Kind.FLAG: False, Kind.LIST: ()}.get(kind)
    return option(name, kind, means, default=default, value=value, flags=(spelling, f"-{spelling}"),
        python=False, effect=VendorEffect.NONE)


CORE_VENDOR = (
    whole("batchsize", "the size of a batch where the file leaves it open",
        flags=("-batchsize", "--batchsize")),
    list_("onnx_define_symbol", "a size that the file has a name for", "NAME=SIZE",
        flags=("-onnx-define-symbol", "--onnx-define-symbol")),
    file("network_specialization_config", "sets of sizes (JSON): one container, a program for each",
        flags=("-network-specialization-config", "--network-specialization-config")),
    whole("mos", "cores over which the channels of a product are split at most (any number)",
        flags=("-mos", "--mos")),
    _idle("aic_hw", "not needed: there is one target, a simulated device"),
    _idle("aic_hw_version", "accepted, no effect", Kind.TEXT, "V"),
    _idle("convert_to_fp16", "not needed: float values have 16 bits on the device"),
    _idle("compile_only", "not needed: `manycore run` runs it"),
    _idle("multicast_weights", "not needed: cores share loads wherever they need the same weights"),
    _idle("ols", "accepted, no effect", Kind.TEXT, "N"),
    _idle("aic_profiling_type", "not needed: -stats-level says what is collected", Kind.LIST, "T"),
)
PROFILING_TYPES = ("stats", "trace", "latency", "raw_device_stats")
CORE_RUN = (
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
)
CORE_PROFILING = (
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
)
CORE_SIMULATION = (
    whole("seed", "seed of clocks and spreads (0)", default=0),
    flag("stats_overhead", "storing records takes time (default: none)"),
    text("devices", "numbers of the devices, such as 0,1 (from 0 on)", "LIST", flags=("--devices",
        "-d")),
    *CORE_MACHINE,
    replace(SET, means="what-if: replace one value of the machine, e.g. ddr.effective_gb_per_s=100",
        mark=Mark.NONE),
)
OPSTATS = (
    file("qpc", "the programqpc.bin that was run", flags=("-q", "--qpc")),
    file("input_dir", "folder with the stats buffers", "DIR", flags=("-i", "--input-dir"),
        required=True),
    file(
        "output_dir", "folder for the results (.)", "DIR", default=".", flags=("-o", "--output-dir")
    ),
    replace(QUIET, flags=()),
    VERBOSE,
    FORCE,
)
OPSTATS_RESULTS = (
    flag("summary", "tables as text"),
    flag("trace", "timeline as Chrome trace JSON"),
    flag("perfetto", "timeline in Perfetto's format"),
    HTML,
    replace(JSON, means="print the tables as JSON and nothing else, or write them to FILE"),
)


def _boolean(name: str, means: str) -> Option:
    return option(name, Kind.BOOLEAN, means, default=True, value="true|false")


OPSTATS_TRACE = (
    file("host_trace", "what the host did (JSON), shown next to the devices"),
    text("select_cores", "cores to show, such as 0,5,1 (all)", "LIST", flags=("-c",
        "--select-cores")),
    text("select_devices", "devices to show, such as 0,1 (all)", "LIST", flags=("-d",
        "--select-devices")),
    _boolean("merge_mq_traces", "put all devices of an inference in one file (true)"),
    _boolean("merge_thread_groups", "one row per thread group instead of per thread (true)"),
    text(
        "flow_events",
        "arrows for dependencies between ops (none)",
        "",
        default="none",
        choices=("none", "full"),
    ),
    flag("show_barrier_events", "barriers on separate rows"),
)
OPSTATS_SOURCES = (
    flag("ignore_uuid", "decode buffers of another program anyway"),
    text("adapter", "read files of another source: qaic-text, qaic-trace, qaic-desc, onnxruntime, "
        "etdump (detected where there is no stats buffer)"),
    file("raw_layout", "your own description of foreign raw buffers"),
    file("descriptors", "protobuf descriptor set for foreign containers"),
)
