"""A model file on the bench: read, compiled and timed again after every edit, and at last opened
in an outside runtime, where one is installed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from msgspec import Struct, field

from npuscope.advice.explanation import Explanation
from npuscope.advice.fix.frontier import frontier
from npuscope.advice.fix.numeric import (
    Arrays,
    InputData,
    OutputEffect,
    all_values,
    effect,
    input_values,
    pairs,
    real,
    seeded_inputs,
    unrest_db,
)
from npuscope.advice.fix.results import Results
from npuscope.building import Options, build, read_graph
from npuscope.edits import Document, NotFitting, open_document
from npuscope.errors import ModelError
from npuscope.families.interface import Family
from npuscope.families.registry import family_of
from npuscope.files.load import load_model, read_model
from npuscope.graph.model import Graph, Numerics
from npuscope.machine.model import Machine
from npuscope.profiling.execution import validate_execution
from npuscope.profiling.model import Profile
from npuscope.profiling.outside import (
    OutsideRun,
    RuntimeAhead,
    installed_runtime,
    outside_opens,
    outside_runs,
    runtime_ahead,
)
from npuscope.profiling.run import estimate
from npuscope.profiling.validate import Validation
from npuscope.program.model import EpochKind
from npuscope.rulebook.finding import Finding
from npuscope.structs import Apart, replace
from npuscope.whole_file import work_folder

# What references to nothing and values that do not fit their fields end in.
_CONTRADICTIONS = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError)


class BenchNetwork(Struct):
    """The network as it stands before the edit, and what its tensors hold: on real data where it
    was given, else on random numbers."""

    graph: Graph
    silicon: Machine | None  # of the first family; others have records of their own
    results: Results = field(default_factory=Results)
    data: InputData | None = None
    _values: dict[str, np.ndarray] | None = None
    _unrest_db: float | None = None
    timed: Callable[[Graph], Profile] | None = None
    scheduled: Options = {}  # what the compiler is told beside the machine

    @property
    def machine(self) -> Machine:
        if self.silicon is None:
            raise NotFitting("this edit follows the units of another family of machines")
        return self.silicon

    def values(self, tensor: str) -> np.ndarray | None:
        """Real values of a tensor of the graph in one inference."""
        if self._values is None:
            self._values = all_values(self.graph, self._sample, self.results)
        return self._values.get(tensor)

    @property
    def _sample(self) -> Arrays:
        return self.data.samples[0] if self.data else seeded_inputs(self.graph, 0)

    def range(self, tensor: str) -> tuple[float, float] | None:
        """Least and largest real value on real data, zero always among them; random numbers do
        not tell what a tensor may hold."""
        if not self.has_real_data:
            return None
        values = self.values(tensor)
        if values is None or not values.size:
            return None
        return min(0.0, float(values.min())), max(0.0, float(values.max()))

    @property
    def has_real_data(self) -> bool:
        return self.data is not None and self.data.is_real

    def ends(self) -> list[str]:
        """Tensors at which the NPU's work ends."""
        end = frontier(self.graph, (self.timed or self._estimate)(self.graph))
        if not end.tensors:
            raise NotFitting(end.sentence)
        return [tensor.name for tensor in end.tensors]

    def _estimate(self, graph: Graph) -> Profile:
        result = build(graph, {"machine": self.machine, **self.scheduled})
        return estimate(result.program, result.machine, result.graph)

    @property
    def unrest_db(self) -> float:
        """SQNR of the worst output when every 256th input value moves by one step: no edit can be
        asked to disturb a network less than that."""
        if self._unrest_db is None:
            self._unrest_db = unrest_db(self.graph, self._sample, self.results)
        return self._unrest_db


class Look(Apart, frozen=True):
    """A document as it stands, compiled and timed."""

    apart = ("risks",)

    document: Document
    data: bytes
    build: Any  # of the family
    profile: Profile
    network: BenchNetwork
    graph: Graph | None  # as it was compiled
    # Layers whose time on the CPU was never measured: it is reported as a lower bound.
    layers_on_cpu: int = 0
    risks: list[Finding] = field(default_factory=list)  # once asked for

    @property
    def total_ms(self) -> float:
        return self.profile.total_ms

    @property
    def off_npu(self) -> int:
        """Epochs that need the CPU."""
        counts = self.profile.counts
        return counts.get(EpochKind.SW.value, 0) + counts.get(EpochKind.HYBRID.value, 0)


class Workbench(Struct, frozen=True):
    """What stays the same while a file is edited: its name, and what it is compiled for. Any
    family compiles, times, explains and executes; one that knows more has a bench of its own."""

    path: Path
    options: Options
    results: Results = field(default_factory=Results)  # an inference costs more than a compilation
    data: InputData | None = None  # what networks are compared on

    @property
    def family(self) -> Family:
        return family_of(self.options.get("machine"))

    @property
    def has_float_border(self) -> bool:
        """An option asks for float inputs or outputs."""
        types = (self.options.get("input_data_type"), self.options.get("output_data_type"))
        return "float32" in types

    def with_integer_border(self) -> Self:
        return replace(self, options=without_border(self.options))

    def open(self) -> Document:
        """The file as a document, once the reader has found nothing wrong with it."""
        load_model(self.path, self.options.get("shapes"))
        try:
            document = open_document(self.path)
            document.to_bytes()
        except _CONTRADICTIONS as error:
            raise ModelError(
                f"the file contradicts itself and cannot be written again: {error}",
                where=str(self.path),
            ) from error
        return document

    def look(self, document: Document) -> Look:
        data = document.to_bytes()
        graph = read_model(self.path, data, self.options.get("shapes"))
        inner = without_border(self.options)
        build = self.family.compile(read_graph(graph, self.options), inner)
        network = BenchNetwork(
            graph, None, self.results, self.data, timed=lambda g: self.family.estimate(g, inner)
        )
        compiled = self.family.network(build)
        return Look(document, data, build, self.family.time(build), network, compiled)

    def explained(self, look: Look) -> Explanation:
        return self.family.advise(look.build, look.profile)

    def risks(self, look: Look) -> tuple[Finding, ...]:
        """What the file alone shows."""
        if not look.risks and self.family.can("lint"):
            look.risks.extend(self.family.lint(look.network.graph, self.options))
        return tuple(look.risks)

    def verified(self, look: Look) -> Validation | None:
        """The network as the machine computes it, where that is known."""
        if not self.family.can("execute") or look.graph is None:
            return None
        run = partial(self.family.execute, look.build)
        graph, reals = look.graph, self.data.samples if self.data else ()
        rows = [input_values(graph, values) for values in reals]
        inputs = [np.stack([row[name] for row in rows]) for name in graph.inputs] if rows else None
        return validate_execution(graph, run, inputs)


def without_border(options: Options) -> Options:
    """The border's types were set already."""
    return {**options, "input_data_type": None, "output_data_type": None}


class Opened(Struct, frozen=True):
    """What an outside runtime makes of the fixed file: of the outputs that the original has too,
    against the original in the same runtime."""

    name: str
    effects: tuple[OutputEffect, ...]
    runs: bool = True  # the fixed file
    ran: bool = True  # the original
    opens: bool = True  # the fixed file
    opened: bool = True  # the original

    @property
    def is_worse(self) -> bool:
        """Does the runtime take the original, but not the fixed file?"""
        return (self.ran and not self.runs) or (self.opened and not self.opens)


_WORTH_AHEAD = 100_000_000  # multiplications: fewer take less time than to start a process


@contextmanager
def original_ahead(path: Path, before: Look, data: InputData) -> Iterator[RuntimeAhead | None]:
    """The original in the runtime from now on, for `opened`, while edits are looked for."""
    name = installed_runtime(before.network.graph)
    if name is None or before.profile.model.macs < _WORTH_AHEAD:
        yield None
        return
    with runtime_ahead(name) as ahead:
        ahead.add(_outside_run(ahead.folder / f"before{path.suffix}", before, before, data))
        yield ahead


def opened(
    path: Path, before: Look, after: Look, data: InputData, ahead: RuntimeAhead | None = None
) -> Opened | None:
    """Both files in the runtime, on the same data; None where there is none."""
    name = installed_runtime(after.network.graph)
    if name is None:
        return None
    with work_folder(Path(tempfile.gettempdir())) as folder:
        last = _outside_run(folder / f"after{path.suffix}", after, before, data)
        if ahead is None:
            first = _outside_run(folder / f"before{path.suffix}", before, before, data)
            runs = [first, last]
            results = outside_runs(runs, any_kernels=True)
        else:
            ahead.add(last)
            runs, results = ahead.runs, ahead.results()
        old, new = (_columns(r.graph, values) for r, values in zip(runs, results, strict=True))
        if old is None or new is None:
            was, now = outside_opens(name, [run.model for run in runs])
            return Opened(name, (), new is not None, old is not None, now, was)
    # Of the outputs that both networks have.
    graphs = [run.graph for run in runs]
    common = [pair for pair in pairs(*graphs) if pair.is_output and pair.output in old]
    effects = (effect(p, graphs[0], [(old[p.output], new[p.output])]) for p in common)
    return Opened(name, tuple(effects))


def _outside_run(model: Path, look: Look, original: Look, data: InputData) -> OutsideRun:
    """The file, written; samples are of the inputs that the original has."""
    model.write_bytes(look.data)
    graph, names = _in_file(look), _in_file(original).inputs
    reals = [{name: values[name] for name in names} for values in data.samples]
    return OutsideRun(model, graph, [input_values(graph, values) for values in reals])


def _in_file(look: Look) -> Graph:
    """The network with the inputs and outputs that its file has: what a .tflite file keeps for the
    next inference follows them in a Graph, and a runtime keeps that itself."""
    graph, document = look.network.graph, look.document
    if graph.numerics is not Numerics.LITERT:
        return graph
    inputs = graph.inputs[: len(document.network_inputs)]
    outputs = graph.outputs[: len(document.network_outputs)]
    tensors = graph.tensors.values()
    return Graph(graph.name, tensors, graph.ops, inputs, outputs, graph.numerics)


def _columns(graph: Graph, runs: list[list[np.ndarray]] | None) -> dict[str, np.ndarray] | None:
    if runs is None:
        return None
    return {
        name: np.concatenate([real(graph.tensor(name), row).reshape(-1) for row in rows])
        for name, rows in zip(graph.outputs, zip(*runs, strict=True), strict=True)
    }
