"""`npuscope compile MODEL -o DIR`: the program of a model, as files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.clock import now
from npuscope.errors import TargetError, UsageError
from npuscope.options.kinds import (
    Argument,
    Option,
    OptionGroup,
    OptionKind,
    VendorEffect,
    Verb,
    file,
    flag,
    text,
    whole,
)
from npuscope.options.rows import (
    MAPPED,
    NEUTRAL,
    NOT_MODELLED,
    OUTPUT,
    READING,
    SINGLE,
    TARGET,
)
from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.building import Build, Options, Source
    from npuscope.program.generate_report.summary import BuildCall
    from npuscope.program.model import Program
    from npuscope.report.compile import Compilation

_TARGETS = ("stm32n6",)
_OUTPUT = "st_ai_output"


def _neutral(flag: str, values: int) -> Option:
    name = flag.lstrip("-").replace("-", "_")
    kind, value = (OptionKind.FILE, "F") if values else (OptionKind.FLAG, "")
    means = "accepted, no effect"
    default = None if values else False
    return Option(
        name, kind, means, default, value, (flag,), python=False, effect=VendorEffect.NONE
    )


# One option per row is easier to read than the formatter's layout.
# fmt: off
APPLICATIONS = ("classification", "yolov2", "yolov5", "yolov8", "yolod", "yolox", "ssd",
    "blazeface", "palm", "movenet", "pose-yolov8", "segmentation", "instance-segmentation")
VENDOR = OptionGroup(
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
            Option(flag.lstrip("-").replace("-", "_"), OptionKind.FLAG, f"refused: {reason}",
                False, "", (flag,), python=False, effect=VendorEffect.REFUSED)
            for flag, reason in NOT_MODELLED.items()
        ),
    ),
    about="under the names its tools use",
)
VERB = Verb(
    "a model to the program that the device executes",
    (Argument("source", "MODEL", "a model: .tflite or QDQ .onnx", "?"),),
    (
        OptionGroup("", (
            file("directory", "folder for the files (on the command line st_ai_output)", "DIR",
                flags=("-o", "--output")),
            flag("log_lowering", "list the mappings that rules refused, by epoch", python=False),
            flag("relocatable", "make external pools relative, as `npuscope package` needs them",
                **MAPPED),
            flag("no_secure", "for the non-secure world: internal pools at 0x24000000 and above",
                **MAPPED),
            text("application", "whose defines app_config.h has (default: found from the outputs)",
                "", default="", choices=APPLICATIONS),
        )),
        TARGET,
        READING,
        VENDOR,
        OUTPUT,
    ),
    run="compilation",
    text="npuscope.report.compile:compilation_text",
    json="npuscope.report.compile:compilation_json",
    busy="compiling",
    code="missing_code",
    after="tell_missing",
    reads=("source", "model"),
)
# fmt: on


@checked(VERB)
def compile(
    source: Source,
    directory: str | Path | None = None,
    *,
    name: str = "network",
    csv_file: str | Path | None = None,
    output_info_file: str | Path | None = None,
    max_ca_pipe: int | None = None,
    application: str = "",
    **options: Unpack[Options],
) -> Program:
    """The Program of a model; with `directory`, its files are written there.

    In: a model, and the names of what is written. Out: what the device executes.

    >>> npuscope.compile("model.tflite", "net", relocatable=True).executed
    """
    return compilation(
        source,
        directory,
        name=name,
        csv_file=csv_file,
        output_info_file=output_info_file,
        max_ca_pipe=max_ca_pipe,
        application=application,
        **options,
    ).program


def compilation(
    source: Source | None = None,
    directory: str | Path | None = None,
    *,
    model: str | None = None,
    target: str | None = None,
    name: str = "network",
    csv_file: str | Path | None = None,
    output_info_file: str | Path | None = None,
    max_ca_pipe: int | None = None,
    application: str = "",
    words: Callable[[str], str] | None = None,
    **options: Unpack[Options],
) -> Compilation:
    """The Program with what was written; the vendor's tool takes the model with an option."""
    if (source in (None, "")) == (not model):
        what = "the model is given twice" if model else "there is no model to compile"
        raise UsageError(
            what, where="MODEL", hint="give it as MODEL or with -m, as the vendor's tool"
        )
    if target is not None and target not in _TARGETS:
        raise UsageError(f"unknown target '{target}'", where="--target", hint="stm32n6")
    if max_ca_pipe is not None:
        if not 1 <= max_ca_pipe <= 4:
            raise UsageError(f"expected 1 to 4 units, found {max_ca_pipe}", where="--Omax-ca-pipe")
        overrides = {"convacc.max_pipe": max_ca_pipe, **(options.get("overrides") or {})}
        options = {**options, "overrides": overrides}
    if directory is None and words is not None:
        directory = _OUTPUT  # of the vendor's tool; where `package` looks
    from npuscope.building import art_profile, build, optimization_level, refuse_stand_ins
    from npuscope.program.generate_report.summary import BuildCall
    from npuscope.report.compile import Compilation
    from npuscope.whole_file import new_folder

    if directory is not None:
        refuse_stand_ins(options, "compile")
    network = build(source or str(model), options)
    if directory is None:
        return Compilation(network.program, graph=network.graph)
    level, profile = optimization_level(options), art_profile(options)
    if profile is not None:
        csv_file = csv_file or profile.options.csv_file
        output_info_file = output_info_file or profile.options.info_file
    call = BuildCall(
        str(directory),
        name,
        str(csv_file or ""),
        str(output_info_file or ""),
        application,
        network.machine.generation.default_optimization if level is None else level,
        str(options.get("mpool") or ""),
        ("compile", words("compile")) if words is not None else (),
        now(),
    )
    with new_folder(directory) as folder:
        notes = write(network, folder.path, call)
    return Compilation(network.program, folder.files, (*notes, *folder.kept), network.graph, call)


def write(network: Build, folder: Path, call: BuildCall | None = None) -> tuple[str, ...]:
    """All files of a build: the program, and what the vendor's tools would have written.

    Returns notes on what could not be written.
    """
    from npuscope.profiling.run import estimate
    from npuscope.report.build_files import write_build
    from npuscope.whole_file import as_file_error

    if network.graph is None:
        raise UsageError("this is already a compiled program", hint="give a .tflite or .onnx model")
    profile = estimate(network.program, network.machine, network.graph)
    with as_file_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return write_build(folder, network.program, network.machine, network.graph, profile, call)


def tell_missing(result: Compilation) -> None:
    """Everything else was written; but a build without C cannot be run."""
    for note in result.missing:
        print(f"npuscope: {safe_terminal(note)}", file=sys.stderr)


def missing_code(result: Compilation) -> int:
    return TargetError.exit_code if result.missing else 0
