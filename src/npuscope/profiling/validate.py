"""NPU arithmetic against the reference executor, layer by layer and end to end."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import asdict
from pathlib import Path

import numpy as np

from npuscope.errors import ModelError, UsageError
from npuscope.graph.model import DType, Graph, Tensor
from npuscope.lean_dataclass import dataclass
from npuscope.machine.model import Machine
from npuscope.ops.run import check_work, trace
from npuscope.profiling.agreement import Agreement, Bridge, OwnBridge, Tally, random_sample
from npuscope.profiling.foreign import foreign_bridge
from npuscope.profiling.outside import outside_outputs
from npuscope.program.model import Epoch, Program
from npuscope.progress import progress
from npuscope.shown import Rows, Shown, counted
from npuscope.sim.memory import Memory
from npuscope.sim.run import execute, written
from npuscope.text import safe_terminal

Array = np.ndarray
log = logging.getLogger(__name__)
# A layer given the reference's own inputs: this share of its elements must be within 1 LSB.
LAYER_LIMIT = 0.98
RULE = (
    f"every layer, given the reference's inputs, has {LAYER_LIMIT:.0%} of its elements within 1 LSB"
)


@dataclass(frozen=True, slots=True)
class LayerAgreement:
    """One epoch's result when it is given the reference's inputs."""

    epoch: str
    ops: tuple[str, ...]
    origin: tuple[str, ...]
    exact_share: float
    within_1_lsb_share: float
    max_lsb: float


@dataclass(frozen=True, slots=True)
class Reference:
    """Our reference executor against an outside runtime; name None when there is none."""

    name: str | None
    elements: int = 0
    mismatches: int = 0
    max_lsb: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class Validation(Shown):
    outputs: tuple[Agreement, ...]
    layers: tuple[LayerAgreement, ...]
    layers_exact_share: float
    worst_op: str | None
    saturated_share: float
    reference: Reference
    seeds: int
    passed: bool
    notes: tuple[str, ...] = ()  # what the compiler changed: weights that it rounded differ

    @property
    def broken(self) -> tuple[LayerAgreement, ...]:
        """Layers that break the rule."""
        return tuple(layer for layer in self.layers if layer.within_1_lsb_share < LAYER_LIMIT)

    @property
    def verdict(self) -> str:
        """A failure names layers: outputs may be equal all the same."""
        worst = max((output.max_lsb for output in self.outputs), default=0)
        outputs = f"outputs differ by at most {worst:g} LSB"
        if self.passed:
            return f"passed: {outputs}"
        few = counted(len(self.layers), "layer")
        return f"failed: {len(self.broken)} of {few} differ by more than rounding; {outputs}"

    def told(self) -> str:
        return f"{self.verdict}, {counted(len(self.layers), 'layer')}"

    def table(self) -> Rows:
        """One row per layer."""
        return [asdict(layer) for layer in self.layers]


def validate(
    program: Program,
    graph: Graph,
    machine: Machine,
    inputs: Sequence[Array] | None = None,
    seeds: int = 1,
    model: Path | None = None,
) -> Validation:
    """Run the same samples through both, and through an outside runtime where there is one.

    After an interruption, of the samples that were finished: `seeds` of the result tells how many.
    """
    # Before memory is taken: the reference keeps every tensor for the comparison by layer.
    check_work(graph, keeps_all=True)
    samples = list(_given(graph, inputs) if inputs else _random(graph, seeds))
    collected = _Collected(program, graph, _bridge(program, graph, samples[0]))
    done = _run_all(collected, samples)
    whole = samples[: done.count]
    progress("comparing with an outside runtime")
    done.check_reference(outside_outputs(model, graph, whole))
    return done.result(len(whole))


def _run_all(collected: _Collected, samples: Sequence[dict[str, Array]]) -> _Collected:
    """After an interruption: what the samples before it gave."""
    done = None
    try:
        for number, sample in enumerate(samples, 1):
            worst = f", worst so far {collected.worst:g} LSB" if done else ""
            progress("sample %d of %d%s", number, len(samples), worst)
            collected.add(sample)
            done = collected if number == len(samples) else collected.snapshot()
    except KeyboardInterrupt:
        if done is None:
            raise
        told = "interrupted: %d of %d samples were compared, the result is of these"
        log.warning(told, done.count, len(samples))
    assert done is not None  # there is at least one sample
    return done


def _bridge(program: Program, graph: Graph, sample: dict[str, Array]) -> Bridge:
    """Own programs keep the network's names; those of other compilers have to be matched."""
    if program.source == "npuscope":
        return OwnBridge(program, graph)
    return foreign_bridge(program, graph, sample)


class _Collected:
    """Agreement over all samples."""

    def __init__(self, program: Program, graph: Graph, bridge: Bridge) -> None:
        self.program = program
        self.bridge = bridge
        self.graph = graph
        self.runtime: str | None = None
        self.expected: list[dict[str, Array]] = []
        self.outputs = {name: Tally(output_step(graph, name)) for name in graph.outputs}
        self.layers: dict[int, Tally] = {}
        self.reference = Tally(1.0)
        self.saturated: list[float] = []

    def snapshot(self) -> _Collected:
        """A copy of the sums; program and network do not change."""
        found = copy(self)
        found.expected = list(self.expected)
        found.saturated = list(self.saturated)
        for name in ("outputs", "layers", "reference"):
            setattr(found, name, deepcopy(getattr(self, name)))
        return found

    @property
    def count(self) -> int:
        """Samples that are in it."""
        return len(self.saturated)

    @property
    def worst(self) -> float:
        return max((tally.largest for tally in self.outputs.values()), default=0.0)

    def add(self, sample: dict[str, Array]) -> None:
        expected = trace(self.graph, sample)
        self.expected.append({name: expected[name] for name in self.graph.outputs})
        run = execute(self.program, self.bridge.inputs(sample))
        self.saturated.append(max(run.saturated_share.values(), default=0.0))
        found = self.bridge.outputs(run.outputs)
        for name, tally in self.outputs.items():
            tally.add(found[name], expected[name])
        self._check_layers(sample, expected)

    def check_reference(self, outside: tuple[str, list[list[Array]]] | None) -> None:
        """Our reference executor against what another runtime made of the same samples."""
        if outside is None:
            return
        self.runtime, results = outside
        for expected, row in zip(self.expected, results, strict=True):
            for name, found in zip(self.graph.outputs, row, strict=True):
                if found.shape != expected[name].shape:
                    raise ModelError(
                        f"{self.runtime} gives it the shape {found.shape}, expected "
                        f"{expected[name].shape}",
                        where=f"output '{safe_terminal(name)}'",
                    )
                # In steps of the output, so that float and integer outputs share one figure.
                lsb = self.outputs[name].lsb
                self.reference.add(found / lsb, expected[name] / lsb)

    def _check_layers(self, sample: dict[str, Array], expected: dict[str, Array]) -> None:
        """Every epoch gets the reference's tensors; what it makes of them is compared."""
        known = self.bridge.forced(expected)
        integers = {name: value for name, value in known.items() if value.dtype.kind != "f"}
        # A buffer that several epochs fill is whole only behind the last of them.
        done = {name: epoch.number for epoch in self.program.executed for name in written(epoch)}

        def compare(epoch: Epoch, memory: Memory) -> None:
            for name in written(epoch):
                if name not in integers or done[name] != epoch.number:
                    continue
                # Kernels on the CPU are the reference's own code; comparing them would only count
                # zeros.
                if epoch.call is None:
                    tally = self.layers.setdefault(epoch.number, Tally(1.0))
                    tally.add(memory.read(name), integers[name])
                # Whoever reads these bytes under another name starts from the reference too.
                memory.write(name, integers[name])

        execute(self.program, self.bridge.inputs(sample), observe=compare, force=known)

    def result(self, samples: int) -> Validation:
        epochs = {epoch.number: epoch for epoch in self.program.epochs}
        layers = tuple(_layer(epochs[n], tally) for n, tally in sorted(self.layers.items()))
        worst = min(layers, key=lambda layer: layer.exact_share, default=None)
        elements = sum(tally.elements for tally in self.layers.values())
        equal = sum(tally.equal for tally in self.layers.values())
        return Validation(
            outputs=tuple(tally.agreement(name) for name, tally in self.outputs.items()),
            layers=layers,
            layers_exact_share=equal / elements if elements else 1.0,
            worst_op=worst.origin[0] if worst and worst.origin else None,
            saturated_share=max(self.saturated, default=0.0),
            reference=self._outside(),
            seeds=samples,
            passed=all(layer.within_1_lsb_share >= LAYER_LIMIT for layer in layers),
            notes=self.program.notes,
        )

    def _outside(self) -> Reference:
        if self.runtime is None:
            return Reference(None)
        tally = self.reference
        mismatches = tally.elements - tally.equal
        return Reference(self.runtime, tally.elements, mismatches, tally.largest)


def _layer(epoch: Epoch, tally: Tally) -> LayerAgreement:
    found = tally.agreement(epoch.name)
    return LayerAgreement(
        epoch.name,
        epoch.operators,
        epoch.origin,
        found.exact_share,
        found.within_1_lsb_share,
        found.max_lsb,
    )


def output_step(graph: Graph, name: str) -> float:
    """One step of an output; a float output counts in steps of what was dequantized."""
    tensor = graph.tensor(name)
    if tensor.dtype is not DType.FLOAT32:
        return 1.0
    maker = graph.producers().get(name)
    source = graph.first_input(maker) if maker and maker.kind == "Dequantize" else None
    return source.quant.scale if source and source.quant else 1.0


def _random(graph: Graph, seeds: int) -> Iterator[dict[str, Array]]:
    for seed in range(seeds):
        yield random_sample(graph, np.random.default_rng(seed))


def _given(graph: Graph, inputs: Sequence[Array]) -> Iterator[dict[str, Array]]:
    """Samples along the first axis of the arrays, one array per input."""
    if len(inputs) != len(graph.inputs):
        raise UsageError(
            f"the network has {len(graph.inputs)} inputs, {len(inputs)} arrays were given",
            where="--inputs",
        )
    stacks = [_samples(graph.tensor(n), a) for n, a in zip(graph.inputs, inputs, strict=True)]
    counts = {len(stack) for stack in stacks}
    if len(counts) > 1 or 0 in counts:
        raise UsageError(
            f"expected the same number of samples for every input, found {sorted(counts)}",
            where="--inputs",
        )
    for rows in zip(*stacks, strict=True):
        yield dict(zip(graph.inputs, rows, strict=True))


def _samples(tensor: Tensor, array: Array) -> Array:
    shape = tensor.shape
    if array.dtype != tensor.dtype.numpy or array.shape[-len(shape) + 1 :] != shape[1:]:
        raise UsageError(
            f"expected {tensor.dtype.value} of shape {shape}, found {array.dtype} of {array.shape}",
            where="--inputs",
            hint="a leading axis holds the samples",
        )
    return array.reshape(-1, *shape)


# --- Bisect: the first op whose NPU arithmetic differs from the reference ---

_BROKEN = f"less than {LAYER_LIMIT:.0%} of the elements are within 1 LSB"
_INEXACT = "none broken: elements differ only as the NPU's rounding allows"


@dataclass(frozen=True, slots=True, repr=False)
class Bisection(Shown):
    """`first` is the first layer that breaks the rule of `validate`, or else that differs at all.

    Every layer is given the reference's own inputs, so that an earlier one cannot be the cause.
    """

    first: LayerAgreement | None
    rule: str  # what it breaks; empty where every layer is exact
    passed: bool  # as validate says: no layer breaks its rule
    differing: int
    layers: int
    seeds: int

    @property
    def op(self) -> str | None:
        """The source op, where the program names one."""
        if self.first is None:
            return None
        return next(iter(self.first.origin or self.first.ops), None)

    def told(self) -> str:
        if self.first is None:
            return f"no difference in {counted(self.layers, 'layer')}"
        return f"{self.op} in {self.first.epoch}: up to {self.first.max_lsb:g} LSB"


def bisect(validation: Validation) -> Bisection:
    """From what was compared layer by layer, in the order of execution."""
    layers = validation.layers
    broken = validation.broken
    differing = [layer for layer in layers if layer.exact_share < 1]
    first = next(iter(broken or differing), None)
    rule = "" if first is None else _BROKEN if broken else _INEXACT
    return Bisection(first, rule, validation.passed, len(differing), len(layers), validation.seeds)
