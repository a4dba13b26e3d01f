"""Source layers of a vendor program: its operators' names through the front end's Q.json."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from npuscope.program.model import Epoch, Program

if TYPE_CHECKING:
    from npuscope.program.quant_json import QuantJson

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
