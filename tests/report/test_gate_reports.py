"""Gates as text, as JSON, and as GitHub reads them."""

from __future__ import annotations

import json

import pytest

from advice.compared import network, side, slower
from hostile_names import HOSTILE
from npuscope.advice.compare.model import Side
from npuscope.advice.gate import Baseline, Check, Gate, Limit, figures, gate
from npuscope.report.gate import (
    cell,
    error_commands,
    gate_json,
    gate_markdown,
    gate_text,
    limit_text,
)
from npuscope.structs import replace

CHECK_KEYS = {"name", "kind", "value", "limit", "passed", "unit", "baseline", "noise"}


@pytest.fixture(scope="module")
def latest() -> Side:
    return side(network())


@pytest.fixture(scope="module")
def broken(latest: Side) -> Gate:
    before = Baseline("before.json", figures(latest.profile), "", "4.0", latest)
    worse = slower(latest.profile, 2, latest.profile.total_ms)
    return gate(replace(latest, profile=worse), (Limit("SW", 0.0),), before, 0.03)


def test_a_gate_that_holds(latest: Side) -> None:
    found = gate(latest, (Limit("SW", 1.0), Limit("hyperRAM", 0.0)))
    lines = gate_text(found).splitlines()
    assert lines[0] == "passed: all 2 checks hold"
    assert lines[1].startswith("machine  stm32n6 (STM32N6x7), no board named, generation ")
    assert lines[2] == "source   net"
    low, high = latest.profile.interval_ms
    assert lines[3] == f"range    {low:.3f} to {high:.3f} ms"
    assert lines[-2:] == [
        "  ok     SW                              1  <= 1",
        "  ok     hyperRAM                      0 B  <= 0 B",
    ]
    one = gate(latest, (Limit("SW", 1.0),))
    assert gate_text(one).splitlines()[0] == "passed: the check holds"


def test_a_gate_that_fails(broken: Gate, latest: Side) -> None:
    lines = gate_text(broken).splitlines()
    assert lines[0] == "FAILED: SW is 1, limit 0 and 1 more (7 checks)"
    assert "baseline before.json" in lines
    ms = latest.profile.total_ms
    (total,) = (line for line in lines if "total_ms" in line)
    assert total.split() == (
        f"FAILED total_ms {2 * ms:.3f} ms <= {1.03 * ms:.3f} ms (was {ms:.3f} ms)".split()
    )
    worst = lines[lines.index("") :][-1]
    assert broken.comparison is not None
    assert broken.comparison.rows[0].ops[0] in worst


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (Check("total_ms", "max", 1.0, 20.0), "<= 20.00 ms"),
        (Check("inferences_per_s", "min", 1.0, 30.5), ">= 30.50"),
        (Check("hyperRAM", "max", 0, 2048, True), "<= 2.0 KiB"),
        (Check("SW", "baseline", 1, 2, False, 2), "<= 2 (was 2)"),
        (
            Check("total_ms", "baseline", 1.0, 1.3, False, 1.0, 0.1),
            "<= 1.300 ms (was 1.000 ms, noise 0.100 ms)",
        ),
    ],
)
def test_limits(check: Check, text: str) -> None:
    assert limit_text(check) == text


def test_the_json_object(broken: Gate) -> None:
    result = json.loads(json.dumps(gate_json(broken)))
    assert (result["schema"], result["passed"]) == ("npuscope/gate/1", False)
    assert all(set(check) == CHECK_KEYS for check in result["checks"])
    assert [check["passed"] for check in result["checks"]][:2] == [False, False]
    assert result["worst"][0]["delta_ms"] > 0
    assert result["figures"]["SW"] == 1
    assert result["baseline"] == "before.json"


def test_the_summary_is_one_table_a_gate(broken: Gate) -> None:
    lines = gate_markdown(broken).splitlines()
    assert lines[0] == "### npuscope gate :x: failed: net"
    assert lines[2:4] == ["| | check | value | limit |", "|---|---|---:|---|"]
    assert lines[4] == "| :x: | SW | 1 | &lt;= 0 |"
    assert sum(line.startswith("|") for line in lines) == 2 + 7 + 2 + 1
    assert gate_markdown(broken).endswith("\n\n")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_cell_stays_a_cell(name: str) -> None:
    text = cell(HOSTILE[name])
    assert not set(text) & set("|`*_[]<>\\\n\r\x1b\"'")
    assert text.isprintable()


@pytest.mark.parametrize("name", HOSTILE)
def test_an_annotation_stays_one_command(name: str, broken: Gate) -> None:
    named = replace(broken, side=replace(broken.side, name=f"{HOSTILE[name]},line=1::x"))
    for line in error_commands(named):
        assert line.isprintable()
        head, _, data = line.removeprefix("::error title=").partition("::")
        assert ":" not in head and "," not in head
        assert data.startswith(("SW is 1, limit 0", "total_ms is "))


def test_a_percent_sign_is_escaped(broken: Gate) -> None:
    named = replace(broken, side=replace(broken.side, name="100%0A"))
    assert error_commands(named)[0].startswith("::error title=npuscope gate%3A 100%250A::")
