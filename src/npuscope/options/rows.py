"""Options by theme, one row each: name in Python, meaning, default, spellings on the command line.

`verbs` says which verb takes which; rows of the many-core verbs are in `core_rows`.
"""

from __future__ import annotations

from typing import Any

from npuscope.lean_dataclass import replace
from npuscope.options.kinds import (
    Argument,
    Group,
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

# One option per row is easier to read than the formatter's layout.
# fmt: off
DATA_TYPES = ("float32", "int8", "uint8")
LEVELS = (0, 1, 2, 3)
CPUS = ("cortex-m55", "cortex-m33")
TOOLCHAINS = ("zig", "gcc")
APPLICATIONS = ("classification", "yolov2", "yolov5", "yolov8", "yolod", "yolox", "ssd",
    "blazeface", "palm", "movenet", "pose-yolov8", "segmentation", "instance-segmentation")
BOARDS = ("emulated", "stm32n6570-dk")
DEFAULT_ADDRESS = "0x71000000,0x71800000"
MAPPED: dict[str, Any] = {"mark": Mark.MAPPING}
TIMED: dict[str, Any] = {"mark": Mark.TIMING}

# --- Groups that verbs share ---

SET = list_("overrides", "what-if: replace one value of the machine, e.g. clocks.npu_mhz=800",
    "KEY=VALUE", flags=("--set",), mark=Mark.BOTH)
GENERATION = text("generation",
    "compiler generation: 2.2, 3.0, 4.0 or open (default 4.0, or the program's)",
    suggested=("2.2", "3.0", "4.0", "open"))
MACHINE = (
    text("machine", "the machine, see `machines`", default="stm32n6", suggested=("stm32n6",),
        **MAPPED),
    file("machine_file", "a machine of your own (TOML)", **MAPPED),
    replace(GENERATION, mark=Mark.MAPPING),
    option("epoch_controller", Kind.SWITCH,
        "start epochs with the NPU's own controller (default) or from the CPU",
        vendor=("--enable-epoch-controller",), **MAPPED),
    text("art_profile",
        "pools, machine and compiler options of a profile in the vendor's neural_art.json",
        "NAME@FILE", vendor=("--st-neural-art",), **MAPPED),
    real("mcu_mhz", "CPU clock (800)", "MHZ", **TIMED),
    real("npu_mhz", "NPU clock (1000)", "MHZ", **TIMED),
    text("flash", "how the board drives its flash: octo-dtr-200 (default), octo-dtr-50, ...",
        "NAME", **TIMED),
    text("psram", "the same of its external RAM: hexa-dtr-200 (default), ...", "NAME", **TIMED),
    file("mpool", "memory pools from a vendor .mpool file", vendor=("--load-mpool",), **MAPPED),
    file("mdesc", "units from a vendor .mdesc file", vendor=("--load-mdesc",), **MAPPED),
    SET,
)
LEVEL = whole("optimization", "0 to 3 (default: that of the generation)", "LEVEL",
    flags=("-O", "--optimization"), choices=LEVELS, **MAPPED)
# Without the level: for verbs that look at a model and compile nothing.
LOOKED_AT = Group("machine", MACHINE, shared=True)
OF_PROGRAMS = (
    option("compiled_from", Kind.FILE, "the model of a compiled program", shell=False, **MAPPED),
    flag("ec_single_epoch", "one blob per epoch instead of one for many", shell=False, **MAPPED),
)
TARGET = Group("machine", (*MACHINE[:5], LEVEL, *MACHINE[5:], *OF_PROGRAMS), shared=True)
IO_TYPES = tuple(
    text(f"{side}_data_type", f"element type at the {side}s", "", choices=DATA_TYPES, **MAPPED)
    for side in ("input", "output")
)
SHAPE = list_("shapes", "fix the shape of an input, or the size of a symbol, if it is open",
    "NAME=1,224,224,3",
    flags=("--shape",), **MAPPED)
AS_INT8 = flag("as_int8", "a float network as if it were quantized: stand-in scales, figures only",
    **MAPPED)
READING = Group("model", (*IO_TYPES, SHAPE, AS_INT8), shared=True)
BUILT_IN = Group("model", IO_TYPES, shared=True)  # the built-in network has no dynamic sizes

JSON = file("json", "print the result as JSON and nothing else, or write it to FILE", const="-",
    python=False)
QUIET = flag("quiet", "print the answer in one line", flags=("-q", "--quiet"), python=False)
VERBOSE = flag("verbose", "print details and tracebacks", flags=("-v", "--verbose"), python=False)
FORCE = flag("force", "replace output files that npuscope did not write", python=False)
OUTPUT = Group("output", (JSON, FORCE, QUIET, VERBOSE), shared=True)
NO_COLOR = flag("no_color", "not needed: there are no colours",
    python=False, effect=VendorEffect.NONE)


def vendor_output(log: str) -> Group:
    """As on every verb, but -v is the verbosity of the vendor's tool."""
    verbosity = whole("verbosity", "0: the answer only, 1: the default, 2: everything", "",
        default=1, flags=("-v", "--verbosity"), choices=(0, 1, 2), const=1, python=False)
    kept = file("log", f"a log ({log})", const=log, python=False)
    debug = flag("debug", "internal log on stderr", python=False)
    verbose = replace(VERBOSE, flags=())
    return Group("output", (JSON, FORCE, QUIET, verbose, verbosity, kept, debug, NO_COLOR))


HTML = file("html", "write an HTML report: one file, no network access")
SARIF = file("sarif", "write the findings to FILE as SARIF 2.1.0")
JUNIT = file("junit", "write rules and findings to FILE as JUnit XML")
FINDINGS = Group("files", (SARIF, JUNIT))
SOURCE_HELP = (
    "a model (.tflite, QDQ .onnx), or what a compiler made: folder, network.c, c_info.json"
)
RUN_HELP = "a model, a build, a saved profile, estimate or profile JSON, or log:FILE of a board"
SOURCE = Argument("source", "SOURCE", SOURCE_HELP)
SINGLE = flag("ec_single_epoch",
    "one blob per epoch: shows what the epoch controller adds to each", **MAPPED)
COMPILED_FROM = file("model", "the model that a compiled program was made from", "M")

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
    "--Oalt-sched": 0,
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
    "--expand-softmax": "the ops that it makes of a Softmax are not known",
}


def _neutral(flag: str, values: int) -> Option:
    name = flag.lstrip("-").replace("-", "_")
    kind, value = (Kind.FILE, "F") if values else (Kind.FLAG, "")
    means = "accepted, no effect"
    default = None if values else False
    return Option(name, kind, means, default, value, (flag,),
        python=False, effect=VendorEffect.NONE)


VENDOR = Group(
    "the vendor's options",
    (
        text("target", "stm32n6", python=False),
        text("name", "name of the network in C", default="network", flags=("-n", "--name"),
            vendor=("--network-name",)),
        file("model", "the same as MODEL", "MODEL", flags=("-m", "--model"), python=False),
        whole("verbosity", "0: the answer only, 1: the default, 2 or 3: the lowering too", "",
            default=1, choices=(0, 1, 2, 3), python=False),
        whole("d_lower", "log of the lowering in the vendor's words, above 0", default=0,
            python=False),
        file("csv_file", "name of the epoch table (network.csv)", "F"),
        file("output_info_file", "name of c_info.json", "F"),
        replace(SINGLE, means="a blob for every epoch, not one for many"),
        whole("max_ca_pipe", "units in series at most", flags=("--Omax-ca-pipe",), **MAPPED),
        flag("enable_virtual_mem_pools", "accepted: always on",
            python=False, effect=VendorEffect.NONE),
        *(_neutral(flag, values) for flag, values in NEUTRAL.items()),
        *(
            Option(flag.lstrip("-").replace("-", "_"), Kind.FLAG, f"refused: {reason}", False, "",
                (flag,), python=False, effect=VendorEffect.REFUSED)
            for flag, reason in NOT_MODELLED.items()
        ),
    ),
    about="under the names its tools use",
)

ESTIMATE = (
    HTML,
    file("model", "the model of a compiled program, for --set with mapping keys", "M"),
    flag(
        "sensitivity",
        "show which timing keys save most time if improved by 10 %",
        python=False,  # npuscope.sensitivity(...)
    ),
)
PROFILE = (
    whole("batch", "samples of every counter; means are reported (default 1; log: all)"),
    flag("full", "every field of every epoch instead of one line", python=False),
    text("epochs", "only these, e.g. 3,7-12", "LIST", python=False),
    file("csv", "write a table with one row per epoch"),
    HTML,
    file("trace", "write a timeline for ui.perfetto.dev"),
    file("chrome", "write it as Chrome trace events (JSON)"),
    file("save", "save the profile, to report or export it later"),
)
DEVICE = (
    text("connect",
        "simulated (default), emulated, serial[:PORT][:BAUD], socket:HOST:PORT or log:FILE", "DESC",
        default="simulated"),
    text("network", "which network, if the device has several", default="", flags=("-n", "--name")),
    file("cfile", "the build that runs there, as SOURCE: network.c, c_info.json or the folder",
        flags=("-c", "--cfile"), python=False),
    flag("vendor_plan",
        "use the passes of the vendor's profiler (a warm-up and three) instead of the fewest"),
    flag("vendor_figures", "report in the vendor's layout and with its means", python=False),
    SINGLE,
    file("log", "save every counter of every inference, for --connect log:FILE"),
)
FIX = (
    list_("only", "rules or fixes, applied even if they cost time", "NAME,..."),
    flag("cut",
        "end the network where the NPU's work ends; what the application does then is listed"),
    flag("drop_softmax", "end the network before a final Softmax"),
    flag("integer_io", "int8 or uint8 instead of float32 at inputs and outputs"),
    flag("everything", "try every edit that keeps the network's function, including these three, "
        "and keep those that help", flags=("--all",)),
    flag("lossy", "allow edits that change outputs, such as nearest for bilinear resizing"),
)
COMPARED_ON = (
    text("data", "compare on real data: a folder of images, a .npz or .npy file", "DIR|FILE"),
    whole("seeds", "random inputs to compare on without --data (2)", default=2),
)
COMPILE = (
    file("directory", "folder for the files", "DIR", flags=("-o", "--output"), required=True),
    flag("log_lowering", "list the mappings that rules refused, by epoch", python=False),
    flag("relocatable", "make external pools relative, as `npuscope package` needs them", **MAPPED),
    flag("no_secure", "for the non-secure world: internal pools at 0x24000000 and above", **MAPPED),
    text("application", "whose defines app_config.h has (default: found from the outputs)", "",
        default="", choices=APPLICATIONS),
)
SERVE = (
    whole("port", "port of this computer (default: any free one)", default=0),
    list_("pools", "another .mpool file to choose in the view", "FILE"),
    flag("no_browser", "print the address only; no browser is opened", python=False),
    text("ready", "called with the address", "FUNCTION", shell=False),
)
CALIBRATIONS = ("auto", "minmax", "percentile", "mse", "entropy")
LAYOUTS = ("nchw", "nhwc")
QUANTIZE = (
    file("output", "file for the quantized model; without it nothing is written", "OUT",
        flags=("-o", "--output")),
    text("data", "calibration data: a folder of images, a .npz or .npy file, or `random`",
        "DIR|FILE|random", required=True),
    text("calibration", "how ranges are found; auto tries all and keeps the best (auto)", "",
        default="auto", choices=CALIBRATIONS),
    whole("samples", "use at most N samples; every fourth is held out to compare on (128)",
        default=128),
    whole("seed", "chooses samples and random data (0)", default=0),
    real("loss_db", "signal to noise that a faster form may cost, in dB (1)", "DB", default=1.0),
    text("progress", "called with what is being done", "FUNCTION", shell=False),
)
IMAGES = (
    text("mean", "subtracted from pixels, one number or one a channel (0)", "0.485,0.456,0.406"),
    text("std", "pixels are divided by this, after the mean (1)", "0.229,0.224,0.225"),
    real("pixel_max", "what a pixel of 255 is before mean and std (1)", "X", default=1.0),
    text("layout", "where the channels of the input are (default: where its shape has 1 or 3)", "",
        choices=LAYOUTS),
)
INPUTS = list_("inputs", "input data; once for every input, in order", "F.npy")
SEEDS = whole("seeds", "random inputs to try (1)", default=1)
DATA = Group("data", (INPUTS, SEEDS), exclusive=("inputs", "seeds"))
GATE = (
    *(
        list_(name, f"the {word} allowed value of a figure: total_ms=20, SW=0, "
            "internal_ram_bytes=2MiB, findings.error=0", "KEY=VALUE", flags=(flag,))
        for name, flag, word in (("most", "--max", "largest"), ("least", "--min", "smallest"))
    ),
    file("baseline", "JSON of estimate, profile or gate, or any source: nothing gets worse"),
    text("tolerance", "how much worse a figure may get, e.g. 3%", "SHARE", default="0",
        flags=("--tol",)),
    file("summary", "append a Markdown table to FILE"),
    HTML,
    flag("with_findings", "include findings, without writing a file for them", shell=False),
    flag("github", "errors as annotations on stdout, the table in the summary of the GitHub job",
        python=False),
)
COMPARE = (
    *(
        list_(f"{side}_options",
            f"an option of {side.upper()} alone: generation=2.2, set.clocks.npu_mhz=800",
            "KEY=VALUE", flags=(f"--{side}",))
        for side in ("a", "b")
    ),
    flag("as_built", "compile the model B with the options and pools of the vendor's build A, "
        "and list epoch by epoch where the two compilers differ"),
    text("noise", "least noise of a measured row, e.g. 1%, beside the spread of its samples (0)",
        "SHARE"),
    HTML,
)
PACKAGE = (
    file("input", "the folder or its network.c (st_ai_output)", "DIR", flags=("-i", "--input"),
        python=False),
    file("directory", "output folder; other files there are kept (build)", "DIR", default="build",
        flags=("-o", "--output")),
    text("name", "name of the files and of the network on the board (default: that of network.c)",
        "NAME", default="", flags=("-n", "--name")),
    text(
        "cpu",
        "processor of the board: cortex-m33 for the emulated one, cortex-m55 for an STM32N6",
        "",
        default="cortex-m33",
        choices=CPUS,
    ),
    text("toolchain", "compiler of the code; gcc is an installed arm-none-eabi-gcc", "",
        default="zig", choices=TOOLCHAINS),
    flag("split", "parameters in a separate file"),
    flag("no_secure", "for the non-secure world: internal pools lie at 0x24000000 and above"),
    flag("gen_c_file", "the image as a C array too: NAME_img_rel.c and .h"),
    flag("parse_only", "read and check, build nothing", python=False),
    flag("no_clean", "keep sources, objects and the ELF file in NAME_build"),
    text("options", "all of these as one PackageOptions", "RECORD", shell=False),
    file("pack_dir", "not needed: npuscope includes the runtime, the kernels and the compiler",
        "DIR", python=False, effect=VendorEffect.NONE),
)
DEPLOY = (
    text("board", "the board (stm32n6570-dk)", "", default="stm32n6570-dk",
        choices=("stm32n6570-dk", "nucleo-n657x0-q")),
    file("fsbl", "first stage boot loader: a signed .hex, or a .bin to be signed"),
    file("application", "the application: a signed .hex, or a .bin to be signed"),
    text("tool", "what programs the board", "", default="STM32_Programmer_CLI",
        choices=("STM32_Programmer_CLI", "probe-rs", "pyocd")),
    flag("run", "run the commands (default: only print them)"),
)
RUN = (
    file("input", "the same", flags=("-i", "--input"), python=False),
    text(
        "board",
        "where to run; stm32n6570-dk prints the commands for a real board",
        "",
        default="emulated",
        choices=BOARDS,
        python=False,
    ),
    text("address", f"addresses in flash ({DEFAULT_ADDRESS})", "NET[,PARAMS]",
        default=DEFAULT_ADDRESS),
    text("mode", "comma list: copy or xip (execute in place), no-run (load only), "
        "max-speed (a faster serial line), no-flash (for real boards) (copy)", "WORDS",
        default="copy"),
    text("generation", "generation whose control times are used (that of the image)", default=""),
    real("mcu_mhz", "clock of the processor (800)", "MHZ"),
    real("npu_mhz", "clock of the NPU (1000)", "MHZ"),
    whole("batch", "number of inferences; times are means (1)", default=1),
    option("inputs", Kind.LIST, "input arrays (default: random)", shell=False),
    file("cube_ide_dir", "not needed: the emulated board needs no debugger", "DIR", python=False,
        effect=VendorEffect.NONE),
)
SWEEP_RUNS = (
    file("store", "the store (default: SPEC.jsonl beside SPEC.toml)", "STORE", flags=("-o",
        "--output")),
    whole("jobs", "number of processes (default: one per core)"),
    real("timeout", "fail a run that takes longer than S seconds", "S"),
    flag("retry_failed", "repeat failed runs of the store"),
    flag("yes", "allow more than 10,000 runs"),
    text("watch", "called with a Tally after every run", "FUNCTION", shell=False),
    text("options", "all of these as one SweepOptions", "RECORD", shell=False),
)
SWEEP_CLUSTER = (
    text("scheduler", "tcp://HOST:PORT or tls://HOST:PORT of a scheduler", "ADDRESS"),
    whole("local_cluster", "a cluster of N workers on this computer"),
    file("tls_ca", "certificate authority of tls://"),
    file("tls_cert", "our certificate for tls://"),
    file("tls_key", "the key of our certificate"),
    flag("dashboard", "serve dask's dashboard for --local-cluster, on loopback"),
)
SWEEP_REPORT = (
    file("html", "tables and plots as one offline HTML file"),
    file("csv", "one line per run"),
    file("parquet", "the same with types (needs pyarrow)"),
)
SWEEP_USAGE = "npuscope sweep [options] SPEC.toml\n       npuscope sweep report [options] STORE"
