"""Findings as text: exact, short, and safe to print."""

from __future__ import annotations

from npuscope.advice.catalogue import catalogue
from npuscope.advice.changes import best_changes
from npuscope.advice.explanation import Explanation
from npuscope.report.figures import machine_line
from npuscope.report.findings import explain_json, explain_text, finding_lines, lint_text
from npuscope.rulebook.finding import Finding, Hit, finding_json, worst_first
from npuscope.rulebook.fix import at_most
from npuscope.rulebook.fixes import CUT_TAIL
from npuscope.rulebook.registry import make_finding
from npuscope.structs import replace
from sample_profile import sample_profile


def finding(rule_id: str, hit: Hit) -> Finding:
    return make_finding(catalogue()[rule_id], hit)


def prime(number: int) -> Finding:
    evidence = {"ms": 0.25, "share": 0.1, "ms_known": True}
    parts = {"parts": "240+17", "halves": "144+113"}
    fixes = {"change-inputs": {"channels": 256}, "split-inputs": parts}
    gains = {"change-inputs": at_most(0.2), "split-inputs": at_most(0.1 * number)}
    return finding(
        "NA-CONV-PRIME",
        Hit(
            (f"Conv:\x1b[31m{number}", "Relu"),
            "257 input channels",
            "255",
            evidence,
            fixes,
            gains,
            number,
        ),
    )


def findings() -> tuple[Finding, ...]:
    unknown = Hit(("Conv:9",), "weights are float32", None, {"ms": 0.1, "ms_known": False}, epoch=9)
    found = (
        *(prime(number) for number in range(1, 7)),
        finding("NA-WEIGHTS", unknown),
        finding("LINT-RANK", Hit(("Reshape:4",), "1x8x2x4x4", 4, {"tensors": 2})),
        finding("ADV-LAUNCH", Hit((), "60% of the time", "below 40%")),
    )
    return worst_first(found, 10.0)


def explanation() -> Explanation:
    found = findings()
    return Explanation("the verdict", sample_profile(), best_changes(found, 1.0), found)


def test_findings_of_one_rule_are_one_block() -> None:
    text = explain_text(explanation())
    lines = text.splitlines()
    title = "A prime count of input channels cannot be split (6)"
    start = lines.index(f"warning  NA-CONV-PRIME          {title}")
    evidence = "and 1 more: 257 input channels, limit 255; 0.250 ms, 10.0%"
    assert lines[start + 1] == rf"    epoch 6: Conv:\x1b[31m6 {evidence}"
    assert "    60% of the time, expected below 40%" in lines
    assert text.replace("\n", "").isprintable()
    assert max(map(len, text.splitlines())) <= 135


def test_all_findings_on_request() -> None:
    assert "and 2 more (--verbose lists all)" in explain_text(explanation())
    assert "more (--verbose" not in explain_text(explanation(), every=True)


def test_nothing_to_say_is_the_verdict_and_the_machine() -> None:
    empty = replace(explanation(), findings=(), changes=(), verdict="nothing")
    assert explain_text(empty) == f"nothing\n{machine_line(empty.profile)}\n"
    assert lint_text((), "a\x1b.onnx", "4.0") == "a\\x1b.onnx: no findings (generation 4.0)\n"


def test_no_change_pays() -> None:
    poor = replace(explanation(), changes=())
    assert "changes  none is predicted to save time\n" in explain_text(poor)


def test_one_fix_is_told_once_with_all_it_saves() -> None:
    text = " ".join(" ".join(finding_lines(prime(number) for number in (1, 2))).split())
    assert "and add the results (at most 0.300 ms in all, not compiled) " in text
    assert "fix use 256 input channels (at most 0.400 ms in all, not compiled) see" in text


def test_an_end_of_the_network_saves_once_for_all_places() -> None:
    ends = [
        replace(prime(number), fixes=(CUT_TAIL.fix({}, at_most(0.1 * number)),))
        for number in (1, 3)
    ]
    text = " ".join(" ".join(finding_lines(ends)).split())
    assert "(at most 0.300 ms in all, not compiled)" in text


def test_json_keeps_names_and_rounds_times() -> None:
    found = finding_json(prime(1))
    assert found["ops"] == ["Conv:\x1b[31m1", "Relu"]
    assert found["fixes"][-1] == {
        "id": "change-inputs",
        "title": "use 256 input channels",
        "parameters": {"channels": 256},
        "automatic": False,
        "function": "changed",
        "gain_ms": 0.2,
        "gain_basis": "bound",
        "moves": "",
        "training": {
            "keras": "Conv2D(filters=256, ...) in the layer before",
            "torch": "nn.Conv2d(c, 256, ...) in the layer before",
        },
    }
    assert explain_json(explanation())["changes"][0]["findings"] == 6
