"""A family of machines from outside: an abacus. All that a family is, as short as it gets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from npuscope.advice.explanation import Explanation, explanation
from npuscope.building import read_graph
from npuscope.errors import UsageError
from npuscope.families.interface import Family, Options, Report, Source
from npuscope.graph.model import Graph, Op
from npuscope.ops.table import having, macs
from npuscope.ops.traits import Trait
from npuscope.profiling.model import MachineInfo, ModelInfo, Profile
from npuscope.profiling.plain import plain_part, plain_profile
from npuscope.program.model import EpochKind
from npuscope.rulebook import fixes
from npuscope.rulebook.finding import Confidence, Finding, Hit, Severity
from npuscope.rulebook.registry import RuleKind, advise, findings_of, lint

RODS, MOVES_PER_MS = 13, 100_000.0


# --- Rules ---


@advise(
    "ABACUS-BY-HAND",
    "An op is done by hand",
    severity=Severity.WARNING,
    family="abacus",
    confidence=Confidence.DOCUMENTED,
    cause="Rods add and multiply; whoever moves the beads does the rest.",
    fixes=(fixes.DROP_SOFTMAX,),
)
def by_hand(profile: Profile) -> Iterator[Hit]:
    """Beads do not know this op."""
    for part in profile.epochs:
        if part.kind is EpochKind.SW:
            yield Hit(part.origin, part.operators[0], None, {"ms": part.ms})


@lint(
    "ABACUS-LARGE",
    "The network is large",
    severity=Severity.INFO,
    family="abacus",
    confidence=Confidence.DOCUMENTED,
    cause="Nobody moves beads for a week.",
)
def large(graph: Graph, rods: int) -> Iterator[Hit]:
    """More than a thousand products per rod."""
    products = sum(macs(graph, op) for op in graph.ops)
    if products > 1000 * rods:
        yield Hit((), products, 1000 * rods)


# --- The family ---


@dataclass(frozen=True)
class Beads:
    """A program of the abacus: ops with the number of moves for each."""

    machine: str
    file: str
    rods: int
    moves: tuple[tuple[Op, int], ...]


class Abacus(Family):
    name = "abacus"
    options: ClassVar[frozenset[str] | None] = frozenset({"machine", "overrides"})
    rules = (__name__,)
    instead = "count on your fingers"

    def machines(self) -> tuple[str, ...]:
        return ("suanpan", "soroban")

    def describe(self, machine: str) -> Report:
        return Report(f"{machine}: {RODS} rods", {"name": machine, "family": self.name})

    def keys(self, machine: str, text: str = "") -> Report:
        keys = [{"key": "rods", "value": RODS}] if text in "rods" else []
        return Report(f"{machine}: {len(keys)} keys for --set", {"name": machine, "keys": keys})

    def compile(self, source: Source, options: Options) -> Beads:
        graph = read_graph(source, {})
        moves = ((op, max(macs(graph, op), graph.output_tensor(op).elements)) for op in graph.ops)
        name = source.name if isinstance(source, Graph) else Path(source).name
        return Beads(str(options["machine"]), name, _rods(options), tuple(moves))

    def time(self, build: Beads) -> Profile:
        parts = [
            plain_part(
                number,
                op.name,
                moves / build.rods / MOVES_PER_MS,
                kind=EpochKind.HW if op.kind in having(Trait.LAYER) else EpochKind.SW,
                operators=(op.kind,),
                origin=op.origin,
            )
            for number, (op, moves) in enumerate(build.moves)
        ]
        total = sum(part.ms for part in parts)
        return plain_profile(
            ModelInfo(build.file, "", (), (), sum(moves for _, moves in build.moves), 0),
            MachineInfo(build.machine, "", False, 1.0, 1.0),
            parts,
            interval_ms=(0.5 * total, 2 * total),
            model_error="as steady as the hand",
            family=self.name,
            machine_words=f"{build.machine}, {build.rods} rods",
            figures={"moves": float(sum(moves for _, moves in build.moves))},
            payload=build,
        )

    def explain(self, source: Source, options: Options) -> Explanation:
        profile = self.estimate(source, options)
        findings = findings_of(__name__, RuleKind.ADVISE, profile)
        return explanation(f"{profile.total_ms:.3g} ms of moving beads", profile, findings)

    def lint(self, source: Source, options: Options) -> tuple[Finding, ...]:
        return tuple(findings_of(__name__, RuleKind.LINT, read_graph(source, {}), _rods(options)))


FAMILY = Abacus()


def _rods(options: Options) -> int:
    rods = (options.get("overrides") or {}).get("rods", RODS)
    if not isinstance(rods, int) or rods < 1:
        raise UsageError("an abacus has rods", where="--set rods")
    return rods
