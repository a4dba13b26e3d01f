"""Explanations: the verdict, the changes that pay most, what is told once."""

from __future__ import annotations

import pytest

from advice.runs import LATEST, build, clean_network
from compiler.nets import MACHINES, Net
from npuscope.advice.catalogue import catalogue
from npuscope.advice.changes import best_changes, changes_of, settled
from npuscope.advice.explain import explain, merged
from npuscope.advice.explanation import Explanation
from npuscope.graph.model import Graph
from npuscope.profiling.run import estimate
from npuscope.rulebook.finding import Finding, Fix, Hit, Severity, main_limit, worst_first
from npuscope.rulebook.fix import at_most, timed
from npuscope.rulebook.registry import lint_graph, make_finding
from npuscope.structs import replace


def explained(graph: Graph, generation: str = "4.0") -> Explanation:
    made = build(graph, MACHINES[generation])
    return explain(made, estimate(made.program, made.machine, graph))


def classifier() -> Graph:
    """A softmax and a float output at the end."""
    net = Net()
    x = net.dense(net.input((1, 64)), 10)
    net.dequantize(net.softmax(x))
    return net.graph()


def finding(rule_id: str, *gains: float | None, ops: tuple[str, ...] = ("a",)) -> Finding:
    info = catalogue()[rule_id]
    fixes = tuple(Fix(f"fix{i}", f"do {i}", gain=at_most(gain)) for i, gain in enumerate(gains))
    made = make_finding(info, Hit(ops, "value"))
    return Finding(
        made.rule,
        made.severity,
        made.title,
        None,
        ops,
        made.evidence,
        made.cause,
        fixes,
        made.confidence,
        "",
        "",
        made.docs,
    )


@pytest.mark.parametrize("generation", MACHINES)
def test_a_clean_network_has_nothing_to_explain(generation: str) -> None:
    """The negative control: no rule of any kind has anything to say."""
    result = explained(clean_network(), generation)
    assert [f.rule for f in result.findings] == []
    assert result.changes == ()
    assert not result.has_problems
    assert result.verdict.startswith("nothing to change: all 1")
    assert lint_graph(clean_network(), MACHINES[generation]) == ()


def test_the_verdict_counts_what_leaves_the_npu() -> None:
    result = explained(classifier())
    assert result.verdict.startswith("2 of 3 epochs leave the NPU and take ")
    assert "warning" in result.verdict
    assert result.has_problems


def test_a_risk_that_the_run_confirms_is_told_once() -> None:
    rules = [f.rule for f in explained(classifier()).findings]
    assert "LINT-SOFTMAX" not in rules
    assert "LINT-FLOAT-OUTPUT" not in rules
    assert sum(name.startswith("NA-") for name in rules) == 2


def test_only_the_same_op_counts_as_told() -> None:
    run = (finding("NA-SOFTMAX", ops=("a",)),)
    risks = (finding("LINT-SOFTMAX", ops=("a",)), finding("LINT-SOFTMAX", ops=("b",)))
    assert [f.ops for f in merged(run, risks, 10.0)] == [("a",), ("b",)]


@pytest.mark.parametrize(("gain", "told"), [(3.0, "LINT-DECODE-TAIL"), (1.0, "ADV-TAIL")])
def test_of_two_that_say_the_same_the_one_that_sees_more_is_told(gain: float, told: str) -> None:
    run = (finding("ADV-TAIL", 2.0, ops=("a",)), finding("ADV-BANK"))
    risk = finding("LINT-DECODE-TAIL", gain, ops=("a", "b"))
    assert [f.rule for f in merged(run, (risk,), 10.0)] == [told, "ADV-BANK"]


def test_what_costs_most_comes_first_where_no_gain_is_known() -> None:
    costly = Hit(("a",), "value", None, {"ms": 5.0, "epochs": [1], "kind": "SW", "op": "Max"})
    dear = [make_finding(catalogue()["NA-OP-SOFTWARE"], costly) for _ in range(2)]
    found = merged((finding("ADV-COPIES", 6.0), *dear), (finding("LINT-RANK", None),), 20.0)
    assert [f.rule for f in found] == ["NA-OP-SOFTWARE"] * 2 + ["ADV-COPIES", "LINT-RANK"]
    first = best_changes(found, 20.0)[0]
    assert (first.rule, first.gain, first.cost_ms) == ("NA-OP-SOFTWARE", at_most(10.0), 10.0)


def test_findings_are_sorted_by_gain_then_severity() -> None:
    found = merged(
        (finding("ADV-COPIES", 1.0), finding("NA-SOFTMAX", None), finding("ADV-BANK", None)),
        (finding("LINT-RANK", None), finding("LINT-UINT8", None)),
        10.0,
    )
    assert [f.rule for f in found[:2]] == ["LINT-UINT8", "ADV-COPIES"]
    severities = [f.severity for f in found[2:]]
    assert severities == sorted(severities, key=lambda s: s.rank)


def away(ms: float, **evidence: bool) -> Finding:
    values = {"ms": ms, "epochs": [1], "kind": "SW", "op": "Max", **evidence}
    return make_finding(catalogue()["NA-OP-SOFTWARE"], Hit(("a",), "value", None, values))


@pytest.mark.parametrize(
    ("left", "gain", "first"),
    [
        (away(0.5), 8.0, "NA-OP-SOFTWARE"),  # it leaves the NPU and takes a part of the time
        (away(0.01), 8.0, "ADV-COPIES"),  # its time is negligible, the other's is not
        (away(0.01), 0.02, "NA-OP-SOFTWARE"),  # both are negligible
        (away(0.01, ms_known=False), 8.0, "NA-OP-SOFTWARE"),  # nobody knows what it takes
    ],
)
def test_what_leaves_the_npu_comes_before_advice(left: Finding, gain: float, first: str) -> None:
    error = finding("LINT-UINT8", None)
    found = worst_first((finding("ADV-COPIES", gain), left, error), 10.0)
    assert next(f.rule for f in found if f is not error) == first


def test_the_main_limit_has_the_largest_share_of_the_time() -> None:
    slow = Hit(("b",), "value", None, {"ms": 8.0})
    layer = make_finding(catalogue()["ADV-WEIGHTS"], slow)
    assert main_limit((away(0.02), layer)) is layer
    assert main_limit((away(9.0), layer)) != layer
    assert main_limit((layer, error := finding("LINT-UINT8", None))) is error
    assert main_limit(()) is None


def test_the_best_three_changes() -> None:
    found = (
        finding("ADV-COPIES", 1.0, 3.0),
        finding("ADV-COPIES", 2.5, 0.5),
        finding("ADV-COPIES", 1.0, 2.0),
        finding("NA-SOFTMAX", None),
        finding("ADV-FLASH", 4.0),
        finding("ADV-WEIGHTS", 0.001),
        finding("ADV-BANK", None),
    )
    changes = best_changes(found, 10.0)
    assert [(c.rule, c.fix.id, c.gain_ms, c.count) for c in changes] == [
        ("ADV-COPIES", "fix1", 5.5, 3),
        ("ADV-FLASH", "fix0", 4.0, 1),
        ("NA-SOFTMAX", "fix0", None, 1),
    ]
    rest = best_changes(found[3:], 10.0)
    assert [(c.rule, c.gain_ms) for c in rest] == [("ADV-FLASH", 4.0), ("NA-SOFTMAX", None)]


def test_cutting_the_tail_saves_the_time_of_its_epochs() -> None:
    from rulebook.test_blocks import detector

    result = explained(detector(True))
    (tail,) = (f for f in result.findings if f.rule == "LINT-DECODE-TAIL")
    profile = result.profile
    gone = sum(e.ms for e in profile.epochs if set(e.origin) <= set(tail.ops))
    assert 0 < gone < profile.total_ms
    assert tail.gain_ms == pytest.approx(gone)


def test_strictness_is_about_errors_and_warnings() -> None:
    note = finding("ADV-COPIES", 1.0)
    profile = estimate(build(clean_network()).program, LATEST)
    assert not Explanation("", profile, (), (note,)).has_problems
    assert Explanation("", profile, (), (note, finding("LINT-RANK"))).has_problems
    assert note.severity is Severity.INFO


def test_a_program_without_its_network_is_explained_too() -> None:
    made = build(classifier())
    profile = estimate(made.program, made.machine)

    class Alone:
        graph = None
        machine = made.machine
        program = made.program

    result = explain(Alone(), profile)
    assert {f.rule[:3] for f in result.findings} == {"NA-"}


def test_no_place_saves_more_than_all_of_them_together() -> None:
    places = (finding("ADV-COPIES", 6.0, ops=("a",)), finding("ADV-COPIES", 5.0, ops=("b",)))
    (change,) = changes_of(places).values()
    together = replace(change, fix=replace(change.fix, gain=timed(2.0)))
    found = settled(places, {change.key: together})
    assert [fix.gain_ms for one in found for fix in one.fixes] == [2.0, 2.0]
