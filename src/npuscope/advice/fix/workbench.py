"""A model file on the bench: read, compiled and timed again after every edit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from npuscope.advice.explain import Explanation, explain
from npuscope.advice.fix.request import Network
from npuscope.advice.subject import UNCOSTED
from npuscope.building import Build, Options, build, read_graph
from npuscope.files.load import load_model, read_model
from npuscope.graph.edit import Document, open_document
from npuscope.profile.model import Profile
from npuscope.profile.run import estimate
from npuscope.program.model import EpochKind
from npuscope.rules.finding import Finding
from npuscope.rules.registry import lint_graph, lint_model_file


@dataclass(frozen=True, slots=True)
class Look:
    """A document as it stands, compiled and timed."""

    document: Document
    data: bytes
    build: Build
    profile: Profile
    network: Network

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
        """Layers whose time on the CPU nobody has measured: what is told of it is a lower bound."""
        known = self.build.machine.software
        calls = [epoch.call for epoch in self.build.program.executed if epoch.call]
        return sum(c.kernel in UNCOSTED and c.kernel not in known for c in calls)


@dataclass(frozen=True, slots=True)
class Workbench:
    """What stays the same while a file is edited: its name, and what it is compiled for."""

    path: Path
    options: Options

    @property
    def has_float_border(self) -> bool:
        """Because an option asks for it."""
        asked = (self.options.get("input_data_type"), self.options.get("output_data_type"))
        return "float32" in asked

    def with_integer_border(self) -> Workbench:
        return replace(self, options=_without_border(self.options))

    def open(self) -> Document:
        """The file as a document, once the reader has found nothing wrong with it."""
        load_model(self.path, self.options.get("shapes"))
        return open_document(self.path)

    def look(self, document: Document) -> Look:
        data = document.to_bytes()
        graph = read_model(self.path, data, self.options.get("shapes"))
        made = build(read_graph(graph, self.options), _without_border(self.options))
        made = replace(made, program=replace(made.program, model_file=self.path.name))
        profile = estimate(made.program, made.machine, made.graph)
        return Look(document, data, made, profile, Network(graph, made.machine))

    def explained(self, look: Look) -> Explanation:
        return explain(look.build, look.profile, self._file_findings(look))

    def risks(self, look: Look) -> tuple[Finding, ...]:
        """What the file alone shows."""
        graph = lint_graph(look.network.graph, look.build.machine)
        return (*graph, *self._file_findings(look))

    def _file_findings(self, look: Look) -> tuple[Finding, ...]:
        return lint_model_file(self.path, look.build.machine, look.data)


def _without_border(options: Options) -> Options:
    """The border's types were set already."""
    return {**options, "input_data_type": None, "output_data_type": None}
