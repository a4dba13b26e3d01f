"""NPU arithmetic against the reference executor, layer by layer and end to end."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from copy import copy, deepcopy
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from npuscope.errors import ModelError, UsageError
from npuscope.graph.model import DType, Graph, Tensor
from npuscope.machine.model import Machine
from npuscope.ops.run import check_work, trace
from npuscope.profiling.agreement import (
    Agreement,
    AgreementTally,
    LayerAgreement,
    NetworkBridge,
    OwnBridge,
    layer_agreement,
    random_sample,
)
from npuscope.profiling.answers import same_answers
from npuscope.profiling.foreign import foreign_bridge
from npuscope.profiling.outside import outside_outputs
from npuscope.profiling.rounding import coefficient_lsb, rounded, steps_inside
from npuscope.profiling.same_network import refuse_other_network
from npuscope.profiling.verdict import (
    LAYER_LSB,
    MUCH_SATURATED,
    Coverage,
    Verdict,
    agrees,
    is_rounding,
    judge,
)
from npuscope.program.model import Epoch, Program
from npuscope.progress import progress
from npuscope.shown import Rows, ShownRecord, counted, significant
from npuscope.sim.memory import Memory
from npuscope.sim.run import execute, written
from npuscope.structs import replace
from npuscope.text import safe_terminal

Array = np.ndarray
log = logging.getLogger(__name__)
# Runs of the reference with rounding, per sample: an output of few elements needs more than one.
_DRAWS = 2
_STEPS = 255  # of a float output without a quantization


class Reference(Struct, frozen=True):
    """Our reference executor against an outside runtime; name None when there is none."""

    name: str | None
    elements: int = 0
    mismatches: int = 0
    max_lsb: float = 0.0


class Validation(ShownRecord, frozen=True):
    """How far a program is from its network, and what that proves.

    `passed` is true for the verdicts `passed` and `differs`: nothing was found that rounding does
    not explain.
    """

    outputs: tuple[Agreement, ...]
    layers: tuple[LayerAgreement, ...]
    layers_exact_share: float
    worst_op: str | None
    saturated_share: float
    reference: Reference
    seeds: int
    passed: bool
    notes: tuple[str, ...] = ()  # what the compiler changed: weights that it rounded differ
    verdict: Verdict = Verdict.UNJUDGED
    layers_compared: int = 0
    layers_total: int = 0
    not_compared: tuple[str, ...] = ()  # epochs without a tensor of the network to compare with

    @property
    def broken(self) -> tuple[LayerAgreement, ...]:
        """Layers that differ by more than rounding."""
        return tuple(layer for layer in self.layers if not agrees(layer))

    @property
    def far(self) -> tuple[Agreement, ...]:
        """Outputs that are further off than rounding explains."""
        return tuple(output for output in self.outputs if not is_rounding(output))

    @property
    def answer(self) -> str:
        """What the difference means to the task: classes that change, or values that move."""
        classes = [o.top1_same_share for o in self.outputs if o.top1_same_share is not None]
        if classes:
            share = min(classes)
            return "top-1 unchanged" if share == 1 else f"top-1 changed in {1 - share:.1%}"
        moved = max((1 - output.exact_share for output in self.outputs), default=0.0)
        return f"{moved:.1%} of the values moved"

    @property
    def sentence(self) -> str:
        """The verdict with what it stands on, outputs first."""
        worst = max((output.max_lsb for output in self.outputs), default=0)
        if self.verdict is Verdict.UNJUDGED:
            few = f"{self.layers_compared} of {counted(self.layers_total, 'layer')}"
            return f"not judged: outputs within {worst:g} LSB, but only {few} could be compared"
        layers = "no layer runs on the NPU"
        if self.layers_total:
            coverage = Coverage(self.layers_compared, self.layers_total)
            layers = f"{coverage}, {len(self.layers) - len(self.broken)} agree"
        if self.far:
            off = max(self.far, key=lambda output: output.rms_lsb)
            outputs = (
                f"output '{off.name}' is {significant(off.rms_lsb, 2)} LSB off "
                f"(root mean square), rounding explains {significant(off.rounding_rms_lsb, 2)}"
            )
            if self.saturated_share > MUCH_SATURATED:
                outputs += f"; 16-bit sums saturate in up to {self.saturated_share:.0%} of a layer"
        else:
            outputs = f"outputs within {worst:g} LSB"
            if self.verdict is not Verdict.PASSED:
                outputs += f", {self.answer}"
        return f"{self.verdict}: {outputs}; {layers}"

    def told(self) -> str:
        return self.sentence

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
    refuse_other_network(program, graph)
    # Before memory is taken: the reference keeps every tensor for the comparison by layer.
    check_work(graph, keeps_all=True)
    samples = list(_user_samples(graph, inputs) if inputs else _random(graph, seeds))
    # Own programs keep the network's names; those of other compilers have to be matched.
    own = program.source == "npuscope"
    bridge = OwnBridge(program, graph) if own else foreign_bridge(program, graph, samples[0])
    collected = _Collected(program, graph, bridge)
    finished = _run_all(collected, samples)
    whole = samples[: finished.count]
    progress("comparing with an outside runtime")
    finished.check_reference(outside_outputs(model, graph, whole))
    return finished.result(len(whole))


def _run_all(collected: _Collected, samples: Sequence[dict[str, Array]]) -> _Collected:
    """After an interruption: what the samples before it gave."""
    finished = None
    try:
        for number, sample in enumerate(samples, 1):
            worst = f", worst so far {collected.worst:g} LSB" if finished else ""
            progress("sample %d of %d%s", number, len(samples), worst)
            collected.add(sample)
            finished = collected if number == len(samples) else collected.snapshot()
    except KeyboardInterrupt:
        if finished is None:
            raise
        message = "interrupted: %d of %d samples were compared, the result is of these"
        log.warning(message, finished.count, len(samples))
    assert finished is not None  # there is at least one sample
    return finished


class _Collected:
    """Agreement over all samples."""

    def __init__(self, program: Program, graph: Graph, bridge: NetworkBridge) -> None:
        self.program = program
        self.bridge = bridge
        self.graph = graph
        self.runtime: str | None = None
        self.expected: list[dict[str, Array]] = []
        self.outputs: dict[str, AgreementTally] = {}
        self.rounding = dict.fromkeys(graph.outputs, 0.0)
        self.answers = {name: AgreementTally(1.0) for name in graph.outputs}
        self.layers: dict[int, dict[str, AgreementTally]] = {}  # by epoch and buffer
        self.inside: dict[str, float] = {}
        # An output has its own number of channels, so it has sums of its own.
        self.reference = {name: AgreementTally(1.0) for name in graph.outputs}
        self.saturated: list[float] = []

    def snapshot(self) -> _Collected:
        """A copy of the sums; program and network do not change."""
        clone = copy(self)
        clone.expected = list(self.expected)
        clone.saturated = list(self.saturated)
        for name in ("outputs", "rounding", "answers", "layers", "reference"):
            setattr(clone, name, deepcopy(getattr(self, name)))
        return clone

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
        outputs = self.bridge.outputs(run.outputs)
        for name in self.graph.outputs:
            step = output_step(self.graph, name, expected[name])
            self.outputs.setdefault(name, AgreementTally(step)).add(outputs[name], expected[name])
            same = same_answers(self.graph, name, outputs[name], expected[name])
            self.answers[name].add(same, np.ones_like(same))
        for draw in range(_DRAWS):
            self._add_rounding(rounded(self.graph, sample, draw), expected)
        self._check_layers(sample, expected)
        self.saturated.append(max(run.saturated_share.values(), default=0.0))

    def _add_rounding(self, moved: dict[str, Array], expected: dict[str, Array]) -> None:
        for name, values in moved.items():
            tally = AgreementTally(self.outputs[name].lsb)
            tally.add(values, expected[name])
            self.rounding[name] = max(self.rounding[name], tally.rms)

    def check_reference(self, outside: tuple[str, list[list[Array]]] | None) -> None:
        """Our reference executor against what another runtime made of the same samples."""
        if outside is None:
            return
        self.runtime, results = outside
        for expected, row in zip(self.expected, results, strict=True):
            for name, values in zip(self.graph.outputs, row, strict=True):
                if values.shape != expected[name].shape:
                    raise ModelError(
                        f"{self.runtime} gives it the shape {values.shape}, expected "
                        f"{expected[name].shape}",
                        where=f"output '{safe_terminal(name)}'",
                    )
                # In steps of the output, so that float and integer outputs share one figure.
                lsb = self.outputs[name].lsb
                self.reference[name].add(values / lsb, expected[name] / lsb)

    def _check_layers(self, sample: dict[str, Array], expected: dict[str, Array]) -> None:
        """Every epoch gets the reference's tensors; what it makes of them is compared."""
        forced = self.bridge.forced(expected)
        if not self.inside:
            self.inside = steps_inside(self.graph, sample, expected)
        integers = {name: value for name, value in forced.items() if value.dtype.kind != "f"}
        # A buffer that several epochs fill is whole only behind the last of them.
        last_writers = {
            name: epoch.number for epoch in self.program.executed for name in written(epoch)
        }

        def compare(epoch: Epoch, memory: Memory) -> None:
            for name in written(epoch):
                if name not in integers or last_writers[name] != epoch.number:
                    continue
                if self._is_layer(epoch):
                    tallies = self.layers.setdefault(epoch.number, {})
                    if name not in tallies:
                        inside = self.inside.get(self.bridge.tensor(name), 0.0)
                        coarse = coefficient_lsb(epoch, memory, integers[name].shape[-1])
                        tallies[name] = AgreementTally(1.0, LAYER_LSB * max(1.0, inside) + coarse)
                    tallies[name].add(memory.read(name), integers[name])
                # Whoever reads these bytes under another name starts from the reference too.
                memory.write(name, integers[name])

        execute(self.program, self.bridge.inputs(sample), observe=compare, force=forced)

    def result(self, samples: int) -> Validation:
        epochs = {epoch.number: epoch for epoch in self.program.epochs}
        layers = tuple(
            layer_agreement(epochs[n], list(tallies.values()))
            for n, tallies in sorted(self.layers.items())
        )
        worst = min(layers, key=lambda layer: layer.exact_share, default=None)
        tallies = [tally for buffers in self.layers.values() for tally in buffers.values()]
        elements = sum(tally.elements for tally in tallies)
        equal = sum(tally.equal for tally in tallies)
        outputs = tuple(map(self._output, self.outputs))
        compared = {op for number in self.layers for op in epochs[number].origin}
        total = [e for e in self.program.executed if self._is_counted(e, compared)]
        coverage = Coverage(len(layers), len(total))
        verdict = judge(outputs, layers, coverage)
        return Validation(
            outputs=outputs,
            layers=layers,
            layers_exact_share=equal / elements if elements else 1.0,
            worst_op=worst.origin[0] if worst and worst.origin else None,
            saturated_share=max(self.saturated, default=0.0),
            reference=self._outside(),
            seeds=samples,
            passed=verdict.holds,
            notes=self.program.notes,
            verdict=verdict,
            layers_compared=coverage.compared,
            layers_total=coverage.total,
            not_compared=tuple(e.name for e in total if e.number not in self.layers),
        )

    def _output(self, name: str) -> Agreement:
        answers = self.answers[name]
        return replace(
            self.outputs[name].agreement(name),
            rounding_rms_lsb=self.rounding[name],
            top1_same_share=answers.equal / answers.elements if answers.elements else None,
        )

    def _is_layer(self, epoch: Epoch) -> bool:
        """Kernels on the CPU are the reference's own code in our programs; comparing them would
        only count zeros. Of others they are read from the file, and compared as well."""
        return epoch.call is None or self.program.source != "npuscope"

    def _is_counted(self, epoch: Epoch, compared: set[str]) -> bool:
        """Wide sums and float values are inner steps of an op, whose result is compared, and so
        are pieces of an op that is compared; in our programs all that carry no tensor are."""
        if epoch.number in self.layers or not self._is_layer(epoch):
            return epoch.number in self.layers
        if epoch.origin and compared.issuperset(epoch.origin):
            return False
        buffers = [self.program.buffer_map()[name] for name in written(epoch)]
        narrow = any(buffer.nbits == 8 and not buffer.is_float for buffer in buffers)
        return narrow and not (self.layers and self.program.source == "npuscope")

    def _outside(self) -> Reference:
        if self.runtime is None:
            return Reference(None)
        tallies = self.reference.values()
        return Reference(
            self.runtime,
            sum(tally.elements for tally in tallies),
            sum(tally.elements - tally.equal for tally in tallies),
            max((tally.largest for tally in tallies), default=0.0),
        )


def output_step(graph: Graph, name: str, values: Array) -> float:
    """One step of an output; a float output counts in steps of what was dequantized, else in
    parts of the range that it takes."""
    tensor = graph.tensor(name)
    if tensor.dtype is not DType.FLOAT32:
        return 1.0
    maker = graph.producers().get(name)
    source = graph.first_input(maker) if maker and maker.kind == "Dequantize" else None
    if source and source.quant:
        return source.quant.scale
    return float(np.ptp(values)) / _STEPS or 1.0


def _random(graph: Graph, seeds: int) -> Iterator[dict[str, Array]]:
    for seed in range(seeds):
        yield random_sample(graph, np.random.default_rng(seed))


def _user_samples(graph: Graph, inputs: Sequence[Array]) -> Iterator[dict[str, Array]]:
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
