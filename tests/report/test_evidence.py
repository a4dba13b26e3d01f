"""Evidence in words: no key of the JSON reaches a reader as it is."""

from __future__ import annotations

import re

import pytest

from npuscope.demo_network import demo_graph
from npuscope.report.html.evidence import evidence_text
from npuscope.rulebook.finding import Confidence, Finding, Severity
from report.html_samples import deep_graph, explained

KEYS = re.compile(r"(^|[;,] )(kind|way|share|ms|value|limit|ms_known|slowdown|bound) [^o]")


def finding(**evidence: object) -> Finding:
    return Finding(
        rule="NA-SOFTMAX", severity=Severity.WARNING, title="t", epoch=1, ops=(), evidence=evidence,
        cause="", fixes=(), confidence=Confidence.VERIFIED, since="", until="", docs="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        (
            {"value": "(1, 4, 16)", "limit": None, "kind": "SW", "ms": 13.63, "share": 0.2513,
                "ms_known": True, "way": "NPU", "also": [], "epochs": [3], "tensors": []},
            "13.63 ms, 25.1% of the time; (1, 4, 16); on the CPU",
        ),
        (
            {"value": 301056, "limit": 64000, "buffer": "out", "pool": "npuRAM5"},
            "301,056 (limit: 64,000); buffer out; in npuRAM5",
        ),
        ({"value": 3, "limit": None, "ms": 0.5, "ms_known": False}, "about 0.500 ms; 3"),
        ({"value": None, "limit": None, "slowdown": 2.2}, "about 2.2x slower than a better shape"),
        ({"value": "x", "limit": None, "some_new_key": 1.23456}, "x; some new key: 1.235"),
        ({"value": "x", "limit": None, "weights_bytes": 2 << 20}, "x; 2.00 MiB of weights"),
        ({"value": "x", "limit": None, "rows": 5376, "elements": 1}, "x; 5,376 rows; 1 element"),
        ({"value": "x", "limit": None, "op": "Maximum"}, "x"),  # stands in the heading
    ],
)  # fmt: skip
def test_words(evidence: dict, text: str) -> None:
    assert evidence_text(finding(**evidence)) == text


@pytest.mark.parametrize("graph", [demo_graph(), deep_graph(30)], ids=["demo", "deep"])
def test_no_raw_key_in_what_rules_find(graph) -> None:
    _, found = explained(graph)
    texts = [evidence_text(one) for one in found.findings]
    assert any(texts)
    assert [text for text in texts if KEYS.search(text) or "_" in text.split(";")[0]] == []
