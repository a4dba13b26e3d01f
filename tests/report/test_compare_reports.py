"""Comparisons as text and as JSON."""

from __future__ import annotations

import json

import pytest

from advice.compared import network, side, slower
from npuscope.advice.compare.model import Cause, CauseKind, Comparison, Side
from npuscope.advice.compare.run import compare
from npuscope.report.compare import compare_json, compare_text, row_lines
from npuscope.structs import replace

SIDE_KEYS = {"source", "model", "machine", "provenance", "total_ms", "time", "counts"}


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compare(side(network(), generation="2.2"), side(network()))


def test_the_answer_comes_first(found: Comparison) -> None:
    lines = compare_text(found).splitlines()
    a, b = found.a.profile.total_ms, found.b.profile.total_ms
    way = "faster" if b < a else "slower"
    assert lines[0] == (
        f"B is {abs(b - a):.3f} ms {way}: {a:.3f} -> {b:.3f} ms ({100 * (b - a) / a:+.1f}%); "
        "99.9% of the differences have a cause"
    )
    assert lines[1].startswith(
        "A        net: stm32n6 (STM32N6x7), no board named, generation 2.2: "
    )
    assert lines[2].startswith(
        "B        net: stm32n6 (STM32N6x7), no board named, generation 4.0: "
    )
    low, high = found.a.profile.interval_ms
    assert lines[1].endswith(f" (predicted, {low:.3f} to {high:.3f} ms)")


def test_the_parts_of_the_text(found: Comparison) -> None:
    text = compare_text(found)
    for part in ("Where the time went", "Epochs   ", "Memory   ", "Moved    ", "by source op: "):
        assert part in text
    sums = text.partition("Where the time went")[2].partition("\n\n")[0].splitlines()[1:]
    *causes, total = (float(line.split()[-2]) for line in sums)
    assert sum(causes) == pytest.approx(total, abs=0.001 * len(causes))


def test_every_row_on_request(found: Comparison) -> None:
    rows = [row for row in found.changed if row.ops]
    every = compare_text(found, every=True)
    assert "(--verbose)" not in every
    assert all(row.ops[0] in every for row in rows)


def test_no_difference() -> None:
    same = side(network())
    text = compare_text(compare(same, same))
    assert text.splitlines()[0] == f"no difference: both take {same.profile.total_ms:.3f} ms"
    assert "No row changed its time." in text
    assert "by source op" not in text


def test_an_answer_without_a_rest() -> None:
    result = compare(side(network()), side(network(), overrides={"clocks.npu_mhz": 500}))
    assert compare_text(result).splitlines()[0].endswith("; every difference has a cause")


def test_a_share_is_rounded_down() -> None:
    before = side(network()).profile
    after = replace(slower(before, 2, 1.0), program_hash="")
    result = compare(Side("a", before), Side("b", after))
    assert compare_text(result).splitlines()[0].endswith("; 0% of the differences have a cause")


def test_small_parts_of_a_row_are_left_to_the_json(found: Comparison) -> None:
    row = replace(
        found.changed[0],
        causes=(
            Cause(CauseKind.TILE, "tile a -> b", 1.0),
            Cause(CauseKind.POOL, "npuRAM5 -> hyperRAM", 0.5),
            Cause(CauseKind.CLOCK, "little", 1e-5),
        ),
    )
    lines = list(row_lines(row, 2.0))
    assert [("tile a -> b" in lines[0]), ("npuRAM5 -> hyperRAM" in lines[1])] == [True, True]
    assert len(lines) == 2


def test_the_json_object(found: Comparison) -> None:
    result = json.loads(json.dumps(compare_json(found)))
    assert result["schema"] == "npuscope/compare/1"
    assert set(result["a"]) == SIDE_KEYS
    total = sum(row["delta_ms"] for row in result["rows"])
    assert total == pytest.approx(result["b"]["total_ms"] - result["a"]["total_ms"], abs=1e-6)
    assert total == pytest.approx(result["delta_ms"], abs=1e-6)
    for row in result["rows"]:
        assert {"ops", "a_ms", "b_ms", "delta_ms", "cause", "causes", "noise"} <= set(row)
        changed = abs(row["delta_ms"]) > 1e-5
        assert (row["cause"] is not None) is changed
    causes = sum(entry["ms"] for entry in result["by_cause"])
    assert causes == pytest.approx(result["delta_ms"], abs=1e-5)


def test_an_unexplained_row_has_no_cause() -> None:
    before = side(network()).profile
    after = replace(slower(before, 2, 1.0), program_hash="")
    result = compare_json(compare(Side("a", before), Side("b", after)))
    row = result["rows"][0]
    assert (row["cause"], row["causes"][0]["kind"]) == (None, "unexplained")
    assert result["unexplained_ms"] == pytest.approx(1.0)


def test_moved_ops() -> None:
    latest = side(network())
    result = compare_json(compare(side(network(), generation="2.2"), latest))
    assert all(set(move) == {"op", "a", "b", "rule", "reason"} for move in result["moved"])
    assert all({"pool", "a_bytes", "b_bytes"} == set(pool) for pool in result["memory"])
