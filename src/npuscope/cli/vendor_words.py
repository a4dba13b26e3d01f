"""Commands of the vendors' tools as first words: the same line in our words.

A line of their documents can be pasted behind `npuscope`, with `python` or `sudo` before it and the
path and ending of its script.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

_STARTERS = ("$", "python", "python3", "sudo")


class VendorTool(Struct, frozen=True):
    """`renamed` options have another spelling here; `dropped` ones mean nothing, with how many
    values they take. A tool that acts on hardware is told (`waits`: why), not run."""

    verb: str
    renamed: Mapping[str, str] = {}
    dropped: Mapping[str, int] = {}
    fixed: tuple[str, ...] = ()  # stands for all that was given
    waits: str = ""


_FOLDERS = {"--workspace": 1, "-w": 1}
_POSITIONAL = {"-m": "", "--model": ""}  # the model without an option
TOOLS = {
    "generate": VendorTool("compile", dropped=_FOLDERS),
    "stedgeai generate": VendorTool("compile", dropped=_FOLDERS),
    "stedgeai analyze": VendorTool(
        "estimate", {"-m": "", "--model": ""}, {**_FOLDERS, "--target": 1}
    ),
    "stedgeai validate": VendorTool(
        "validate", _POSITIONAL, {**_FOLDERS, "--target": 1, "--mode": 1}
    ),
    "atonn": VendorTool("compile", {"-i": "-m", "--onnx-input": "-m", "--out-dir-prefix": "-o"}),
    "npu_profiler": VendorTool("profile"),
    "npu_driver": VendorTool("package"),
    "st_load_and_run": VendorTool("run"),
    "n6_loader": VendorTool(
        "deploy",
        fixed=("st_ai_output", "--board", "stm32n6570-dk"),
        waits="it flashes a board: --run does it",
    ),
    "qaic-compile": VendorTool("manycore compile", dropped={"-aic-hw": 0}),
    "qaic-exec": VendorTool("manycore compile", dropped={"-aic-hw": 0}),
    "qaic-runner": VendorTool("manycore run"),
    "qaic-api-test": VendorTool("manycore run"),
    "qaic-opstats": VendorTool("opstats"),
}


# Packages with the core that is in them: X-CUBE-AI 10.1.0 prints "ST Edge AI Core v2.1.0".
_CORES = {"10.0": "2.0", "10.1": "2.1", "10.2": "2.2"}
_PACKAGE = re.compile(r"(?:^|[/\\])(?:(X-CUBE-AI)|STEdgeAI)[/\\](\d+\.\d+)(?=[./\\]|$)", re.I)
_COMPILING = ("compile", "estimate", "validate")


def generation_of(words: Sequence[str]) -> str:
    """Of the package that a path names, the tool's own first; empty where none does."""
    found = next((match for word in words if (match := _PACKAGE.search(word))), None)
    if found is None:
        return ""
    return _CORES.get(found[2], "") if found[1] else found[2]


class Translation(Struct, frozen=True):
    words: tuple[str, ...]
    waits: str = ""


def translated(argv: Sequence[str]) -> Translation | None:
    """The line here; None where it does not begin with a vendor's tool."""
    words = list(argv)
    while words and words[0] in _STARTERS:
        words.pop(0)
    if not words:
        return None
    name = PurePosixPath(words[0].replace("\\", "/")).name.removesuffix(".py")
    rest = words[1:]
    name = "stedgeai" if name == "stedgai" else name  # as one of their pages spells it
    if name == "stedgeai" and rest and f"stedgeai {rest[0]}" in TOOLS:
        name, rest = f"stedgeai {rest[0]}", rest[1:]
    tool = TOOLS.get(name)
    if tool is None:
        return None
    verb, own = tuple(tool.verb.split()), list(tool.fixed or _options(tool, rest))
    generation = generation_of(words) if tool.verb in _COMPILING else ""
    if generation and not any(word.partition("=")[0] == "--generation" for word in own):
        own += ["--generation", generation]
    return Translation((*verb, *own), tool.waits)


def _options(tool: VendorTool, rest: Sequence[str]) -> list[str]:
    words: list[str] = []
    skip = 0
    for place, word in enumerate(rest):
        if skip:
            skip -= 1
            continue
        flag, equals, value = word.partition("=")
        if flag in tool.dropped:
            skip = 0 if equals else tool.dropped[flag]
        elif flag == "-g" and tool.verb == "compile":  # the name of network.c names the network
            file = value if equals else next(iter(rest[place + 1 : place + 2]), "")
            words += ["--name", PurePosixPath(file.replace("\\", "/")).stem or "network"]
            skip = 0 if equals else 1
        elif flag in tool.renamed:
            spelling = tool.renamed[flag]
            words += [spelling] if spelling else []
            words += [value] if equals else []
        else:
            words.append(word)
    return words
