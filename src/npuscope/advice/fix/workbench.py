"""A model file on the bench: read, compiled and timed again after every edit, and at last opened
in an outside runtime, where one is installed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from npuscope.advice.explain import explain
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
from npuscope.advice.subject import UNCOSTED, Bench
from npuscope.building import Build, Options, build, read_graph
from npuscope.edits import Document, NotFitting, open_document
from npuscope.errors import ModelError
from npuscope.files.load import load_model, read_model
from npuscope.graph.model import Graph, Numerics
from npuscope.machine.model import Machine
from npuscope.profiling.model import Profile
from npuscope.profiling.outside import OutsideRun, installed_runtime, outside_opens, outside_runs
from npuscope.profiling.run import estimate
from npuscope.program.model import EpochKind
from npuscope.rulebook.finding import Finding
from npuscope.rulebook.registry import lint_graph, lint_model_file
from npuscope.structs import Apart, replace
from npuscope.whole_file import work_folder

# What references to nothing and values that do not fit their fields end in.
_CONTRADICTIONS = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError)


class BenchNetwork(Struct):
    """The network as it stands before the edit, and what its tensors hold: on real data where it
    was given, else on random numbers."""

    graph: Graph
    machine: Machine
    results: Results = field(default_factory=Results)
    data: InputData | None = None
    _values: dict[str, np.ndarray] | None = None
    _unrest_db: float | None = None

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
        result = build(self.graph, {"machine": self.machine})
        end = frontier(result, estimate(result.program, result.machine, result.graph))
        if not end.tensors:
            raise NotFitting(end.sentence)
        return [tensor.name for tensor in end.tensors]

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
    build: Build
    profile: Profile
    network: BenchNetwork
    risks: list[Finding] = field(default_factory=list)  # once asked for

    @property
    def total_ms(self) -> float:
        return self.profile.total_ms

    @property
    def off_npu(self) -> int:
        """Epochs that need the CPU."""
        counts = self.profile.counts
        return counts[EpochKind.SW.value] + counts[EpochKind.HYBRID.value]

    @property
    def layers_on_cpu(self) -> int:
        """Layers whose time on the CPU was never measured: it is reported as a lower bound."""
        costs = self.build.machine.software
        calls = [epoch.call for epoch in self.build.program.executed if epoch.call]
        return sum(c.kernel in UNCOSTED and c.kernel not in costs for c in calls)


class Workbench(Struct, frozen=True):
    """What stays the same while a file is edited: its name, and what it is compiled for."""

    path: Path
    options: Options
    results: Results = field(default_factory=Results)  # an inference costs more than a compilation
    timed: list[Bench] = field(default_factory=list)  # layers that were timed alone
    data: InputData | None = None  # what networks are compared on

    @property
    def has_float_border(self) -> bool:
        """An option asks for float inputs or outputs."""
        types = (self.options.get("input_data_type"), self.options.get("output_data_type"))
        return "float32" in types

    def with_integer_border(self) -> Workbench:
        return replace(self, options=_without_border(self.options))

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
        result = build(read_graph(graph, self.options), _without_border(self.options))
        result = replace(result, program=replace(result.program, model_file=self.path.name))
        profile = estimate(result.program, result.machine, result.graph)
        network = BenchNetwork(graph, result.machine, self.results, self.data)
        return Look(document, data, result, profile, network)

    def explained(self, look: Look) -> Explanation:
        machine = look.build.machine
        if self.timed and self.timed[0].machine != machine:
            self.timed.clear()
        if not self.timed:
            self.timed.append(Bench(machine))
        return explain(look.build, look.profile, self._file_findings(look), self.timed[0])

    def risks(self, look: Look) -> tuple[Finding, ...]:
        """What the file alone shows."""
        if not look.risks:
            look.risks.extend(lint_graph(look.network.graph, look.build.machine))
            look.risks.extend(self._file_findings(look))
        return tuple(look.risks)

    def _file_findings(self, look: Look) -> tuple[Finding, ...]:
        return lint_model_file(self.path, look.build.machine, look.data)


def _without_border(options: Options) -> Options:
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


def opened(path: Path, before: Look, after: Look, data: InputData) -> Opened | None:
    """Both files in the runtime, on the same data; None where there is none."""
    name = installed_runtime(after.network.graph)
    if name is None:
        return None
    graphs = [_in_file(look) for look in (before, after)]
    reals = [{name: values[name] for name in graphs[0].inputs} for values in data.samples]
    with work_folder(Path(tempfile.gettempdir())) as folder:
        models = [folder / f"{place}{path.suffix}" for place in ("before", "after")]
        for model, look in zip(models, (before, after), strict=True):
            model.write_bytes(look.data)
        rows = zip(models, graphs, strict=True)
        runs = [
            OutsideRun(model, g, [input_values(g, values) for values in reals]) for model, g in rows
        ]
        results = outside_runs(runs, any_kernels=True)
        old, new = (_columns(g, values) for g, values in zip(graphs, results, strict=True))
        if old is None or new is None:
            was, now = outside_opens(name, models)
            return Opened(name, (), new is not None, old is not None, now, was)
    return Opened(name, _effects(graphs[0], graphs[1], old, new))


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


def _effects(
    before: Graph, after: Graph, old: dict[str, np.ndarray], new: dict[str, np.ndarray]
) -> tuple[OutputEffect, ...]:
    """Of the outputs that both networks have."""
    common = [pair for pair in pairs(before, after) if pair.is_output and pair.output in old]
    return tuple(effect(p, before, [(old[p.output], new[p.output])]) for p in common)
