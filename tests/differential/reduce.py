"""A smaller network of the same fault: fewer outputs, nodes cut off at either end."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from differential.judges import judged, trial_of
from differential.network import Network, pruned
from differential.verdict import Fault


def reduced(network: Network, seed: int, generation: str, fault: Fault, most_s: float) -> Network:
    """Every smaller network that still has the symptom is taken, until none has or time is over."""
    end = time.monotonic() + most_s
    for smaller in _around(network, fault):
        if fault.symptom in _symptoms(smaller, seed, generation, fault.judge):
            network = smaller
            break
    shrunk = True
    while shrunk and time.monotonic() < end:
        shrunk = False
        for smaller in _smaller(network):
            if time.monotonic() > end:
                break
            if fault.symptom in _symptoms(smaller, seed, generation, fault.judge):
                network, shrunk = smaller, True
                break
    return network


def _around(network: Network, fault: Fault) -> Iterator[Network]:
    """What lies between the values that the fault names, or at least what leads to them."""
    names = [re.sub("_(exact|real|given)$", "", name) for name in fault.values]
    first, *given = [name for name in names if name in network.values] or [""]
    if first and first not in network.inputs:
        ending = replace(network, outputs=(first,), float_border=False)
        inner = tuple(n for n in given if network.values[n].data is None)
        kept = tuple(node for node in network.nodes if not set(inner).intersection(node.outputs))
        inputs = tuple(dict.fromkeys((*network.inputs, *inner)))
        yield pruned(replace(ending, nodes=kept, inputs=inputs))
        yield pruned(ending)


def _symptoms(network: Network, seed: int, generation: str, judge: str) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="differential-") as name:
        trial = trial_of(network, seed, Path(name), generation)
        verdict = judged([trial], Path(name), () if judge == "read" else (judge,))[0]
    return [fault.symptom for fault in verdict.faults]


def _smaller(network: Network) -> Iterator[Network]:
    """Large steps first: one output alone, then a node in the middle as end or beginning."""
    if len(network.outputs) > 1:
        for name in network.outputs:
            yield pruned(replace(network, outputs=(name,)))
    else:
        for node in network.nodes[:-1]:
            yield pruned(replace(network, outputs=node.outputs[:1]))
    for node in network.nodes:
        kept = tuple(other for other in network.nodes if other is not node)
        given = [name for name in node.outputs if network.values[name].scales]
        if len(given) == len(node.outputs):
            inputs = (*network.inputs, *given)
            smaller = pruned(replace(network, nodes=kept, inputs=inputs))
            if smaller.nodes and not set(smaller.outputs).intersection(smaller.inputs):
                yield smaller
    if network.float_border:
        yield replace(network, float_border=False)
