"""NPU arithmetic against the reference executor, layer by layer and end to end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
from msgspec.structs import asdict

from npuscope.errors import FileError, TargetError
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.ops.run import check_work, trace
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.profiling.agreement import (
    Agreement,
    AgreementTally,
    InputKind,
    LayerAgreement,
    NetworkBridge,
    OwnBridge,
    layer_agreement,
    sample_of,
)
from npuscope.profiling.foreign import foreign_bridge
from npuscope.profiling.network_size import network_size
from npuscope.profiling.output_tallies import OutputTallies, Reference, samples_of
from npuscope.profiling.outside import outside_outputs
from npuscope.profiling.rounding import coefficient_lsb, reach_of_a_step, steps_inside
from npuscope.profiling.same_network import refuse_other_network
from npuscope.profiling.verdict import (
    EQUAL_LSB,
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

Array = np.ndarray
Values = Mapping[str, Array]
Tallies = TypeVar("Tallies", bound=OutputTallies)
log = logging.getLogger(__name__)


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
    contradictions: tuple[str, ...] = ()  # of the files of a build: what a board gets is not one
    # Epochs whose 16-bit sums saturate, with the share of them, on the reference's inputs or on
    # what the program makes itself: the largest first.
    saturating: tuple[tuple[str, float], ...] = ()
    saturation_explains: bool = False  # the same network in wider sums agrees
    # Other kinds of inputs that were tried, with the largest difference of an output on each.
    kinds: tuple[tuple[str, float], ...] = ()
    wrong_on: str = ""  # the kind of inputs that `outputs` and `layers` are of, if not random ones
    damaged: tuple[str, ...] = ()  # weights that are not those of the model

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
        """The verdict with what it stands on: files that contradict each other, then outputs."""
        if self.contradictions:
            first, *others = self.contradictions
            more = f" (and {counted(len(others), 'other place')})" if others else ""
            rest = "; its files cannot be executed"
            if self.outputs:
                worst = max(output.max_lsb for output in self.outputs)
                rest = f"; what would be flashed is up to {worst:g} LSB off"
            return (
                f"{self.verdict}: the files of the build contradict each other: {first}{more}{rest}"
            )
        worst = max((output.max_lsb for output in self.outputs), default=0)
        if self.verdict is Verdict.UNJUDGED:
            few = f"{self.layers_compared} of {counted(self.layers_total, 'layer')}"
            return f"not judged: outputs within {worst:g} LSB, but only {few} could be compared"
        if self.damaged:
            first, *others = self.damaged
            more = f" (and {counted(len(others), 'other layer')})" if others else ""
            worst = max([worst, *(lsb for _, lsb in self.kinds)])
            return (
                f"{self.verdict}: weights are not those of the model: {first}{more}; outputs are "
                f"up to {worst:g} LSB off on the inputs that were tried"
            )
        layers = "layers were not compared" if self.not_compared else "no layer runs on the NPU"
        if self.layers_total:
            coverage = Coverage(self.layers_compared, self.layers_total)
            layers = f"{coverage}, {len(self.layers) - len(self.broken)} agree"
        if self.saturation_explains:
            name, share = self.saturating[0]
            off = max(self.outputs, key=lambda output: output.rms_lsb)
            outputs = (
                f"sums of 16 bits saturate in {name} ({share:.0%} of them on these inputs), on "
                f"real boards too: output '{off.name}' is {significant(off.rms_lsb, 2)} LSB off "
                f"(root mean square), {self.answer}; in wider sums the network agrees"
            )
        elif self.far:
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
        on = f" on {self.wrong_on} inputs" if self.wrong_on else ""
        return f"{self.verdict}{on}: {outputs}; {layers}"

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
    samples = list(samples_of(graph, inputs, seeds))
    kinds = () if inputs else _kinds(program)
    # Own programs keep the network's names; those of other compilers have to be matched.
    own = program.source == "npuscope"
    try:
        return _compared(program, graph, samples, own, model, kinds)
    except (TargetError, FileError):
        if not program.contradictions:
            raise
        # They say it all: what contradicts itself need not be executable.
        return Validation(
            (),
            (),
            0.0,
            None,
            0.0,
            Reference(None),
            0,
            False,
            program.notes,
            Verdict.WRONG,
            contradictions=program.contradictions,
        )


def _kinds(program: Program) -> tuple[InputKind, ...]:
    """The kinds of inputs besides random ones that the network is tried on: of a large one only
    the kind that showed most damage."""
    macs, _ = network_size(program)
    return tuple(InputKind) if macs <= _MOST_MACS else (InputKind.SMOOTH,)


_MOST_MACS = 30_000_000  # a second or two for each kind


def _compared(
    program: Program,
    graph: Graph,
    samples: list[dict[str, Array]],
    own: bool,
    model: Path | None,
    kinds: Sequence[InputKind],
) -> Validation:
    bridge = OwnBridge(program, graph) if own else foreign_bridge(program, graph, samples[0])
    collected = _Collected(program, graph, bridge)
    finished = run_all(collected, samples, _Collected.add)
    whole = samples[: finished.count]
    progress("comparing with an outside runtime")
    finished.check_reference(outside_outputs(model, graph, whole))
    result = finished.result(len(whole))
    if len(whole) < len(samples):
        return result
    rows: list[tuple[str, float]] = []
    for number, kind in enumerate(kinds):
        progress("%s inputs", kind)
        tallies = _Collected(program, graph, bridge)
        tallies.add(sample_of(graph, kind, np.random.default_rng(number)))
        rows.append((kind.value, tallies.worst))
        other = tallies.result(1)
        clear = other.broken or any(output.rms_lsb > LAYER_LSB for output in other.far)
        saturated = max((share for _, share in other.saturating), default=0.0) > MUCH_SATURATED
        if other.verdict is Verdict.WRONG and saturated and result.passed:
            # Values that no application gives: what saturates there is no fault of the build.
            note = f"on {kind} inputs 16-bit sums saturate in {other.saturating[0][0]}"
            result = replace(result, notes=(*result.notes, note))
        elif other.verdict is Verdict.WRONG and clear and result.passed:
            # What these inputs show counts; figures of the outside runtime stay those of the rest.
            known, count = result.reference, result.seeds
            result = replace(other, reference=known, seeds=count, wrong_on=kind.value)
    return replace(result, kinds=tuple(rows))


def run_all(
    tallies: Tallies, samples: Sequence[dict[str, Array]], add: Callable[[Tallies, Values], None]
) -> Tallies:
    """After an interruption: what the samples before it gave."""
    finished = None
    try:
        for number, sample in enumerate(samples, 1):
            worst = f", worst so far {tallies.worst:g} LSB" if finished else ""
            progress("sample %d of %d%s", number, len(samples), worst)
            add(tallies, sample)
            finished = tallies if number == len(samples) else tallies.snapshot()
    except KeyboardInterrupt:
        if finished is None:
            raise
        message = "interrupted: %d of %d samples were compared, the result is of these"
        log.warning(message, finished.count, len(samples))
    assert finished is not None  # there is at least one sample
    return finished


# --- A program of epochs: each layer is given the reference's inputs too ---


class _Collected(OutputTallies):
    """Agreement of outputs and layers over all samples."""

    def __init__(self, program: Program, graph: Graph, bridge: NetworkBridge) -> None:
        super().__init__(graph)
        self.program = program
        self.bridge = bridge
        self.is_own = program.source == "npuscope"
        self.layers: dict[int, dict[str, AgreementTally]] = {}  # by epoch and buffer
        self.begun = _begun_by_units(program) if self.is_own else set()
        self.inside: dict[str, float] = {}
        self.saturated: list[float] = []
        self.saturating: dict[int, float] = {}  # by epoch

    def snapshot(self) -> Self:
        clone = super().snapshot()
        clone.saturated, clone.layers = list(self.saturated), deepcopy(self.layers)
        clone.saturating = dict(self.saturating)
        return clone

    def add(self, sample: Values) -> None:
        expected = trace(self.graph, sample)
        jumps = having(Trait.JUMPS)
        jumping = {name for op in self.graph.ops if op.kind in jumps for name in op.outputs}
        choices: dict[str, Array] = {}

        def observe(epoch: Epoch, memory: Memory) -> None:
            for name in jumping.intersection(written(epoch)):
                value = memory.read(name)
                if value.dtype == np.int8 and expected[name].dtype == np.uint8:
                    value = value.astype(np.int16) + 128  # uint8 networks are compiled as int8 ones
                value = value.reshape(expected[name].shape)
                choices[name] = value.astype(expected[name].dtype)

        run = execute(self.program, self.bridge.inputs(sample), observe=observe)
        steps = self._check_layers(sample, expected)
        self.add_outputs(sample, self.bridge.outputs(run.outputs), expected, choices, steps)
        self.saturated.append(max(run.saturated_share.values(), default=0.0))
        self._saturates(run.saturated_share)

    def _check_layers(self, sample: Values, expected: dict[str, Array]) -> dict[str, Array]:
        """Every epoch gets the reference's tensors; what it makes of them is compared.

        Returns the differences that are rounding, in steps by tensor; none of a program of others,
        which may keep a tensor in another order.
        """
        forced = self.bridge.forced(expected)
        if not self.inside:
            self.inside = steps_inside(self.graph, sample, expected)
        integers = {name: value for name, value in forced.items() if value.dtype.kind != "f"}
        # A buffer that several epochs fill is whole only behind the last of them.
        last_writers = {
            name: epoch.number for epoch in self.program.executed for name in written(epoch)
        }

        # Bytes that are read under another name carry the tensor of that name.
        sizes = {buffer.name: buffer.size_bytes for buffer in self.program.buffers}
        carriers = {
            buffer.view_of: buffer.name
            for buffer in self.program.buffers
            if buffer.name in integers and sizes.get(buffer.view_of) == buffer.size_bytes
        }

        reach = reach_of_a_step(self.graph, sample, expected) if self.is_own else {}
        steps: dict[str, Array] = {}

        def compare(epoch: Epoch, memory: Memory) -> None:
            for result in written(epoch):
                name = result if result in integers else carriers.get(result, "")
                if not name or last_writers[result] != epoch.number:
                    continue
                if self._is_layer(epoch):
                    tallies = self.layers.setdefault(epoch.number, {})
                    if name not in tallies:
                        inside = self._steps_inside(epoch, self.bridge.tensor(name))
                        coarse = coefficient_lsb(epoch, memory, integers[name].shape[-1])
                        tallies[name] = AgreementTally(1.0, LAYER_LSB * inside + coarse)
                    tallies[name].add(memory.read(name), integers[name])
                if self.is_own:
                    tensor = self.bridge.tensor(name)
                    off = memory.read(name).astype(np.int64) - integers[name]
                    off = off.reshape(expected[tensor].shape)
                    # What is further off than by one rounding explains nothing.
                    near = np.abs(off) <= np.maximum(EQUAL_LSB, reach.get(tensor, 0))
                    steps[tensor] = np.where(near, off, 0)
                # Whoever reads these bytes under another name starts from the reference too.
                memory.write(name, integers[name])

        run = execute(self.program, self.bridge.inputs(sample), observe=compare, force=forced)
        self._saturates(run.saturated_share)
        return steps

    def _saturates(self, shares: Mapping[int, float]) -> None:
        for number, share in shares.items():
            if share:
                self.saturating[number] = max(share, self.saturating.get(number, 0.0))

    def _steps_inside(self, epoch: Epoch, tensor: str) -> float:
        """LSB that a result moves by one step of what the epoch computes on the way to it: past
        ops that only choose among values, and more of them where a mean has a finer scale."""
        makers = self.graph.producers()
        finer = 1.0
        while op := makers.get(tensor):
            before = makers.get(op.inputs[0])
            if before is None or not {*before.origin} & {*epoch.origin}:
                break
            if op.kind in having(Trait.REDUCES, Trait.POOL) - having(Trait.MOVES):
                source, result = (self.graph.tensors[n].quant for n in (op.inputs[0], tensor))
                if source is None or result is None:
                    break
                finer *= max(1.0, source.scale / result.scale)
            elif op.kind not in having(Trait.MOVES):
                break
            tensor = op.inputs[0]
        return finer * max(1.0, self.inside.get(tensor, 0.0))

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
        outputs = self.agreements()
        compared = {op for number in self.layers for op in epochs[number].origin}
        total = [e for e in self.program.executed if self._is_counted(e, compared)]
        coverage = Coverage(len(layers), len(total))
        verdict = judge(outputs, layers, coverage)
        if self.program.contradictions:
            verdict = Verdict.WRONG
        return Validation(
            outputs=outputs,
            layers=layers,
            layers_exact_share=equal / elements if elements else 1.0,
            worst_op=worst.origin[0] if worst and worst.origin else None,
            saturated_share=max(self.saturated, default=0.0),
            reference=self.outside(),
            seeds=samples,
            passed=verdict.holds,
            notes=self.program.notes,
            verdict=verdict,
            layers_compared=coverage.compared,
            layers_total=coverage.total,
            not_compared=tuple(e.name for e in total if e.number not in self.layers),
            contradictions=self.program.contradictions,
            saturating=tuple(
                (epochs[number].name, share)
                for number, share in sorted(self.saturating.items(), key=lambda row: -row[1])
            ),
        )

    def _is_layer(self, epoch: Epoch) -> bool:
        """Kernels on the CPU are the reference's own code in our programs; comparing them would
        only count zeros, unless units gather what they read. Of others they are read from the
        file, and compared as well."""
        return epoch.call is None or not self.is_own or not self.begun.isdisjoint(epoch.origin)

    def _is_counted(self, epoch: Epoch, compared: set[str]) -> bool:
        """Wide sums and float values are inner steps of an op, whose result is compared, and so
        are pieces of an op that is compared; in our programs all that carry no tensor are."""
        if epoch.number in self.layers or not self._is_layer(epoch):
            return epoch.number in self.layers
        if epoch.origin and compared.issuperset(epoch.origin):
            return False
        buffers = [self.program.buffer_map()[name] for name in written(epoch)]
        narrow = any(buffer.nbits == 8 and not buffer.is_float for buffer in buffers)
        return narrow and not (self.layers and self.is_own)


def _begun_by_units(program: Program) -> set[str]:
    """Ops of which units compute parts alone: the result is a kernel's on the CPU."""
    tensors = {buffer.name for buffer in program.buffers if buffer.tensor}
    ends = {True: set[str](), False: set[str]()}
    for epoch in program.executed:
        if epoch.call is None:
            ends[not tensors.isdisjoint(written(epoch))].update(epoch.origin)
    return ends[False] - ends[True]
