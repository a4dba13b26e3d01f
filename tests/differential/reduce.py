"""A smaller network of the same fault: fewer outputs, nodes cut off at either end."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from differential.judges import Fault, judged, trial_of
from differential.network import Network, pruned


def reduced(
    network: Network, seed: int, generation: str, fault: Fault, most_s: float
) -> Network:
    """Every smaller network that still has the symptom is taken, until none has or time is over."""
    end = time.monotonic() + most_s
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


def _symptoms(network: Network, seed: int, generation: str, judge: str) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="differential-") as name:
        trial = trial_of(network, seed, Path(name), generation)
        verdict = judged([trial], Path(name), () if judge == "read" else (judge,))[0]
    return [fault.symptom for fault in verdict.faults]


def _smaller(network: Network) -> Iterator[Network]:
    """Large steps first: one output alone, then a node in the middle as the end or the beginning."""
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
