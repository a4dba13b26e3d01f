"""Changes that findings offer, made on a copy of the model or with other options, and timed with
the whole network: what `explain` promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

from npuscope.advice.changes import Change, Editing, moved_work
from npuscope.advice.fix.candidates import CUT, Candidate, FixPlace
from npuscope.advice.fix.frontier import frontier
from npuscope.advice.fix.program_bench import ProgramBench
from npuscope.advice.fix.run import apply_places
from npuscope.advice.fix.workbench import BenchNetwork, Look
from npuscope.advice.memory import on_chip
from npuscope.building import Build, Options, Source, build, is_program, scheduled
from npuscope.edits import has_edit, open_document
from npuscope.errors import NpuscopeError
from npuscope.files.load import load_model, model_bytes
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.ops.unknown import unknown_names
from npuscope.profiling.model import Profile
from npuscope.profiling.run import estimate
from npuscope.rulebook.fix import Fix, Gain, timed
from npuscope.rulebook.floats import has_float_layers
from npuscope.shown import significant

# Fixes that are options of a build: what they add to the options that were given.
_OPTIONS: Mapping[str, Callable[[Fix, Machine], Options]] = {
    "newer-compiler": lambda fix, _: {"generation": str(fix.parameters["generation"])},
    "safe-shift": lambda fix, _: {"generation": "open"},
    "epoch-controller": lambda fix, _: {"epoch_controller": True},
    "weights-on-chip": lambda fix, machine: {"overrides": on_chip(machine)},
}


def option_of(fix: Fix, machine: Machine) -> Options | None:
    """The options that carry out a fix; None for fixes of another kind."""
    return _OPTIONS[fix.id](fix, machine) if fix.id in _OPTIONS else None


class FileTrials:
    """Of a model file that was built and timed as it is."""

    def __init__(self, path: Path, options: Options, build: Build, profile: Profile) -> None:
        self.bench, self.build, self.profile = ProgramBench(path, options), build, profile

    def can_try(self, change: Change) -> bool:
        if option_of(change.fix, self.build.machine) is not None:
            return True
        return self.editing.possible and has_edit(change.fix.id, self.look.document.format)

    def gain(self, change: Change) -> Gain | None:
        """None where it cannot be made, or does not compile like that."""
        option, before = option_of(change.fix, self.build.machine), self.profile.total_ms
        try:
            if option is not None:
                other = build(self.bench.path, with_option(self.bench.options, option))
                return timed(before - estimate(other.program, other.machine, other.graph).total_ms)
            places = tuple(FixPlace(finding.ops, fix) for finding, fix in change.places)
            document = open_document(self.bench.path, self.look.data)
            candidate = Candidate(change.rule, change.fix, places)
            if len(apply_places(document, candidate, self.look)) == len(places):
                return None
            return timed(before - self.bench.look(document).total_ms, self._moves(change))
        except NpuscopeError:
            return None

    def _moves(self, change: Change) -> str:
        if change.fix.id != CUT:
            return change.moves
        end = frontier(self.build.graph, self.profile)
        work = moved_work(self.build.graph, end.removed)
        return f"the application then does {work}: {significant(end.cpu_ms, 3)} ms on the CPU here"

    @cached_property
    def editing(self) -> Editing:
        """Stand-in scales belong to no file that an edit could be made on; what cannot be run or
        written is not edited."""
        try:
            graph = self.look.network.graph
            if any(unknown_names(graph)):
                return Editing(False)
            if all(tensor.quant is None for tensor in graph.tensors.values()):
                return Editing(False, quantizable=True)
            return Editing(not (self.bench.options.get("as_int8") and has_float_layers(graph)))
        except NpuscopeError:
            return Editing(False)

    @cached_property
    def look(self) -> Look:
        """The file as it is: nothing is compiled or written for it."""
        data = model_bytes(self.bench.path)
        document = open_document(self.bench.path, data)
        graph = load_model(self.bench.path, self.bench.options.get("shapes"))
        told = scheduled(self.bench.options)
        machine = self.build.machine
        network = BenchNetwork(graph, machine, self.bench.results, scheduled=told)
        return Look(document, data, self.build, self.profile, network, self.build.graph)


def trials_of(
    source: Source, options: Options, build: Build, profile: Profile
) -> FileTrials | None:
    """None where the source is not a model file: a program of another compiler."""
    if isinstance(source, Graph) or is_program(source):
        return None
    return FileTrials(Path(source), options, build, profile)


def with_option(options: Options, option: Options) -> Options:
    """Single values are added to those that were set."""
    overrides = {**(options.get("overrides") or {}), **(option.get("overrides") or {})}
    return {**options, **option, "overrides": overrides}
