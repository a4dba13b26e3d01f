"""Every option once: the command line, the keywords in Python and docs/cli.md are made from here.

`VERBS` lists what each verb takes. An Option has the keyword of Python as its name and one or more
spellings on the command line; `vendor` spellings are those of the tools that people come from.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from npuscope import option_rows as rows
from npuscope.errors import UsageError
from npuscope.option_kinds import (
    Argument,
    Group,
    Kind,
    Option,
    Verb,
    file,
    flag,
    option,
    text,
    whole,
)

P = ParamSpec("P")
R = TypeVar("R")

VERBS: dict[str, Verb] = {
    "demo": Verb(
        "the main job on a built-in network: compile, simulate, profile",
        (),
        (
            Group(
                "",
                (
                    file(
                        "directory",
                        "folder for the reports (default npuscope-demo)",
                        "DIR",
                        default="npuscope-demo",
                        flags=("-o", "--output"),
                    ),
                ),
            ),
            rows.TARGET,
            rows.BUILT_IN,
            rows.OUTPUT,
        ),
    ),
    "estimate": Verb(
        "does a model fit and how fast is it: one screen, no files",
        (rows.SOURCE,),
        (Group("", rows.ESTIMATE), rows.TARGET, rows.READING, rows.OUTPUT),
    ),
    "compile": Verb(
        "a model to the program that the device executes",
        (Argument("source", "MODEL", "a model: .tflite or QDQ .onnx"),),
        (
            Group(
                "",
                (
                    file(
                        "directory",
                        "folder for the files",
                        "DIR",
                        flags=("-o", "--output"),
                        required=True,
                    ),
                    flag(
                        "log_lowering", "list the ways that rules refused, by epoch", python=False
                    ),
                    flag(
                        "relocatable",
                        "external pools relative, as `npuscope package` needs them",
                        **rows.MAPPED,
                    ),
                ),
            ),
            rows.TARGET,
            rows.READING,
            rows.VENDOR,
            rows.OUTPUT,
        ),
    ),
    "profile": Verb(
        "run a model on a device and report every epoch",
        (replace(rows.SOURCE, many="?"),),
        (
            Group("", rows.PROFILE),
            Group("device", rows.DEVICE),
            rows.TARGET,
            rows.READING,
            rows.OUTPUT,
        ),
    ),
    "board": Verb(
        "serve a virtual board to anybody's client",
        (
            Argument(
                "action", "ACTION", "serve: answer the vendor's protocol", "", ("serve",), False
            ),
            Argument("sources", "SOURCE", rows.SOURCE_HELP, "+"),
        ),
        (
            Group(
                "connection",
                (
                    flag("pty", "a pseudo terminal, used as a serial port"),
                    whole("tcp", "a TCP port; 0: any free one", "PORT"),
                    text(
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
                    flag("emulated", "firmware on an emulated Cortex-M answers"),
                    text("ready", "called with address and networks", "FUNCTION", shell=False),
                ),
            ),
            rows.TARGET,
            rows.READING,
            rows.OUTPUT,
        ),
    ),
    "export": Verb(
        "what layers cost, for Model Explorer and Netron",
        (rows.SOURCE,),
        (
            Group(
                "",
                (
                    file("model_explorer", "node data (JSON) for Google's Model Explorer"),
                    file("netron", "an annotated ONNX file for Netron"),
                    file("model", "the model of a compiled program or a saved profile", "M"),
                ),
            ),
            rows.TARGET,
            rows.READING,
            rows.OUTPUT,
        ),
    ),
    "explain": Verb(
        "why it is slow or off the NPU, and what to change",
        (rows.SOURCE,),
        (
            Group(
                "",
                (
                    flag("strict", "exit code 1 when there are errors or warnings", python=False),
                    rows.COMPILED_FROM,
                    option("batch", Kind.WHOLE, "run it so often", default=0, shell=False),
                ),
            ),
            rows.TARGET,
            rows.READING,
            rows.FINDINGS,
            rows.OUTPUT,
        ),
    ),
    "lint": Verb(
        "risks that the model file alone shows",
        (Argument("source", "MODEL", "a model: .tflite or .onnx"),),
        (rows.LOOKED_AT, rows.READING, rows.FINDINGS, rows.OUTPUT),
    ),
    "fix": Verb(
        "edits of the model that help: applied, compiled again, timed, measured",
        (Argument("model", "MODEL", "a .tflite or .onnx model", dest="source"),),
        (
            Group(
                "",
                (
                    file(
                        "output",
                        "the fixed model; without it nothing is written",
                        "FIXED",
                        flags=("-o", "--output"),
                    ),
                    whole("seeds", "seeded inputs to compare on (2)", default=2),
                ),
            ),
            Group("which fixes (default: those that keep the function)", rows.FIX),
            rows.TARGET,
            rows.READING,
            rows.OUTPUT,
        ),
    ),
    "compare": Verb(
        "two runs by source op: what moved, and where the milliseconds went",
        (
            Argument("a", "A", rows.RUN_HELP, dest="first"),
            Argument("b", "B", "what to compare it with (default: A again)", "?", dest="second"),
        ),
        (Group("", rows.COMPARE), rows.TARGET, rows.READING, rows.OUTPUT),
    ),
    "gate": Verb(
        "limits on time, memory and epochs, with an exit code",
        (Argument("source", "SOURCE", rows.RUN_HELP),),
        (Group("", rows.GATE), rows.TARGET, rows.READING, rows.FINDINGS, rows.OUTPUT),
    ),
    "validate": Verb(
        "the NPU's arithmetic against the reference",
        (rows.SOURCE,),
        (Group("", (rows.COMPILED_FROM,)), rows.DATA, rows.TARGET, rows.READING, rows.OUTPUT),
    ),
    "bisect": Verb(
        "the first op whose NPU arithmetic leaves the reference",
        (rows.SOURCE,),
        (Group("", (rows.COMPILED_FROM,)), rows.DATA, rows.TARGET, rows.READING, rows.OUTPUT),
    ),
    "inspect": Verb(
        "say what a file or folder is and what is in it",
        (Argument("source", "FILE_OR_FOLDER", "any file or folder of the tools"),),
        (
            Group(
                "runtime-loadable images",
                (
                    file("compare", "what differs from another image"),
                    file(
                        "firmware_map",
                        "does the image load on this firmware: a TOML or JSON file, "
                        "or `stm32n6570-dk`",
                    ),
                ),
            ),
            rows.OUTPUT,
        ),
    ),
    "checklist": Verb(
        "what a build needs on the board: files, memories, caches",
        (Argument("source", "DIR", "a folder that a compiler wrote"),),
        (rows.OUTPUT,),
    ),
    "package": Verb(
        "a compiled network to an image that a firmware loads at run time",
        (Argument("source", "DIR", "folder of a compiled network", "?"),),
        (Group("", rows.PACKAGE), rows.vendor_output("package.log")),
    ),
    "run": Verb(
        "load an image on a board (emulated by default) and run it",
        (
            Argument(
                "source", "IMAGE", "NAME_rel.bin or a build folder (build/network_rel.bin)", "?"
            ),
        ),
        (Group("", rows.RUN), rows.vendor_output("run.log")),
    ),
    "manycore": Verb("compile for a many-core accelerator, and run it", (), ()),
    "manycore compile": Verb(
        "a network to a program for many cores, with its stats layout",
        (),
        (
            Group("", rows.CORE_COMPILE),
            Group("stats", rows.CORE_STATS),
            Group("machine", rows.CORE_TARGET),
            rows.OUTPUT,
        ),
    ),
    "manycore run": Verb(
        "run a compiled program on the simulated device and collect its stats",
        (),
        (
            Group("", rows.CORE_RUN),
            Group("profiling", rows.CORE_PROFILING),
            Group("simulation", rows.CORE_SIMULATION),
            rows.OUTPUT,
        ),
    ),
    "opstats": Verb(
        "stats buffers of a many-core accelerator as summaries and traces",
        (),
        (
            Group("", rows.OPSTATS),
            Group("results, at least one", rows.OPSTATS_RESULTS),
            Group("trace", rows.OPSTATS_TRACE),
            Group("sources", rows.OPSTATS_SOURCES),
        ),
    ),
    "disasm": Verb(
        "epoch-controller blobs to text",
        (Argument("source", "FILE", "a *_ecblobs.h, or the bytes of one blob"),),
        (
            Group(
                "",
                (
                    text("blob", "one blob of a header (default: all)"),
                    file("output", "write the text to FILE", flags=("-o", "--output")),
                ),
            ),
            rows.OUTPUT,
        ),
    ),
    "asm": Verb(
        "text to an epoch-controller blob",
        (Argument("source", "FILE", "text, as `disasm` writes it"),),
        (
            Group(
                "",
                (
                    file(
                        "output",
                        "a C header if it ends in .h, else the blob's bytes",
                        "OUT",
                        flags=("-o", "--output"),
                        required=True,
                    ),
                    text("name", "ends the array's name in a header (default 1)", default="1"),
                ),
            ),
            rows.OUTPUT,
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
            Group("", (file("spec", "the sweep file", shell=False),)),
            Group("runs", rows.SWEEP_RUNS),
            Group("dask cluster", rows.SWEEP_CLUSTER),
            Group("report", rows.SWEEP_REPORT),
            rows.OUTPUT,
        ),
        rows.SWEEP_USAGE,
    ),
    "sweep report": Verb(
        "what a store says: best runs, latency against memory, failures",
        (Argument("store", "STORE", "the store that runs left"),),
        (Group("report", rows.SWEEP_REPORT), rows.OUTPUT),
    ),
    "machines": Verb(
        "the machines and compiler generations that are known",
        (),
        (
            Group(
                "",
                (
                    text(
                        "keys",
                        "all keys for --set with value, mark (timing or mapping) and source; "
                        "with TEXT only those with it in their name or mark",
                        "TEXT",
                        const="",
                        python=False,  # of one machine: npuscope.machine_keys(...)
                    ),
                ),
            ),
            rows.OUTPUT,
        ),
    ),
    "rules": Verb(
        "the rules that explain and lint check",
        (Argument("rule", "ID", "one rule, with cause and fixes", "?"),),
        (rows.OUTPUT,),
    ),
    "doctor": Verb("what is installed, and what each missing part would give", (), (rows.OUTPUT,)),
}

# What only Python has, as functions of their own; and functions whose verb is called otherwise.
_BUILDING = (rows.TARGET, rows.READING)
PYTHON_ONLY: dict[str, Verb] = {
    "what_if": Verb(
        "the network before and after keys of the machine changed",
        (rows.SOURCE, Argument("values", "VALUES", "the changed keys with their values")),
        _BUILDING,
    ),
    "sensitivity": Verb("timing keys that save most time", (rows.SOURCE,), _BUILDING),
    "measure": Verb(
        "profile a device block by block, with all that it counted",
        (rows.SOURCE,),
        (
            Group("", tuple(o for o in rows.PROFILE if o.name == "batch")),
            Group(
                "device", tuple(o for o in rows.DEVICE if o.name not in ("log", "vendor_figures"))
            ),
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
