"""Where `fix` tries edits: every edited file is compiled by Vela, timed and executed."""

from __future__ import annotations

from npuscope.advice.fix.workbench import BenchNetwork, Look, Workbench, without_border
from npuscope.edits import Document
from npuscope.families.ethos_u.build import compile_bytes, timed


class EthosBench(Workbench, frozen=True):
    def look(self, document: Document) -> Look:
        data = document.to_bytes()
        build = compile_bytes(self.path, data, without_border(self.options))
        profile = timed(build)
        assert build.graph is not None  # compiled from a file
        network = BenchNetwork(
            build.graph, None, self.results, self.data, timed=lambda graph: profile
        )
        return Look(document, data, build, profile, network, build.graph)
