"""The words of c_info.json and what they mean here, and the source layers behind its operators'
names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from npuscope.program.model import Epoch, EpochKind, Program

if TYPE_CHECKING:
    from npuscope.program.quant_json import QuantJson


# The words of c_info.json and what they mean here: used by the reader and by the writer.

SCHEMA_VERSION = "2.0"
# The first tool of files that we wrote: only these hold origins and kernels of our own.
OWN_TOOL = "npuscope"

EMPTY = "NODE_NO_X"
HARDWARE = "NODE_HW"
SOFTWARE = "NODE_SW"
CONTROLLER = "NODE_EC"
HYBRID = "NODE_SW_HW"

KINDS = {
    HARDWARE: EpochKind.HW,
    CONTROLLER: EpochKind.HW,
    SOFTWARE: EpochKind.SW,
    "NODE_SW_INTEGER": EpochKind.SW,
    HYBRID: EpochKind.HYBRID,
    EMPTY: EpochKind.EMPTY,
    "NODE_UNDEF": EpochKind.EMPTY,
}
MAPPINGS = {
    EpochKind.HW: HARDWARE,
    EpochKind.SW: SOFTWARE,
    EpochKind.HYBRID: HYBRID,
    EpochKind.EMPTY: EMPTY,
}

PARAM = "Param"
RETURN = "Return"
_EPOCH_NAME = re.compile(r"epoch_(\d{1,9})")
_DESCRIPTION = "Node kind="

FLOW = "EDGE_FLOW"
MEMORY = "EDGE_MEMORY"

_IMAGE_NAME = re.compile(r"(?:.*_)?atonbuf\.(.+)\.raw")
_TOOL_VERSION = re.compile(r"\s*(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the compilers of one time write the file."""

    kind_key: str  # the key of an operator's kind
    parameters: str  # mapping of the parameter pseudo-epoch
    closing: str  # mapping of the closing one
    dependency: str  # name of a flow edge
    states_units: bool


_EARLY = Dialect("description", HARDWARE, SOFTWARE, "epochdep", False)
_LATER = Dialect("type", EMPTY, EMPTY, "epoch_dep", True)


def dialect(generation: str) -> Dialect:
    """`open` and whatever comes later write as 4.0 does."""
    return _EARLY if generation.startswith("2.") else _LATER


def generation_of(version: str) -> str:
    """The generation of a tool version; one that cannot be read is taken as the newest."""
    match = _TOOL_VERSION.match(version)
    major = int(match[1]) if match else 4
    if major < 3:
        return "2.2"
    return "3.0" if major == 3 else "4.0"


def epoch_name(number: int) -> str:
    return f"epoch_{number}"


def epoch_number(name: str) -> int | None:
    match = _EPOCH_NAME.fullmatch(name)
    return int(match[1]) if match else None


def kind_text(kind: str, words: Dialect) -> str:
    """An operator's kind as the dialect writes it."""
    return kind if words.kind_key == "type" or not kind else _DESCRIPTION + kind


def kind_of(type_: str | None, description: str | None) -> str:
    return type_ or (description or "").removeprefix(_DESCRIPTION)


def image_name(file_name: str) -> str:
    """The file of a pool's bytes: "AXISRAM5" is atonbuf.AXISRAM5.raw."""
    return f"atonbuf.{file_name}.raw" if file_name else ""


def file_name(image: str) -> str:
    match = _IMAGE_NAME.fullmatch(image)
    return match[1] if match else image


# Source layers of a vendor program: its operators' names through the front end's Q.json.

_GENERATED = "__FE_GENERATED__"


def with_origins(program: Program, quant: QuantJson) -> Program:
    """The program with layers of the model file as the origin of its epochs.

    What compiler and front end made up has no origin.
    """
    layers = {name: _layer(node.names) for name, node in quant.nodes.items()}
    epochs = (replace(epoch, origin=_origin(epoch, layers)) for epoch in program.epochs)
    return replace(program, epochs=tuple(epochs))


def _layer(names: tuple[str, ...]) -> str:
    """The layer comes first; the constants and conversions folded into it follow."""
    return next((name for name in names if name != _GENERATED), "")


def _origin(epoch: Epoch, layers: dict[str, str]) -> tuple[str, ...]:
    """Operators that the front end knows; else those that they were made for."""
    known = [name for name in epoch.origin if name in layers]
    nodes = known or [_parent(name, layers) for name in epoch.origin]
    found = (layers.get(node, "") for node in nodes)
    return tuple(dict.fromkeys(layer for layer in found if layer))


def _parent(name: str, layers: dict[str, str]) -> str:
    """The compiler adds to the name of what it splits: Gemm_75_conv_4 was Gemm_75."""
    while name and name not in layers:
        name = name.rpartition("_")[0]
    return name
