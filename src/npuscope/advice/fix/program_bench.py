"""The bench of STM32N6 programs: layers are timed alone, and rules look at the file too."""

from __future__ import annotations

from msgspec import field

from npuscope.advice.explain import explain
from npuscope.advice.explanation import Explanation
from npuscope.advice.fix.workbench import BenchNetwork, Look, Workbench, without_border
from npuscope.advice.subject import UNCOSTED, Bench
from npuscope.building import Build, build, read_graph, scheduled
from npuscope.edits import Document
from npuscope.files.load import read_model
from npuscope.profiling.run import estimate
from npuscope.profiling.validate import Validation
from npuscope.rulebook.finding import Finding
from npuscope.rulebook.registry import lint_graph, lint_model_file
from npuscope.structs import replace


class ProgramBench(Workbench, frozen=True):
    timed: list[Bench] = field(default_factory=list)  # layers that were timed alone

    def look(self, document: Document) -> Look:
        data = document.to_bytes()
        graph = read_model(self.path, data, self.options.get("shapes"))
        result = build(read_graph(graph, self.options), without_border(self.options))
        result = replace(result, program=replace(result.program, model_file=self.path.name))
        profile = estimate(result.program, result.machine, result.graph)
        told = scheduled(self.options)
        network = BenchNetwork(graph, result.machine, self.results, self.data, scheduled=told)
        return Look(document, data, result, profile, network, result.graph, layers_on_cpu(result))

    def explained(self, look: Look) -> Explanation:
        machine = look.build.machine
        if self.timed and self.timed[0].machine != machine:
            self.timed.clear()
        if not self.timed:
            self.timed.append(Bench(machine))
        return explain(look.build, look.profile, self._file_findings(look), self.timed[0])

    def risks(self, look: Look) -> tuple[Finding, ...]:
        if not look.risks:
            look.risks.extend(lint_graph(look.network.graph, look.build.machine))
            look.risks.extend(self._file_findings(look))
        return tuple(look.risks)

    def verified(self, look: Look) -> Validation | None:
        """A simulated inference may take minutes: `validate` is for that."""
        return None

    def _file_findings(self, look: Look) -> tuple[Finding, ...]:
        return lint_model_file(self.path, look.build.machine, look.data)


def layers_on_cpu(build: Build) -> int:
    """Layers whose time on the CPU was never measured."""
    costs = build.machine.software
    calls = [epoch.call for epoch in build.program.executed if epoch.call]
    return sum(c.kernel in UNCOSTED and c.kernel not in costs for c in calls)
