"""Every option once: the command line, the keywords in Python and docs/cli.md are made from here.

`VERBS` lists what each verb takes. An Option has the keyword of Python as its name and one or more
spellings on the command line; `vendor` spellings are those of the tools that people come from.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from npuscope.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")


class Kind(Enum):
    TEXT = "text"
    FILE = "file"  # or folder
    WHOLE = "whole number"
    REAL = "number"
    FLAG = "flag"  # there or not
    SWITCH = "switch"  # --name and --no-name
    BOOLEAN = "true|false"  # a value, as in the vendor's tools
    LIST = "list"  # may be given several times


class Mark(Enum):
    """What a value changes: a timed program is timed again, a mapped one compiled again."""

    NONE = ""
    TIMING = "timing"
    MAPPING = "mapping"
    BOTH = "timing or mapping, by key"


class Effect(Enum):
    """What becomes of a vendor's option."""

    OBEYED = "obeyed"
    NONE = "none"  # accepted, and one line says that nothing changes
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Option:
    """`python` is False for what only a command line has: how the answer is printed."""

    name: str
    kind: Kind
    means: str
    default: object = None
    value: str = ""  # what its value is called
    flags: tuple[str, ...] = ()  # --name if empty
    vendor: tuple[str, ...] = ()
    choices: tuple[object, ...] = ()
    const: object = None  # where the value may be left out
    mark: Mark = Mark.NONE
    python: bool = True
    shell: bool = True
    required: bool = False
    effect: Effect = Effect.OBEYED

    @property
    def spellings(self) -> tuple[str, ...]:
        return (*(self.flags or (f"--{self.name.replace('_', '-')}",)), *self.vendor)

    @property
    def dest(self) -> str:
        """Where argparse puts it."""
        long = next((f for f in self.spellings if f.startswith("--")), self.spellings[0])
        return long.lstrip("-").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Argument:
    """What a verb is about: given by place."""

    name: str
    value: str
    means: str
    many: str = ""  # as argparse counts: ? + or one
    choices: tuple[str, ...] = ()
    python: bool = True
    dest: str = ""  # where argparse puts it, if not under its name


@dataclass(frozen=True, slots=True)
class Group:
    """Options under one heading; of `exclusive` ones only one may be given."""

    title: str
    options: tuple[Option, ...]
    about: str = ""
    exclusive: tuple[str, ...] = ()
    needs_one: bool = False  # of the exclusive ones
    shared: bool = False  # by many verbs: documented once


@dataclass(frozen=True, slots=True)
class Verb:
    line: str  # in --help
    arguments: tuple[Argument, ...]
    groups: tuple[Group, ...]
    usage: str = ""

    @property
    def options(self) -> tuple[Option, ...]:
        return tuple(option for group in self.groups for option in group.options)


def _text(name: str, means: str, value: str = "NAME", **rest: object) -> Option:
    return _option(name, Kind.TEXT, means, value=value, **rest)


def _file(name: str, means: str, value: str = "FILE", **rest: object) -> Option:
    return _option(name, Kind.FILE, means, value=value, **rest)


def _whole(name: str, means: str, value: str = "N", **rest: object) -> Option:
    return _option(name, Kind.WHOLE, means, value=value, **rest)


def _real(name: str, means: str, value: str, **rest: object) -> Option:
    return _option(name, Kind.REAL, means, value=value, **rest)


def _flag(name: str, means: str, **rest: object) -> Option:
    return _option(name, Kind.FLAG, means, default=False, **rest)


def _list(name: str, means: str, value: str, **rest: object) -> Option:
    return _option(name, Kind.LIST, means, default=(), value=value, **rest)


def _option(name: str, kind: Kind, means: str, **rest: object) -> Option:
    return Option(name, kind, means, **rest)  # type: ignore[arg-type]


DATA_TYPES = ("float32", "int8", "uint8")
LEVELS = (0, 1, 2, 3)
CPUS = ("cortex-m55", "cortex-m33")
TOOLCHAINS = ("zig", "gcc")
BOARDS = ("emulated", "stm32n6570-dk")
DEFAULT_ADDRESS = "0x71000000,0x71800000"
_MAPPED: dict[str, Any] = {"mark": Mark.MAPPING}
_TIMED: dict[str, Any] = {"mark": Mark.TIMING}

# Groups that verbs share.

_SET = _list(
    "overrides",
    "what-if: replace one value of the machine, e.g. clocks.npu_mhz=800",
    "KEY=VALUE",
    flags=("--set",),
    mark=Mark.BOTH,
)
_GENERATION = _text(
    "generation", "compiler generation: 2.2, 3.0, 4.0 or open (default 4.0, or the program's)"
)
_MACHINE = (
    _text("machine", "the machine, see `machines`", default="stm32n6", **_MAPPED),
    _file("machine_file", "a machine of your own (TOML)", **_MAPPED),
    replace(_GENERATION, mark=Mark.MAPPING),
    _option(
        "epoch_controller",
        Kind.SWITCH,
        "epochs are started by the NPU's own controller (default) or by the CPU",
        vendor=("--enable-epoch-controller",),
        **_MAPPED,
    ),
    _text(
        "art_profile",
        "pools, machine and compiler options of a profile in the vendor's neural_art.json",
        "NAME@FILE",
        vendor=("--st-neural-art",),
        **_MAPPED,
    ),
    _real("mcu_mhz", "CPU clock (800)", "MHZ", **_TIMED),
    _real("npu_mhz", "NPU clock (1000)", "MHZ", **_TIMED),
    _file("mpool", "memory pools from a vendor .mpool file", vendor=("--load-mpool",), **_MAPPED),
    _SET,
)
_LEVEL = _whole(
    "optimization",
    "0 to 3 (by generation)",
    "LEVEL",
    flags=("-O", "--optimization"),
    choices=LEVELS,
    **_MAPPED,
)
# Without the level: for verbs that look at a model and compile nothing.
LOOKED_AT = Group("machine", _MACHINE, shared=True)
_OF_PROGRAMS = (
    _option("compiled_from", Kind.FILE, "the model of a compiled program", shell=False, **_MAPPED),
    _flag("ec_single_epoch", "a blob for every epoch, not one for many", shell=False, **_MAPPED),
)
TARGET = Group("machine", (*_MACHINE[:5], _LEVEL, *_MACHINE[5:], *_OF_PROGRAMS), shared=True)
_IO_TYPES = tuple(
    _text(f"{side}_data_type", f"element type at the {side}s", "", choices=DATA_TYPES, **_MAPPED)
    for side in ("input", "output")
)
_SHAPE = _list(
    "shapes",
    "pin an input whose size the file leaves open",
    "NAME=1,224,224,3",
    flags=("--shape",),
    **_MAPPED,
)
READING = Group("model", (*_IO_TYPES, _SHAPE), shared=True)
BUILT_IN = Group("model", _IO_TYPES, shared=True)  # nothing is left open there

_JSON = _file(
    "json",
    "print the result as JSON and nothing else, or write it to FILE",
    const="-",
    python=False,
)
_QUIET = _flag("quiet", "the answer in one line", flags=("-q", "--quiet"), python=False)
_VERBOSE = _flag("verbose", "details and tracebacks", flags=("-v", "--verbose"), python=False)
OUTPUT = Group("output", (_JSON, _QUIET, _VERBOSE), shared=True)
_NO_COLOR = _flag("no_color", "not needed: there are no colours", python=False, effect=Effect.NONE)


def _vendor_output(log: str) -> Group:
    """As on every verb, but -v is the verbosity of the vendor's tool."""
    verbosity = _whole(
        "verbosity",
        "0 the answer, 1 the usual, 2 everything",
        "",
        default=1,
        flags=("-v", "--verbosity"),
        choices=(0, 1, 2),
        const=1,
        python=False,
    )
    kept = _file("log", f"a log ({log})", const=log, python=False)
    debug = _flag("debug", "the inner log on stderr", python=False)
    verbose = replace(_VERBOSE, flags=())
    return Group("output", (_JSON, _QUIET, verbose, verbosity, kept, debug, _NO_COLOR))


_HTML = _file("html", "write a report for a browser: one file that loads nothing")
_SARIF = _file("sarif", "the findings as SARIF 2.1.0, to FILE")
_JUNIT = _file("junit", "rules and findings as JUnit XML, to FILE")
FINDINGS = Group("files", (_SARIF, _JUNIT))
SOURCE_HELP = (
    "a model (.tflite, QDQ .onnx), or what a compiler made: folder, network.c, c_info.json"
)
RUN_HELP = "a model, a build, a saved profile, estimate or profile JSON, or log:FILE of a board"
_SOURCE = Argument("source", "SOURCE", SOURCE_HELP)
_SINGLE = _flag(
    "ec_single_epoch",
    "one blob an epoch: what the epoch controller adds shows up by epoch",
    **_MAPPED,
)
_COMPILED_FROM = _file("model", "the model that a compiled program was made from", "M")

# The vendor compiler's options on `compile`. Those that change nothing, with their values' number.
NEUTRAL = {
    "--all-buffers-info": 0,
    "--cache-maintenance": 0,
    "--continue-on-errors": 0,
    "--generate-stai": 0,
    "--load-cdesc": 1,
    "--mvei": 0,
    "--native-float": 0,
    "--Oalt-sched": 0,
    "--Oauto-sched": 0,
    "--Ocache-opt": 0,
    "--Os": 0,
    "--Oshuffle-dma": 0,
    "--json-quant-file": 1,
    "--out-dir-prefix": 1,
    "--save-mpool-file": 1,
}
# Those that change a build in a way that is not known well enough to follow.
NOT_MODELLED = {
    "--Oauto": "the level that the vendor's compiler would choose is not known",
    "--force-8bits-scale-offset": "its effect on scales is not known",
}


def _neutral(flag: str, values: int) -> Option:
    name = flag.lstrip("-").replace("-", "_")
    kind, value = (Kind.FILE, "F") if values else (Kind.FLAG, "")
    means = "accepted, changes nothing"
    default = None if values else False
    return Option(name, kind, means, default, value, (flag,), python=False, effect=Effect.NONE)


_VENDOR = Group(
    "the vendor's options",
    (
        _text("target", "stm32n6", python=False),
        _text(
            "name",
            "network's name in C",
            default="network",
            flags=("-n", "--name"),
            vendor=("--network-name",),
        ),
        _file("csv_file", "name of the epoch table (network.csv)", "F"),
        _file("output_info_file", "name of c_info.json", "F"),
        replace(_SINGLE, means="a blob for every epoch, not one for many"),
        _whole("max_ca_pipe", "units in series at most", flags=("--Omax-ca-pipe",), **_MAPPED),
        _flag("enable_virtual_mem_pools", "accepted: always so", python=False, effect=Effect.NONE),
        *(_neutral(flag, values) for flag, values in NEUTRAL.items()),
        *(
            Option(
                flag.lstrip("-").replace("-", "_"),
                Kind.FLAG,
                f"refused: {reason}",
                False,
                "",
                (flag,),
                python=False,
                effect=Effect.REFUSED,
            )
            for flag, reason in NOT_MODELLED.items()
        ),
    ),
    about="under the names its tools use",
)

_ESTIMATE = (
    _HTML,
    _file("model", "the model of a compiled program, for --set with mapping keys", "M"),
    _flag(
        "sensitivity",
        "which timing keys save most time when they are 10 % better",
        python=False,  # npuscope.sensitivity(...)
    ),
)
_PROFILE = (
    _whole("batch", "samples of every counter, whose means are told (default 1; log: all)"),
    _flag("full", "every field of every epoch instead of one line", python=False),
    _text("epochs", "only these, e.g. 3,7-12", "LIST", python=False),
    _file("csv", "write a table with a row an epoch"),
    _HTML,
    _file("trace", "write a timeline for ui.perfetto.dev"),
    _file("chrome", "write it as Chrome trace events (JSON)"),
    _file("save", "keep the profile, to report or export it later"),
)
_DEVICE = (
    _text(
        "connect",
        "simulated (default), emulated, serial[:PORT][:BAUD], socket:HOST:PORT or log:FILE",
        "DESC",
        default="simulated",
    ),
    _text(
        "network",
        "which network, if the device has several",
        default="",
        flags=("-n", "--name"),
    ),
    _file(
        "cfile",
        "the build that runs there, as SOURCE: network.c, c_info.json or the folder",
        flags=("-c", "--cfile"),
        python=False,
    ),
    _flag(
        "vendor_plan",
        "count in the passes of the vendor's profiler (a warm-up and three), not the fewest",
    ),
    _flag("vendor_figures", "report in the vendor's layout and with its means", python=False),
    _SINGLE,
    _file("log", "keep every counter of every inference, for --connect log:FILE"),
)
_FIX = (
    _list("only", "rules or fixes, applied whatever they cost", "NAME,..."),
    _flag(
        "cut", "end the network where the NPU's work ends; what the application does then is listed"
    ),
    _flag("drop_softmax", "end it before a last Softmax"),
    _flag("integer_io", "int8 or uint8 instead of float32 at inputs and outputs"),
    _flag("everything", "every edit there is, these three too, if it helps", flags=("--all",)),
)
_INPUTS = _list("inputs", "input data; once for every input, in order", "F.npy")
_SEEDS = _whole("seeds", "random inputs to try (1)", default=1)
_DATA = Group("data", (_INPUTS, _SEEDS), exclusive=("inputs", "seeds"))
_GATE = (
    *(
        _list(
            name,
            f"the {name} that a figure may be: total_ms=20, SW=0, internal_ram_bytes=2MiB, "
            "findings.error=0",
            "KEY=VALUE",
            flags=(flag,),
        )
        for name, flag in (("most", "--max"), ("least", "--min"))
    ),
    _file("baseline", "JSON of estimate, profile or gate, or any source: nothing gets worse"),
    _text(
        "tolerance", "how much worse it may get, e.g. 3%", "SHARE", default="0", flags=("--tol",)
    ),
    _file("summary", "append a Markdown table to FILE"),
    _flag("with_findings", "findings too, without a file for them", shell=False),
    _flag(
        "github",
        "errors as annotations on stdout, the table in the summary of the GitHub job",
        python=False,
    ),
)
_COMPARE = (
    *(
        _list(
            f"{side}_options",
            f"an option of {side.upper()} alone: generation=2.2, set.clocks.npu_mhz=800",
            "KEY=VALUE",
            flags=(f"--{side}",),
        )
        for side in ("a", "b")
    ),
    _text(
        "noise",
        "least noise of a measured row, e.g. 1%, beside the spread of its samples (0)",
        "SHARE",
    ),
)
_PACKAGE = (
    _file(
        "input",
        "the same, or its network.c (st_ai_output)",
        "DIR",
        flags=("-i", "--input"),
        python=False,
    ),
    _file(
        "directory",
        "where the files go; other files there stay (build)",
        "DIR",
        default="build",
        flags=("-o", "--output"),
    ),
    _text(
        "name",
        "of the files, and of the network on the board (that of network.c)",
        "NAME",
        default="",
        flags=("-n", "--name"),
    ),
    _text(
        "cpu",
        "processor of the board; cortex-m33 for the emulated one",
        "",
        default="cortex-m55",
        choices=CPUS,
    ),
    _text(
        "toolchain",
        "compiler of the code; gcc is an installed arm-none-eabi-gcc",
        "",
        default="zig",
        choices=TOOLCHAINS,
    ),
    _flag("split", "parameters in a file of their own"),
    _flag("no_secure", "for the non-secure world: internal pools lie at 0x24000000 and above"),
    _flag("gen_c_file", "the image as a C array too: NAME_img_rel.c and .h"),
    _flag("parse_only", "read and check, build nothing", python=False),
    _flag("no_clean", "keep sources, objects and the ELF file in NAME_build"),
    _text("options", "all of these as one PackageOptions", "RECORD", shell=False),
    _file(
        "pack_dir",
        "not needed: npuscope brings the runtime, the kernels and the compiler",
        "DIR",
        python=False,
        effect=Effect.NONE,
    ),
)
_RUN = (
    _file("input", "the same", flags=("-i", "--input"), python=False),
    _text(
        "board",
        "where to run; stm32n6570-dk prints the commands for a real board",
        "",
        default="emulated",
        choices=BOARDS,
        python=False,
    ),
    _text(
        "address", f"places in flash ({DEFAULT_ADDRESS})", "NET[,PARAMS]", default=DEFAULT_ADDRESS
    ),
    _text(
        "mode",
        "comma list: copy or xip (execute in place), no-run (load only), "
        "no-flash and max-speed (for real boards) (copy)",
        "WORDS",
        default="copy",
    ),
    _text("generation", "whose control times count (by the image)", default=""),
    _real("mcu_mhz", "clock of the processor (800)", "MHZ"),
    _real("npu_mhz", "clock of the NPU (1000)", "MHZ"),
    _whole("batch", "inferences; times are their mean (1)", default=1),
    _option("inputs", Kind.LIST, "arrays to run on (random)", shell=False),
    _file(
        "cube_ide_dir",
        "not needed: the emulated board needs no debugger",
        "DIR",
        python=False,
        effect=Effect.NONE,
    ),
)
_CORE_MACHINE = (
    _text("machine", "the machine (cloudai100)", default="cloudai100"),
    _file("machine_file", "a machine of your own (TOML)"),
)
_CORE_COMPILE = (
    _file(
        "model",
        "a network, float or int8: .onnx or .tflite",
        flags=("-model", "--model"),
        required=True,
    ),
    _file(
        "directory",
        "folder for programqpc.bin",
        "DIR",
        flags=("-aic-binary-dir", "--binary-dir", "-o"),
        required=True,
    ),
)
_CORE_STATS = (
    _whole(
        "stats_level",
        "what is collected: 40 (default) threads, 50 ports, 70 ops, 100 counters by op",
        "LEVEL",
        default=40,
        flags=("-stats-level", "--stats-level"),
    ),
    _whole(
        "stats_batchsize",
        "inferences in one run of the network (1)",
        default=1,
        flags=("-stats-batchsize", "--stats-batchsize"),
    ),
    _flag("ddr_stats", "DDR traffic by core; level >= 40", flags=("-ddr-stats", "--ddr-stats")),
    _text(
        "pmu_recipe",
        "counters: AxiRd, AxiWr, AxiRdWr, KernelUtil or HmxMacs",
        flags=("-aic-pmu-recipe", "--pmu-recipe"),
    ),
    _text(
        "pmu_events",
        "counters by number, up to 8, such as 3F,70,200",
        "HEX,...",
        flags=("-aic-pmu-events", "--pmu-events"),
    ),
    _flag(
        "perf_warnings",
        "what makes the program slower than it need be",
        flags=("-aic-perf-warnings", "--perf-warnings"),
        python=False,
    ),
    _flag(
        "perf_metrics",
        "traffic, VTCM, barriers and MACs by core",
        flags=("-aic-perf-metrics", "--perf-metrics"),
        python=False,
    ),
)
_CORE_TARGET = (
    _whole(
        "cores",
        "cores of a device (all that have work)",
        flags=("-aic-num-cores", "--aic-num-cores", "--cores"),
    ),
    _whole("devices", "devices that share the network (1)", default=1),
    *_CORE_MACHINE,
    replace(
        _SET,
        means="what-if: replace one value of the machine, e.g. clocks.core_mhz=1000",
        mark=Mark.NONE,
    ),
    replace(_SHAPE, value="NAME=1,128", mark=Mark.NONE),
)
PROFILING_TYPES = ("stats", "trace", "raw_device_stats")
_CORE_RUN = (
    _file(
        "test_data",
        "the folder that the compiler wrote, with programqpc.bin",
        "DIR",
        flags=("--test-data", "-t"),
        required=True,
    ),
    _whole("num_iter", "inferences to run (1)", default=1, flags=("--num-iter", "-n")),
)
_CORE_PROFILING = (
    _text(
        "aic_profiling_type",
        "raw_device_stats saves buffers for `opstats`; stats and trace what the host saw",
        "",
        choices=PROFILING_TYPES,
    ),
    _file(
        "aic_profiling_out_dir",
        "where to; the folder must exist (the current one)",
        "DIR",
        default=".",
    ),
    _whole("aic_profiling_num_samples", "inferences saved (1)", default=1),
    _whole("aic_profiling_start_iter", "from which on (0)", default=0),
    _real(
        "aic_profiling_start_delay",
        "milliseconds of the run before the first (0)",
        "MS",
        default=0.0,
    ),
    _text(
        "want",
        "views that the buffers must allow: threads, pmu, ddr, ports, semaphores, ops, op-pmu",
        "LIST",
        default="",
    ),
)
_CORE_SIMULATION = (
    _whole("seed", "of clocks and spreads (0)", default=0),
    _flag("stats_overhead", "storing records takes time (it does not)"),
    _text(
        "devices",
        "numbers of the devices, such as 0,1 (from 0 on)",
        "LIST",
        flags=("--devices", "-d"),
    ),
    *_CORE_MACHINE,
    replace(
        _SET,
        means="what-if: replace one value of the machine, e.g. ddr.effective_gb_per_s=100",
        mark=Mark.NONE,
    ),
)
_OPSTATS = (
    _file("qpc", "programqpc.bin that was run", flags=("-q", "--qpc")),
    _file(
        "input_dir",
        "folder with the stats buffers",
        "DIR",
        flags=("-i", "--input-dir"),
        required=True,
    ),
    _file(
        "output_dir",
        "folder for the results (.)",
        "DIR",
        default=".",
        flags=("-o", "--output-dir"),
    ),
    replace(_QUIET, flags=()),
    _VERBOSE,
)
_OPSTATS_RESULTS = (
    _flag("summary", "tables as text"),
    _flag("trace", "timeline as Chrome trace JSON"),
    _flag("perfetto", "timeline in Perfetto's format"),
    _HTML,
    replace(_JSON, means="tables as JSON and nothing else, or written to FILE"),
)


def _boolean(name: str, means: str) -> Option:
    return _option(name, Kind.BOOLEAN, means, default=True, value="true|false")


_OPSTATS_TRACE = (
    _file("host_trace", "what the host did (JSON), beside the devices"),
    _text(
        "select_cores", "cores to show, such as 0,5,1 (all)", "LIST", flags=("-c", "--select-cores")
    ),
    _text(
        "select_devices",
        "devices to show, such as 0,1 (all)",
        "LIST",
        flags=("-d", "--select-devices"),
    ),
    _boolean("merge_mq_traces", "devices of one inference in one file (true)"),
    _boolean("merge_thread_groups", "one row for each thread group, not for each thread (true)"),
    _text(
        "flow_events",
        "arrows for dependencies between ops (none)",
        "",
        default="none",
        choices=("none", "full"),
    ),
    _flag("show_barrier_events", "barriers on rows of their own"),
)
_OPSTATS_SOURCES = (
    _flag("ignore_uuid", "decode buffers of another program all the same"),
    _text(
        "adapter",
        "read files of another source: qaic-text, qaic-trace, qaic-desc, onnxruntime, "
        "etdump (found by itself where there is no stats buffer)",
    ),
    _file("raw_layout", "your own description of foreign raw buffers"),
    _file("descriptors", "protobuf descriptor set for foreign containers"),
)
_SWEEP_RUNS = (
    _file(
        "store",
        "the store (default: SPEC.jsonl beside SPEC.toml)",
        "STORE",
        flags=("-o", "--output"),
    ),
    _whole("jobs", "processes (default: the cores)"),
    _real("timeout", "a run that takes longer than S seconds fails", "S"),
    _flag("retry_failed", "do failed runs of the store again"),
    _flag("yes", "do more than 10,000 runs"),
    _text("watch", "called with a Tally after every run", "FUNCTION", shell=False),
    _text("options", "all of these as one SweepOptions", "RECORD", shell=False),
)
_SWEEP_CLUSTER = (
    _text("scheduler", "tcp://HOST:PORT or tls://HOST:PORT of a scheduler", "ADDRESS"),
    _whole("local_cluster", "a cluster of N workers on this computer"),
    _file("tls_ca", "certificate authority of tls://"),
    _file("tls_cert", "our certificate for tls://"),
    _file("tls_key", "the key of our certificate"),
    _flag("dashboard", "dask's pages about --local-cluster, on loopback"),
)
_SWEEP_REPORT = (
    _file("html", "tables and plots as one offline HTML file"),
    _file("csv", "one line a run"),
    _file("parquet", "the same with types (needs pyarrow)"),
)
_SWEEP_USAGE = "npuscope sweep [options] SPEC.toml\n       npuscope sweep report [options] STORE"

VERBS: dict[str, Verb] = {
    "demo": Verb(
        "the main job on a built-in network: compile, simulate, profile",
        (),
        (
            Group(
                "",
                (
                    _file(
                        "directory",
                        "folder for the reports (default npuscope-demo)",
                        "DIR",
                        default="npuscope-demo",
                        flags=("-o", "--output"),
                    ),
                ),
            ),
            TARGET,
            BUILT_IN,
            OUTPUT,
        ),
    ),
    "estimate": Verb(
        "does a model fit and how fast is it: one screen, no files",
        (_SOURCE,),
        (Group("", _ESTIMATE), TARGET, READING, OUTPUT),
    ),
    "compile": Verb(
        "a model to the program that the device executes",
        (Argument("source", "MODEL", "a model: .tflite or QDQ .onnx"),),
        (
            Group(
                "",
                (
                    _file(
                        "directory",
                        "folder for the files",
                        "DIR",
                        flags=("-o", "--output"),
                        required=True,
                    ),
                    _flag(
                        "log_lowering",
                        "list the ways that rules refused, by epoch",
                        python=False,
                    ),
                    _flag(
                        "relocatable",
                        "external pools relative, as `npuscope package` needs them",
                        **_MAPPED,
                    ),
                ),
            ),
            TARGET,
            READING,
            _VENDOR,
            OUTPUT,
        ),
    ),
    "profile": Verb(
        "run a model on a device and report every epoch",
        (replace(_SOURCE, many="?"),),
        (Group("", _PROFILE), Group("device", _DEVICE), TARGET, READING, OUTPUT),
    ),
    "board": Verb(
        "serve a virtual board to anybody's client",
        (
            Argument(
                "action", "ACTION", "serve: answer the vendor's protocol", "", ("serve",), False
            ),
            Argument("sources", "SOURCE", SOURCE_HELP, "+"),
        ),
        (
            Group(
                "connection",
                (
                    _flag("pty", "a pseudo terminal, used as a serial port"),
                    _whole("tcp", "a TCP port; 0: any free one", "PORT"),
                    _text(
                        "host",
                        "address for --tcp (default: this computer only)",
                        "",
                        default="127.0.0.1",
                    ),
                ),
                exclusive=("pty", "tcp"),
                needs_one=True,
            ),
            Group(
                "",
                (
                    _flag("emulated", "firmware on an emulated Cortex-M answers"),
                    _text("ready", "called with address and networks", "FUNCTION", shell=False),
                ),
            ),
            TARGET,
            READING,
            OUTPUT,
        ),
    ),
    "export": Verb(
        "what layers cost, for Model Explorer and Netron",
        (_SOURCE,),
        (
            Group(
                "",
                (
                    _file("model_explorer", "node data (JSON) for Google's Model Explorer"),
                    _file("netron", "an annotated ONNX file for Netron"),
                    _file("model", "the model of a compiled program or a saved profile", "M"),
                ),
            ),
            TARGET,
            READING,
            OUTPUT,
        ),
    ),
    "explain": Verb(
        "why it is slow or off the NPU, and what to change",
        (_SOURCE,),
        (
            Group(
                "",
                (
                    _flag("strict", "exit code 1 when there are errors or warnings", python=False),
                    _COMPILED_FROM,
                    _option("batch", Kind.WHOLE, "run it so often", default=0, shell=False),
                ),
            ),
            TARGET,
            READING,
            FINDINGS,
            OUTPUT,
        ),
    ),
    "lint": Verb(
        "risks that the model file alone shows",
        (Argument("source", "MODEL", "a model: .tflite or .onnx"),),
        (LOOKED_AT, READING, FINDINGS, OUTPUT),
    ),
    "fix": Verb(
        "edits of the model that help: applied, compiled again, timed, measured",
        (Argument("model", "MODEL", "a .tflite or .onnx model", dest="source"),),
        (
            Group(
                "",
                (
                    _file(
                        "output",
                        "the fixed model; without it nothing is written",
                        "FIXED",
                        flags=("-o", "--output"),
                    ),
                    _whole("seeds", "seeded inputs to compare on (2)", default=2),
                ),
            ),
            Group("which fixes (default: those that keep the function)", _FIX),
            TARGET,
            READING,
            OUTPUT,
        ),
    ),
    "compare": Verb(
        "two runs by source op: what moved, and where the milliseconds went",
        (
            Argument("a", "A", RUN_HELP, dest="first"),
            Argument("b", "B", "what to compare it with (default: A again)", "?", dest="second"),
        ),
        (Group("", _COMPARE), TARGET, READING, OUTPUT),
    ),
    "gate": Verb(
        "limits on time, memory and epochs, with an exit code",
        (Argument("source", "SOURCE", RUN_HELP),),
        (Group("", _GATE), TARGET, READING, FINDINGS, OUTPUT),
    ),
    "validate": Verb(
        "the NPU's arithmetic against the reference",
        (_SOURCE,),
        (Group("", (_COMPILED_FROM,)), _DATA, TARGET, READING, OUTPUT),
    ),
    "bisect": Verb(
        "the first op whose NPU arithmetic leaves the reference",
        (_SOURCE,),
        (Group("", (_COMPILED_FROM,)), _DATA, TARGET, READING, OUTPUT),
    ),
    "inspect": Verb(
        "say what a file or folder is and what is in it",
        (Argument("source", "FILE_OR_FOLDER", "any file or folder of the tools"),),
        (
            Group(
                "runtime-loadable images",
                (
                    _file("compare", "what differs from another image"),
                    _file(
                        "firmware_map",
                        "does the image load on this firmware: a TOML or JSON file, "
                        "or `stm32n6570-dk`",
                    ),
                ),
            ),
            OUTPUT,
        ),
    ),
    "checklist": Verb(
        "what a build needs on the board: files, memories, caches",
        (Argument("source", "DIR", "a folder that a compiler wrote"),),
        (OUTPUT,),
    ),
    "package": Verb(
        "a compiled network to an image that a firmware loads at run time",
        (Argument("source", "DIR", "folder of a compiled network", "?"),),
        (Group("", _PACKAGE), _vendor_output("package.log")),
    ),
    "run": Verb(
        "load an image on a board (emulated by default) and run it",
        (
            Argument(
                "source", "IMAGE", "NAME_rel.bin or a build folder (build/network_rel.bin)", "?"
            ),
        ),
        (Group("", _RUN), _vendor_output("run.log")),
    ),
    "manycore": Verb("compile for a many-core accelerator, and run it", (), ()),
    "manycore compile": Verb(
        "a network to a program for many cores, with its stats layout",
        (),
        (
            Group("", _CORE_COMPILE),
            Group("stats", _CORE_STATS),
            Group("machine", _CORE_TARGET),
            OUTPUT,
        ),
    ),
    "manycore run": Verb(
        "run a compiled program on the simulated device and collect its stats",
        (),
        (
            Group("", _CORE_RUN),
            Group("profiling", _CORE_PROFILING),
            Group("simulation", _CORE_SIMULATION),
            OUTPUT,
        ),
    ),
    "opstats": Verb(
        "stats buffers of a many-core accelerator as summaries and traces",
        (),
        (
            Group("", _OPSTATS),
            Group("results, at least one", _OPSTATS_RESULTS),
            Group("trace", _OPSTATS_TRACE),
            Group("sources", _OPSTATS_SOURCES),
        ),
    ),
    "disasm": Verb(
        "epoch-controller blobs to text",
        (Argument("source", "FILE", "a *_ecblobs.h, or the bytes of one blob"),),
        (
            Group(
                "",
                (
                    _text("blob", "one blob of a header (default: all)"),
                    _file("output", "write the text to FILE", flags=("-o", "--output")),
                ),
            ),
            OUTPUT,
        ),
    ),
    "asm": Verb(
        "text to an epoch-controller blob",
        (Argument("source", "FILE", "text, as `disasm` writes it"),),
        (
            Group(
                "",
                (
                    _file(
                        "output",
                        "a C header if it ends in .h, else the blob's bytes",
                        "OUT",
                        flags=("-o", "--output"),
                        required=True,
                    ),
                    _text("name", "ends the array's name in a header (default 1)", default="1"),
                ),
            ),
            OUTPUT,
        ),
    ),
    "sweep": Verb(
        "many models, machines and options: one row a run, resumable",
        (
            Argument(
                "words",
                "SPEC.toml | report STORE",
                "the sweep file with the runs to do, or `report` and the store that they left",
                "+",
                (),
                False,
            ),
        ),
        (
            Group("", (_file("spec", "the sweep file", shell=False),)),
            Group("runs", _SWEEP_RUNS),
            Group("dask cluster", _SWEEP_CLUSTER),
            Group("report", _SWEEP_REPORT),
            OUTPUT,
        ),
        _SWEEP_USAGE,
    ),
    "sweep report": Verb(
        "what a store says: best runs, latency against memory, failures",
        (Argument("store", "STORE", "the store that runs left"),),
        (Group("report", _SWEEP_REPORT), OUTPUT),
    ),
    "machines": Verb(
        "the machines and compiler generations that are known",
        (),
        (
            Group(
                "",
                (
                    _text(
                        "keys",
                        "all keys for --set with value, mark (timing or mapping) and source; "
                        "with TEXT only those with it in their name or mark",
                        "TEXT",
                        const="",
                        python=False,  # of one machine: npuscope.machine_keys(...)
                    ),
                ),
            ),
            OUTPUT,
        ),
    ),
    "rules": Verb(
        "the rules that explain and lint check",
        (Argument("rule", "ID", "one rule, with cause and fixes", "?"),),
        (OUTPUT,),
    ),
    "doctor": Verb("what is installed, and what each missing part would give", (), (OUTPUT,)),
}

# What only Python has, as functions of their own; and functions whose verb is called otherwise.
_BUILDING = (TARGET, READING)
PYTHON_ONLY: dict[str, Verb] = {
    "what_if": Verb(
        "the network before and after keys of the machine changed",
        (_SOURCE, Argument("values", "VALUES", "the changed keys with their values")),
        _BUILDING,
    ),
    "sensitivity": Verb("timing keys that save most time", (_SOURCE,), _BUILDING),
    "measure": Verb(
        "profile a device block by block, with all that it counted",
        (_SOURCE,),
        (
            Group("", tuple(o for o in _PROFILE if o.name == "batch")),
            Group("device", tuple(o for o in _DEVICE if o.name not in ("log", "vendor_figures"))),
            *_BUILDING,
        ),
    ),
}
_FUNCTIONS = {"board_serve": "board", "sweep_report": "sweep report"}


def verb_of(function: str) -> Verb:
    """The row of a function of the API."""
    if function in PYTHON_ONLY:
        return PYTHON_ONLY[function]
    known = _FUNCTIONS.get(function, function.replace("manycore_", "manycore "))
    return VERBS[known]


@cache
def keywords(function: str) -> frozenset[str]:
    """What a function of the API may be given by name."""
    row = verb_of(function)
    arguments = (argument.name for argument in row.arguments if argument.python)
    return frozenset((*arguments, *(option.name for option in row.options if option.python)))


def verb(function: Callable[P, R]) -> Callable[P, R]:
    """A function whose keywords are those of its row; another one is told with a suggestion."""
    name = function.__name__

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        for given in options:
            if given not in keywords(name):
                raise _wrong_keyword(name, given)
        return function(*args, **options)

    return checked


def _wrong_keyword(function: str, given: str) -> UsageError:
    users = [name for name in (*_functions(), *PYTHON_ONLY) if given in keywords(name)]
    here = {spelling: o.name for o in verb_of(function).options for spelling in o.spellings}
    shell = here.get(f"--{given.replace('_', '-')}")
    where = f"npuscope.{function}"
    if shell in keywords(function):
        return UsageError(f"unknown option '{given}'", where=where, hint=f"in Python it is {shell}")
    if users:
        return UsageError(
            f"'{given}' is not used here", where=where, hint=f"it is an option of {_some(users)}"
        )
    near = difflib.get_close_matches(given, sorted(keywords(function)), n=1)
    hint = f"did you mean {near[0]}?" if near else f"help({where}) lists what is possible"
    return UsageError(f"unknown option '{given}'", where=where, hint=hint)


def _functions() -> Iterator[str]:
    renamed = {verb: function for function, verb in _FUNCTIONS.items()}
    return (renamed.get(name, name.replace(" ", "_")) for name in VERBS if name != "manycore")


def wrong_words(name: str, words: Iterable[str]) -> UsageError:
    """Words of a command line that a verb does not know, with what was meant perhaps."""
    words = list(words)
    flag = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
    known = [s for o in _of_command(name) for s in o.spellings if o.shell]
    users = [verb for verb, row in VERBS.items() if flag in _spellings(row)]
    if not users and not flag.startswith("--"):  # -O3
        flag = flag[:2]
        users = [verb for verb, row in VERBS.items() if flag in _spellings(row)]
    near = difflib.get_close_matches(flag, known, n=1) if flag else []
    hint = f"`npuscope {name} --help` lists what is possible"
    if users:
        hint = f"{flag} is an option of {_some(users)}"
    elif near:
        hint = f"did you mean {near[0]}?"
    return UsageError(f"unrecognized arguments: {' '.join(words)}", hint=hint)


def _of_command(name: str) -> list[Option]:
    """With those of its own verbs, where it has some."""
    rows = [row for verb, row in VERBS.items() if verb == name or verb.startswith(f"{name} ")]
    return [option for row in rows for option in row.options]


def _spellings(row: Verb) -> set[str]:
    return {s for option in row.options if option.shell for s in option.spellings}


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
