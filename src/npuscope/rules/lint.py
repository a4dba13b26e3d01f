"""Lint: risks that the model file alone shows. The registry, and the run over all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

from npuscope.errors import InternalError
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.rules.catalogue import RuleInfo, make_finding, rule
from npuscope.rules.finding import Finding, Hit, gravest_first

LintFunction = Callable[[Graph, Machine], Iterator[Hit]]
_MODULES = (
    "lint_floats",
    "lint_weights",
    "lint_sums",
    "lint_scales",
    "lint_shapes",
    "lint_channels",
    "lint_layers",
    "lint_kernels",
    "lint_pools",
    "lint_moves",
    "lint_layout",
    "lint_idle_moves",
    "lint_operands",
    "lint_tail",
)


@dataclass(frozen=True, slots=True)
class Lint:
    """A registered rule; `sentence` is its docstring."""

    info: RuleInfo
    sentence: str
    look: LintFunction

    def findings(self, graph: Graph, machine: Machine) -> Iterator[Finding]:
        if self.info.applies_to(machine.generation.name):
            for hit in self.look(graph, machine):
                yield make_finding(self.info, hit)


_LINTS: dict[str, Lint] = {}


def lint(rule_id: str) -> Callable[[LintFunction], LintFunction]:
    """Register a rule under its id in the catalogue."""

    def register(look: LintFunction) -> LintFunction:
        info = rule(rule_id)
        if info is None:
            raise InternalError(f"rule '{rule_id}' is not in the catalogue")
        _LINTS[rule_id] = Lint(info, " ".join((look.__doc__ or "").split()), look)
        return look

    return register


def lints() -> dict[str, Lint]:
    """All lint rules by id."""
    for name in _MODULES:
        import_module(f"npuscope.rules.{name}")
    return _LINTS


def lint_graph(graph: Graph, machine: Machine) -> tuple[Finding, ...]:
    """What all rules find in a network, the worst first."""
    return gravest_first(f for entry in lints().values() for f in entry.findings(graph, machine))
