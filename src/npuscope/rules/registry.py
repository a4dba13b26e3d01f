"""Rules that refuse a way of running an op. Lowering asks; the answer stays in the Program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.program.model import Refused


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a rule says no: the value found against the limit."""

    found: str
    limit: str = ""

    def __str__(self) -> str:
        return f"{self.found}, limit {self.limit}" if self.limit else self.found


RuleFunction = Callable[[Graph, Op, Machine], Refusal | None]


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    kinds: tuple[str, ...]
    sentence: str
    check: RuleFunction
    way: str = "NPU"  # what it refuses: the NPU alone, or also with the CPU's help (NPU+CPU)


RULES: list[Rule] = []


def refuse(rule_id: str, *kinds: str, way: str = "NPU") -> Callable[[RuleFunction], RuleFunction]:
    """Register a rule; its docstring is the sentence the user reads."""

    def register(check: RuleFunction) -> RuleFunction:
        sentence = " ".join((check.__doc__ or "").split())
        RULES.append(Rule(rule_id, kinds, sentence, check, way))
        return check

    return register


def refusals(graph: Graph, op: Op, machine: Machine) -> tuple[Refused, ...]:
    """All reasons why the op cannot run on the NPU alone; empty when it can."""
    found = []
    for rule in RULES:
        if op.kind in rule.kinds:
            refusal = rule.check(graph, op, machine)
            if refusal:
                found.append(Refused(rule.way, rule.id, f"{rule.sentence} ({refusal})"))
    return tuple(found)
