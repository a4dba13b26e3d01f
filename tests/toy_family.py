"""A family of machines from outside: an abacus. All that a family is, as short as it gets."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from msgspec import Struct

from npuscope.advice.explanation import Explanation, explanation
from npuscope.building import read_graph
from npuscope.errors import FileError, UsageError
from npuscope.families.interface import (
    Assembled,
    CodePart,
    Family,
    Format,
    Options,
    Report,
    Source,
)
from npuscope.graph.model import Graph
from npuscope.identify.sample import FileFacts, Sample
from npuscope.ops.run import trace
from npuscope.ops.table import having, macs
from npuscope.ops.traits import Trait
from npuscope.options.kinds import text
from npuscope.profiling.model import MachineInfo, ModelInfo, Profile
from npuscope.profiling.plain import plain_part, plain_profile
from npuscope.program.model import EpochKind
from npuscope.rulebook import fixes
from npuscope.rulebook.finding import Confidence, Finding, Hit, Severity
from npuscope.rulebook.registry import RuleKind, advise, findings_of, lint

RODS, MAGIC = 13, b"BEAD"
MOVES_PER_MS = {"slow": 50_000.0, "quick": 100_000.0}

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


# --- Its file: the magic, and the number of moves for each op ---


def is_beads(sample: Sample) -> bool:
    return sample.head.startswith(MAGIC)


def inspect_beads(sample: Sample) -> FileFacts:
    moves = _moves(sample.path)
    return FileFacts("", {"ops": len(moves), "moves": sum(moves)}, {"moves": list(moves)})


def is_listing(sample: Sample) -> bool:
    return sample.text.lstrip("; \n").startswith("move ") or "\nmove " in sample.text


def disassemble(path: Path) -> dict[str, CodePart]:
    moves = _moves(path)
    lines = "".join(f"move {number}\n" for number in moves)
    return {path.name: CodePart(lambda: lines, lambda: {"moves": list(moves)}, len(moves))}


def assemble(text: str, output: str, name: str) -> Assembled:
    words = [line.split() for line in text.splitlines() if line and not line.startswith(";")]
    data = MAGIC + b"".join(struct.pack("<I", int(word[1])) for word in words)
    return Assembled(data, data, len(words))


def _moves(path: Path) -> tuple[int, ...]:
    data = path.read_bytes()
    if len(data) % 4:
        raise FileError("a move has 4 bytes", where=f"byte {len(data)}")
    return struct.unpack_from(f"<{len(data) // 4 - 1}I", data, 4)


# --- The family ---


class Beads(Struct, frozen=True):
    """A program of the abacus: a network with the number of moves for each op."""

    graph: Graph
    machine: str
    rods: int
    pace: str
    moves: tuple[int, ...]


class Abacus(Family):
    name = "abacus"
    options = (text("pace", "how beads are moved (quick)", "", choices=("slow", "quick")),)
    rules = (__name__,)
    instead = "count on your fingers"

    def machines(self) -> tuple[str, ...]:
        return ("suanpan", "soroban")

    def describe(self, machine: str) -> Report:
        return Report(f"{machine}: {RODS} rods", {"name": machine, "family": self.name})

    def keys(self, machine: str, text: str = "") -> Report:
        keys = [{"key": "rods", "value": RODS}] if text in "rods" else []
        return Report(f"{machine}: {len(keys)} keys for --set", {"name": machine, "keys": keys})

    def formats(self) -> tuple[Format, ...]:
        return (
            Format("beads", "beads", is_beads, inspect_beads, disassemble=disassemble),
            Format("bead_list", "list of beads", is_listing, inspect_beads, assemble=assemble),
        )

    def compile(self, source: Source, options: Options) -> Beads:
        graph = read_graph(source, {"shapes": options.get("shapes") or {}})
        moves = (max(macs(graph, op), graph.output_tensor(op).elements) for op in graph.ops)
        pace = options.get("pace") or "quick"
        return Beads(graph, str(options["machine"]), _rods(options), pace, tuple(moves))

    def write(self, build: Beads, folder: Path, options: Options) -> tuple[str, ...]:
        folder.mkdir(exist_ok=True)
        words = b"".join(struct.pack("<I", moves) for moves in build.moves)
        (folder / "net.beads").write_bytes(MAGIC + words)
        return ()

    def time(self, build: Beads) -> Profile:
        parts = [
            plain_part(
                number,
                op.name,
                moves / build.rods / MOVES_PER_MS[build.pace],
                kind=EpochKind.HW if op.kind in having(Trait.LAYER) else EpochKind.SW,
                operators=(op.kind,),
                origin=op.origin,
            )
            for number, (op, moves) in enumerate(zip(build.graph.ops, build.moves, strict=True))
        ]
        total = sum(part.ms for part in parts)
        return plain_profile(
            ModelInfo(build.graph.name, "", (), (), sum(build.moves), 0),
            MachineInfo(build.machine, "", False, 1.0, 1.0),
            parts,
            interval_ms=(0.5 * total, 2 * total),
            model_error="as steady as the hand",
            family=self.name,
            machine_words=f"{build.machine}, {build.rods} rods",
            figures={"moves": float(sum(build.moves))},
            payload=build,
        )

    def execute(self, build: Beads, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """An abacus does not round."""
        return trace(build.graph, inputs)

    def advise(self, build: Beads, profile: Profile) -> Explanation:
        findings = findings_of(__name__, RuleKind.ADVISE, profile, graph=build.graph)
        return explanation(f"{profile.total_ms:.3g} ms of moving beads", profile, findings)

    def lint(self, source: Source, options: Options) -> tuple[Finding, ...]:
        return tuple(findings_of(__name__, RuleKind.LINT, read_graph(source, {}), _rods(options)))


FAMILY = Abacus()


def _rods(options: Options) -> int:
    rods = (options.get("overrides") or {}).get("rods", RODS)
    if not isinstance(rods, int) or rods < 1:
        raise UsageError("an abacus has rods", where="--set rods")
    return rods
