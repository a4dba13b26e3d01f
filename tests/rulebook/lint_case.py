"""What tables of lint tests share: a network that a rule finds, and one that it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from compiler.nets import MACHINES, Net
from npuscope.graph.model import Graph
from npuscope.rulebook.finding import Finding
from npuscope.rulebook.registry import lints

IMAGE = (1, 8, 8, 4)


class Case(NamedTuple):
    """`evidence` is what the first finding on `risky` shows as its value."""

    rule: str
    evidence: str
    risky: Callable[[], Graph]
    clean: Callable[[], Graph]
    generation: str = "4.0"


def findings(case: Case, graph: Graph) -> list[Finding]:
    return found_by(case.rule, graph, case.generation)


def found_by(rule: str, graph: Graph, generation: str = "4.0") -> list[Finding]:
    machine = MACHINES[generation]
    return list(lints()[rule].findings(machine, graph, machine))


def check(case: Case) -> None:
    found = findings(case, case.risky())
    assert found, "the rule finds nothing in the risky network"
    assert str(found[0].evidence["value"]) == case.evidence
    assert all(finding.rule == case.rule and finding.ops for finding in found)
    assert findings(case, case.clean()) == []


def image_net(shape: tuple[int, ...] = IMAGE) -> tuple[Net, str]:
    net = Net()
    return net, net.input(shape)


def conv(shape: tuple[int, ...] = IMAGE, **options: object) -> Graph:
    """One convolution."""
    net, x = image_net(shape)
    net.conv(x, **{"channels": 8, **options})  # type: ignore[arg-type]
    return net.graph()
