"""Where our reference executor and the outside runtime part: all values as outputs.

An op is at fault only if what it reads is equal in both; a step that an earlier op was off may
become many behind an Exp or a division.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from differential.chains import exact_result
from differential.network import Network, Node, pruned
from npuscope.files.load import load_model
from npuscope.graph.model import Graph
from npuscope.ops.run import run, trace
from npuscope.profiling.outside import OutsideRun, outside_runs

# LiteRT shifts a quotient of less than half a step by more bits than its type has: anything.
_UNDEFINED_AT_ZERO = "DIV"
# How many values of an op may be a step off: ties that float arithmetic decides otherwise, and
# LiteRT's faster kernels, which run what its reference kernels do not, where a sum is negative.
_FEW, _MOST_SHARE = 2, 0.1
_TIE = 1e-4  # of a step: what float32 sums of some hundred values lose


@dataclass(frozen=True, slots=True)
class Step:
    """One node; `apart` is how far its result is from the other, in steps or in real numbers."""

    node: Node
    same_inputs: bool
    same_outputs: bool
    apart: float
    allowed: float

    @property
    def is_fault(self) -> bool:
        """Off by itself, not by what it reads."""
        return self.same_inputs and not self.apart <= self.allowed


@dataclass(frozen=True, slots=True)
class Steps:
    rows: tuple[Step, ...]

    @property
    def equal(self) -> bool:
        return all(row.same_outputs for row in self.rows)


def outside_steps(
    network: Network, graph: Graph, sample: Mapping[str, np.ndarray], folder: Path
) -> Steps | None:
    """On the sample that showed the difference. None where the outside runtime does not run it."""
    names = [name for node in network.nodes for name in node.outputs if _is_shown(network, name)]
    open_ = replace(network, outputs=tuple(names), float_border=False)
    path = folder / f"probe.{network.format}"
    path.write_bytes(open_.written())
    # Real inputs as the network itself quantizes them, which ONNX does by the name of the input.
    values = {**sample, **trace(graph, sample)}
    given = {n: values[n] if n in values else values[f"{n}_given"] for n in network.inputs}
    probe = load_model(path)
    result = outside_runs([OutsideRun(path, probe, [given])], any_kernels=True)[0]
    if result is None:
        return None
    ours = dict(zip(names, run(probe, given).values(), strict=True))
    theirs = dict(zip(names, result[0], strict=True))
    rows = _steps(network, ours, theirs, _exact_results(network, probe, given))
    values = {**given, **ours}
    return Steps(
        tuple(
            replace(row, apart=0.0)
            if row.is_fault and _reference_agrees(network, row.node, values, folder)
            else row
            for row in rows
        )
    )


def _reference_agrees(
    network: Network, node: Node, values: Mapping[str, np.ndarray], folder: Path
) -> bool:
    """Whether LiteRT's reference kernel computes what we do when it is given this op alone. In the
    whole network another op may have none, and LiteRT then runs all with its faster kernels."""
    inputs = tuple(dict.fromkeys(n for n in node.inputs if n in values))
    if network.format != "tflite" or not all(name in values for name in node.outputs):
        return False
    border = replace(network, inputs=inputs, outputs=node.outputs, float_border=False)
    path = folder / "alone.tflite"
    path.write_bytes(pruned(replace(border, nodes=(node,))).written())
    run_alone = OutsideRun(path, load_model(path), [{name: values[name] for name in inputs}])
    result = outside_runs([run_alone])[0]
    return result is not None and all(
        np.array_equal(values[name], theirs)
        for name, theirs in zip(node.outputs, result[0], strict=True)
    )


def _exact_results(
    network: Network, graph: Graph, given: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """By value, means and interpolations in steps, before they are rounded.

    Where one lies in the middle of two steps, the order of float additions decides. Our graph
    keeps the channels last.
    """
    values, results = {**given, **trace(graph, given)}, {}
    for op in graph.ops:
        name = op.outputs[0].removesuffix("_exact")
        exact = exact_result(graph, op, values) if name in network.values else None
        if exact is not None and exact.size == network.values[name].elements:
            last = network.format == "tflite" or exact.ndim < 3
            results[name] = exact if last else np.moveaxis(exact, -1, 1)
    return results


def _is_shown(network: Network, name: str) -> bool:
    """Real values between an ONNX op and its QuantizeLinear stay inside: they are never made."""
    return network.format == "tflite" or network.values[name].dtype != "float32"


def _steps(
    network: Network,
    ours: dict[str, np.ndarray],
    theirs: dict[str, np.ndarray],
    exact: dict[str, np.ndarray],
) -> Iterator[Step]:
    unequal: set[str] = set()
    for node in network.nodes:
        same = unequal.isdisjoint(node.inputs)
        for name in node.outputs:
            if name not in ours:
                if not same:
                    unequal.add(name)
                continue
            a, b = (one[name].astype(np.float64) for one in (ours, theirs))
            if not np.array_equal(a, b):
                unequal.add(name)
            agree = a == b
            if node.kind == _UNDEFINED_AT_ZERO:
                agree |= a == network.values[name].zero_point
            if name in exact:
                ties = np.abs(exact[name].reshape(a.shape) - (a + b) / 2) < _TIE
                agree |= ties & (np.abs(a - b) == 1)
            apart = np.abs(np.where(agree, 0.0, a - b))
            many = _are_many(a, b, apart > 0)
            allowed = 0.0 if many and network.values[name].scales else _allowed(network, name, b)
            yield Step(node, same, name not in unequal, float(apart.max(initial=0.0)), allowed)


def _are_many(ours: np.ndarray, theirs: np.ndarray, off: np.ndarray) -> bool:
    """Equal sums are one tie, however often they occur; where all is off, it is no tie."""
    pairs = np.unique(np.stack((ours[off], theirs[off])), axis=1).shape[1]
    values = np.unique(np.stack((ours.ravel(), theirs.ravel())), axis=1).shape[1]
    everywhere = off.all() and off.size > _FEW
    return bool(everywhere or pairs > max(_FEW, _MOST_SHARE * values))


def _allowed(network: Network, name: str, theirs: np.ndarray) -> float:
    value = network.values[name]
    if value.scales:
        return 1.0
    if value.dtype == "float32":
        return float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)) * 1e-5
    return 0.0


def first_difference(steps: Steps) -> tuple[str, str] | None:
    """(symptom, details) of the first op that is off by itself."""
    for row in steps.rows:
        if row.is_fault:
            return f"{row.node.kind} differs", f"{row.apart:g}, {dict(row.node.options)}"
    return None
