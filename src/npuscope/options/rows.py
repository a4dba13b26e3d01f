"""Options that several verbs share, one row each: keyword in Python, meaning, default, spellings.

Those of one verb stand in its module, in `verbs`.
"""

from __future__ import annotations

from typing import Any

from npuscope.options.kinds import (
    DEFAULT_MACHINE,
    Argument,
    Mark,
    OptionGroup,
    OptionKind,
    VendorEffect,
    file,
    flag,
    list_,
    option,
    real,
    result_file,
    text,
    whole,
)
from npuscope.options.words import parse_overrides, parse_shapes, read_arrays
from npuscope.structs import replace

# One option per row is easier to read than the formatter's layout.
# fmt: off
DATA_TYPES = ("float32", "int8", "uint8")
BOARDS = ("stm32n6570-dk", "nucleo-n657x0-q")  # of loadable/boards.toml, the default first
LEVELS = (0, 1, 2, 3)
DEFAULT_ADDRESS = "0x71000000,0x71800000"
OWN: dict[str, Any] = {"of_family": True}
MAPPED: dict[str, Any] = {"mark": Mark.MAPPING, **OWN}
TIMED: dict[str, Any] = {"mark": Mark.TIMING, **OWN}

# --- Groups that verbs share ---

SET = list_("overrides", "what-if: replace one value of the machine, e.g. clocks.npu_mhz=800",
    "KEY=VALUE", flags=("--set",), mark=Mark.BOTH, parse=parse_overrides)
GENERATION = text("generation",
    "compiler generation: 2.0, 2.1, 2.2, 3.0, 4.0 or open (default 4.0, or the program's)",
    suggested=("2.2", "3.0", "4.0", "open"))
MACHINE = (
    text("machine", f"the machine, see `machines` (default: that of a compiled file, else "
        f"{DEFAULT_MACHINE})", suggested=(DEFAULT_MACHINE,), mark=Mark.MAPPING),
    file("machine_file", "a machine of your own (TOML)", **MAPPED),
    replace(GENERATION, **MAPPED),
    option("epoch_controller", OptionKind.SWITCH,
        "start epochs with the NPU's own controller (default) or from the CPU",
        vendor=("--enable-epoch-controller",), **MAPPED),
    text("art_profile",
        "pools, machine and compiler options of a profile in the vendor's neural_art.json",
        "NAME@FILE", const="default", vendor=("--st-neural-art",), **MAPPED),
    text("board", "clocks, flash, external RAM and pools of a board: stm32n6570-dk (the default), "
        "nucleo-n657x0-q", "NAME", suggested=BOARDS, **MAPPED),
    real("mcu_mhz", "CPU clock (800)", "MHZ", **TIMED),
    real("npu_mhz", "NPU clock (1000)", "MHZ", **TIMED),
    text("flash", "how the board drives its flash: octo-dtr-200 (default), octo-dtr-50, ...",
        "NAME", **TIMED),
    text("psram", "how the board drives external RAM: hexa-dtr-200 (default), ...", "NAME",
        **TIMED),
    file("mpool", "memory pools from a vendor .mpool file", vendor=("--load-mpool",), **MAPPED),
    file("mdesc", "units from a vendor .mdesc file", vendor=("--load-mdesc",), **MAPPED),
    SET,
)
LEVEL = whole("optimization", "0 to 3 (default: that of the generation)", "LEVEL",
    flags=("-O", "--optimization"), choices=LEVELS, **MAPPED)
# What the compiler makes of a network. Every verb that compiles takes all of these rows: one that
# is added here is an option of all of them and a field of `building.Options`, read there.
SCHEDULED = (
    LEVEL,
    flag("ec_single_epoch",
        "one blob per epoch: shows what the epoch controller adds to each", **MAPPED),
    flag("alternative_schedule", "the vendor's other scheduler: branches by level",
        flags=("--Oalt-sched",), **MAPPED),
    whole("max_ca_pipe", "maximum number of units in series", flags=("--Omax-ca-pipe",),
        **MAPPED),
)
# For verbs that look at a model and compile nothing.
LOOKED_AT = OptionGroup("machine", MACHINE, shared=True)
OF_PROGRAMS = (
    option("compiled_from", OptionKind.FILE, "the model of a compiled program",
        shell=False, **MAPPED),
)
TARGET = OptionGroup(
    "machine", (*MACHINE[:5], *SCHEDULED, *MACHINE[5:], *OF_PROGRAMS), shared=True)
IO_TYPES = tuple(
    text(f"{side}_data_type", f"element type at the {side}s", "", choices=DATA_TYPES, **MAPPED)
    for side in ("input", "output")
)
IO_LAYOUT = tuple(
    text(f"{side}s_ch_position", f"hand {side}s over channel-last: no copy turns them", "",
        choices=("chlast",), **MAPPED)
    for side in ("input", "output")
)
SHAPE = list_("shapes",
    "set the shape of an input, or a symbolic size, if the model leaves it open",
    "NAME=1,224,224,3", flags=("--shape",), parse=parse_shapes, mark=Mark.MAPPING)
AS_INT8 = flag("as_int8", "a float network as if quantized: placeholder scales, estimates only",
    **MAPPED)
WEIGHTS = list_("weights",
    "weights of a compiled program that lie elsewhere: a raw image, .hex, .elf or .c",
    "FILE[@ADDRESS]", flags=("--weights",), **MAPPED)
READING = OptionGroup("model", (*IO_TYPES, *IO_LAYOUT, SHAPE, AS_INT8, WEIGHTS), shared=True)
IMAGE = (
    flag("relocatable", "make external pools relative, as `npuscope package` needs them", **MAPPED),
    flag("no_secure", "for the non-secure world: internal pools at 0x24000000 and above", **MAPPED),
)
# How a network is read and built, by the verbs that do.
BUILDING = {row.name: row for row in (*TARGET.options, *READING.options, *IMAGE)}
BUILT_IN = OptionGroup("model", IO_TYPES, shared=True)  # the built-in network has no dynamic sizes

JSON = result_file("json", "print the result as JSON and nothing else, or write it to FILE",
    const="-", python=False)
QUIET = flag("quiet", "print the answer in one line", flags=("-q", "--quiet"), python=False)
VERBOSE = flag("verbose", "print details and tracebacks", flags=("-v", "--verbose"), python=False)
FORCE = flag("force", "replace output files that npuscope did not write", python=False)
OUTPUT = OptionGroup("output", (JSON, FORCE, QUIET, VERBOSE), shared=True)
NO_COLOR = flag("no_color", "not needed: output has no colours",
    python=False, effect=VendorEffect.NONE)


VERBOSITY = whole("verbosity", "0: the answer only, 1: the default, 2: everything", "",
    default=1, choices=(0, 1, 2), const=1, python=False)


def vendor_output(log: str) -> OptionGroup:
    """As on every verb, but -v is the verbosity of the vendor's tool."""
    verbosity = replace(VERBOSITY, flags=("-v", "--verbosity"))
    log_file = result_file("log", f"a log ({log})", const=log, python=False)
    debug = flag("debug", "internal log on stderr", python=False)
    verbose = replace(VERBOSE, flags=())
    rows = (JSON, FORCE, QUIET, verbose, verbosity, log_file, debug, NO_COLOR)
    return OptionGroup("output", rows)


HTML = result_file("html", "write an HTML report: one file, no network access")
SARIF = result_file("sarif", "write the findings to FILE as SARIF 2.1.0")
JUNIT = result_file("junit", "write rules and findings to FILE as JUnit XML")
FINDINGS = OptionGroup("files", (SARIF, JUNIT))
SOURCE_HELP = (
    "a model (.tflite, QDQ .onnx), or what a compiler made: folder, network.c, c_info.json"
)
RUN_HELP = "a model, a build, a saved profile, estimate or profile JSON, or log:FILE of a board"
SOURCE = Argument("source", "SOURCE", SOURCE_HELP)
COMPILED_FROM = file("model", "the model that a compiled program was made from", "M",
    of_family=True)

# The vendor compiler's options on `compile`. Those that change nothing, with their values' number.
NEUTRAL = {
    "--all-buffers-info": 0,
    "--cache-maintenance": 0,
    "--continue-on-errors": 0,
    "--generate-stai": 0,
    "--load-cdesc": 1,
    "--mvei": 0,
    "--native-float": 0,
    "--no-hw-sw-parallelism": 0,
    "--Oauto-sched": 0,
    "--Ocache-opt": 0,
    "--Os": 0,
    "--Oshuffle-dma": 0,
    "--json-quant-file": 1,
    "--out-dir-prefix": 1,
    "--save-mpool-file": 1,
}
# Options whose effect on a build is not known well enough to reproduce.
NOT_MODELLED = {
    "--Oauto": "the level that the vendor's compiler would choose is not known",
    "--force-8bits-scale-offset": "its effect on scales is not known",
    "--expand-softmax": "the ops that replace the Softmax are not known",
}


LAYOUTS = ("nchw", "nhwc")
IMAGES = (
    text("mean", "subtracted from pixels, one number or one per channel (0)", "0.485,0.456,0.406",
        of_samples=True),
    text("std", "pixels are divided by this, after the mean (1)", "0.229,0.224,0.225",
        of_samples=True),
    real("pixel_max", "value of a pixel of 255 before mean and std (1)", "X", default=1.0,
        of_samples=True),
    text("layout", "axis order of the input (default: channels are where its shape has 1 or 3)", "",
        choices=LAYOUTS, of_samples=True),
)
INPUTS = list_("inputs", "input data; give it once per input, in order", "F.npy",
    parse=read_arrays)
SEEDS = whole("seeds", "random inputs to try (1)", default=1)
DATA = OptionGroup("data", (INPUTS, SEEDS), exclusive=("inputs", "seeds"))

# --- Devices, and stores of sweeps ---

BATCH = whole("batch", "samples per counter; the mean is reported (default 1; log: all)",
    of_family=True)
DEVICE = (
    text("connect",
        "simulated (default), emulated, serial[:PORT][:BAUD], socket:HOST:PORT or log:FILE", "DESC",
        default="simulated", vendor=("-d", "--desc"), **OWN),
    text("network", "which network, if the device has several", default="", flags=("-n", "--name"),
        **OWN),
    file("cfile", "the build that runs on the device: network.c, c_info.json or the folder",
        flags=("-c", "--cfile"), python=False, **OWN),
    flag("vendor_plan",
        "use the passes of the vendor's profiler (a warm-up and three) instead of fewer", **OWN),
    flag("vendor_figures", "print the report in the vendor's layout, with its averages",
        python=False, **OWN),
    result_file("log",
        "save every counter of every inference (npu_profiler.log), for --connect log:FILE",
        const="npu_profiler.log", **OWN),
)
SWEEP_REPORT = OptionGroup("report", (
    result_file("html", "tables and plots as one offline HTML file"),
    result_file("csv", "one line per run"),
    result_file("parquet", "as --csv, in Parquet with types (needs pyarrow)"),
))

# --- Machines with many cores ---

CORE_MACHINE = (
    text("machine", "the machine (cloudai100)", default="cloudai100"),
    file("machine_file", "a machine of your own (TOML)"),
)
