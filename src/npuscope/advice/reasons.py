"""Why a vendor's program leaves the NPU: the reasons that our own lowering of its model gives.

Vendor files say that an epoch is software, not why. The model is lowered by the rules of the same
generation; what it says about a source op holds for the epoch that came from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from npuscope.building import Build, Options, Source, model_beside, read_graph
from npuscope.compiler.pipeline import compile_graph
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.program.model import Epoch, EpochKind, Program, Refused
from npuscope.rulebook.registry import rule

_USUAL = {"QuantizeLinear": "NA-QUANTIZE-FLOAT", "DequantizeLinear": "NA-DEQUANTIZE-FLOAT"}
_OFF = (EpochKind.SW, EpochKind.HYBRID)


def with_model(made: Build, source: Source, model: str | Path | None, options: Options) -> Build:
    """A compiled program with the network it came from: given, or found beside it by its
    fingerprint."""
    if made.graph is not None or isinstance(source, Graph):
        return made
    found = model or model_beside(Path(source), made.program)
    if found is None:
        return made
    graph = read_graph(found, options)
    return replace(made, graph=graph, program=with_reasons(made.program, graph, made.machine))


def with_reasons(program: Program, graph: Graph, machine: Machine) -> Program:
    """The program with a trail on every epoch off the NPU that our lowering explains."""
    ours = compile_graph(graph, machine)
    reasons = _reasons(epoch for epoch in ours.epochs if epoch.trail)
    return replace(program, epochs=tuple(_explained(epoch, reasons) for epoch in program.epochs))


def _reasons(epochs: Iterable[Epoch]) -> dict[str, list[Epoch]]:
    found: dict[str, list[Epoch]] = {}
    for epoch in epochs:
        made = epoch.call.outputs if epoch.call else ()
        for name in (*epoch.origin, *made):
            found.setdefault(plain(name), []).append(epoch)
    return found


def _explained(epoch: Epoch, reasons: dict[str, list[Epoch]]) -> Epoch:
    if epoch.kind not in _OFF or epoch.trail:
        return epoch
    known = [other for name in epoch.origin for other in reasons.get(plain(name), ())]
    return replace(epoch, trail=_trail(epoch, known) or _usual(epoch))


def _trail(epoch: Epoch, known: list[Epoch]) -> tuple[Refused, ...]:
    """Of the same operator if there is one; a source op may become several epochs."""
    same = [other for other in known if set(other.operators) & set(epoch.operators)]
    return (same or known)[0].trail if known else ()


def _usual(epoch: Epoch) -> tuple[Refused, ...]:
    """Conversions that the front-end put in have no source op; their reason is always one."""
    name = next((_USUAL[kind] for kind in epoch.operators if kind in _USUAL), "")
    known = rule(name)
    return (Refused("NPU", name, known.sentence),) if known else ()


def plain(name: str) -> str:
    """A source op's name as vendor tools write it: "CONV_2D:#68" and "CONV_2D_68" are one."""
    kind, _, rest = name.partition(":")
    if rest.startswith("#"):
        return f"{kind}_{rest[1:]}"
    return re.sub(r"\W", "_", rest or kind).strip("_").removesuffix("_quantized")
