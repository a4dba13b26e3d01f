"""`npuscope compile MODEL -o DIR`: the program of a model, as files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from npuscope.clock import now
from npuscope.collector import without_collector
from npuscope.errors import TargetError, UsageError
from npuscope.families.registry import family_for, family_of
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
    IMAGE,
    NEUTRAL,
    NOT_MODELLED,
    OUTPUT,
    OWN,
    READING,
    TARGET,
)
from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.building import Options, Source
    from npuscope.families.interface import Compiled
    from npuscope.program.model import Program
    from npuscope.report.compile import Compilation


def _neutral(flag: str, values: int) -> Option:
    name = flag.lstrip("-").replace("-", "_")
    kind, value = (OptionKind.FILE, "F") if values else (OptionKind.FLAG, "")
    means = "accepted, no effect"
    default = None if values else False
    return Option(
        name,
        kind,
        means,
        default,
        value,
        (flag,),
        python=False,
        effect=VendorEffect.NONE,
        of_family=True,
    )


# One option per row is easier to read than the formatter's layout.
# fmt: off
APPLICATIONS = ("classification", "yolov2", "yolov5", "yolov8", "yolod", "yolox", "ssd",
    "blazeface", "palm", "movenet", "pose-yolov8", "segmentation", "instance-segmentation")
# Names that only say how files are called.
FILES = ("name", "csv_file", "output_info_file", "application")
VENDOR = OptionGroup(
    "the vendor's options",
    (
        text("target", "the machine, as the vendor's tool names it", python=False, **OWN),
        text("name", "name of the network in C", default="network", flags=("-n", "--name"),
            vendor=("--network-name",), **OWN),
        file("model", "same as MODEL", "MODEL", flags=("-m", "--model"), python=False),
        whole("verbosity", "0: the answer only, 1: the default, 2 or 3: the lowering too", "",
            default=1, choices=(0, 1, 2, 3), python=False, **OWN),
        whole("d_lower", "above 0: log the lowering in the vendor's format", default=0,
            python=False, **OWN),
        file("csv_file", "name of the epoch table (network.csv)", "F", **OWN),
        file("output_info_file", "name of c_info.json", "F", **OWN),
        flag("enable_virtual_mem_pools", "accepted: always on",
            python=False, effect=VendorEffect.NONE, **OWN),
        *(_neutral(flag, values) for flag, values in NEUTRAL.items()),
        *(
            Option(flag.lstrip("-").replace("-", "_"), OptionKind.FLAG, f"refused: {reason}",
                False, "", (flag,), python=False, effect=VendorEffect.REFUSED, **OWN)
            for flag, reason in NOT_MODELLED.items()
        ),
    ),
    about="with the names that its tools use",
)
VERB = Verb(
    "compile a model to the program that the device executes",
    (Argument("source", "MODEL", "a model: .tflite or QDQ .onnx", "?"),),
    (
        OptionGroup("", (
            file("directory", "folder for the files (on the command line st_ai_output)", "DIR",
                flags=("-o", "--output")),
            flag("log_lowering", "list the mappings that rules refused, by epoch", python=False,
                **OWN),
            *IMAGE,
            text("application",
                "application template for app_config.h (default: chosen from the outputs)",
                "", default="", choices=APPLICATIONS, **OWN),
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
    all_families=True,
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
    application: str = "",
    **options: Unpack[Options],
) -> Program:
    """The Program of a model; with `directory`, its files are written there.

    In: a model, and the names of what is written. Out: what the device executes; for a machine of
    another family that family's own program.

    >>> npuscope.compile("model.tflite", "net", relocatable=True).executed
    """
    result = compilation(
        source,
        directory,
        name=name,
        csv_file=csv_file,
        output_info_file=output_info_file,
        application=application,
        **options,
    )
    program: Program = result.program
    return program


@without_collector()
def compilation(
    source: Source | None = None,
    directory: str | Path | None = None,
    *,
    model: str | None = None,
    target: str | None = None,
    words: Callable[[str], str] | None = None,
    **options: Any,
) -> Compilation | Compiled:
    """The Program with what was written; the vendor's tool takes the model with an option."""
    if (source in (None, "")) == (not model):
        what = "the model is given twice" if model else "no model to compile"
        raise UsageError(
            what, where="MODEL", hint="give it as MODEL or with -m, as in the vendor's tool"
        )
    family = family_of(options.get("machine"))
    if target is not None and target not in family.machines():
        names = ", ".join(family.machines())
        raise UsageError(f"unknown target '{target}'", where="--target", hint=names)
    from npuscope.report.compile import OUTPUT_FOLDER, Compilation

    if words is not None:  # at a command line
        directory = directory or OUTPUT_FOLDER
    from npuscope.building import refuse_stand_ins
    from npuscope.whole_file import new_folder

    network = source or str(model)
    family = family_for(network, {k: v for k, v in options.items() if k not in FILES})
    if directory is not None:
        refuse_stand_ins(options, "compile")  # type: ignore[arg-type]
        if not family.can("write"):
            raise family.lacks("compile")
    build = family.compile(network, options)
    if directory is None:
        files: tuple[str, ...] = ()
        notes: tuple[str, ...] = ()
    else:
        command = ("compile", words("compile")) if words is not None else ()
        options |= {"directory": str(directory), "created": now(), "asked": command}
        with new_folder(directory) as folder:
            remarks = family.write(build, folder.path, options)
        files, notes = folder.files, (*remarks, *folder.kept)
    result: Compilation | Compiled = family.compiled(build, files, notes)
    if directory is None or not isinstance(result, Compilation):
        return result
    from npuscope.report.build_files import build_call

    return replace(result, call=build_call(build, options))


def tell_missing(result: Compilation | Compiled) -> None:
    """Everything else was written; but a build without C cannot be run."""
    for note in result.missing:
        print(f"npuscope: {safe_terminal(note)}", file=sys.stderr)


def missing_code(result: Compilation | Compiled) -> int:
    return TargetError.exit_code if result.missing else 0
