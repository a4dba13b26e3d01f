"""What rows say together: fronts that nothing beats, best runs, means, names."""

from __future__ import annotations

import math
import random

import pytest

from advice.sweep.samples import failed, row
from npuscope.advice.sweep.summary import front_of, short_names, summarise


def beats(one: dict, other: dict) -> bool:
    both = ("internal_ram_bytes", "total_ms")
    return all(one[name] <= other[name] for name in both) and any(
        one[name] < other[name] for name in both
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_front_is_what_no_other_beats(seed: int) -> None:
    rng = random.Random(seed)
    rows = [
        row(str(n), internal_ram_bytes=rng.randrange(8), total_ms=float(rng.randrange(8)))
        for n in range(rng.randrange(1, 40))
    ]
    front = front_of([*rows, failed("x")])
    points = {(one["internal_ram_bytes"], one["total_ms"]) for one in front}
    unbeaten = [one for one in rows if not any(beats(other, one) for other in rows)]
    assert points == {(one["internal_ram_bytes"], one["total_ms"]) for one in unbeaten}
    assert len(points) == len(front)
    assert [one["internal_ram_bytes"] for one in front] == sorted(
        one["internal_ram_bytes"] for one in front
    )


def test_models_configurations_and_failures() -> None:
    rows = [
        row("1", "a", total_ms=2.0),
        row("2", "a", total_ms=3.0, pools="small", internal_ram_bytes=10),
        row("3", "b", total_ms=1.0),
        row("4", "b", total_ms=2.0, pools="small"),
        failed("5", model="c"),
        failed("6", model="c", pools="small"),
    ]
    summary = summarise(rows)
    found = [
        (one.name, one.runs, one.failed, one.best and one.best["key"]) for one in summary.models
    ]
    assert found == [("b", 2, 0, "3"), ("a", 2, 0, "1"), ("c", 2, 2, None)]
    assert [len(one.front) for one in summary.models] == [1, 2, 0]
    default, small = summary.configurations
    assert (default.name, default.done, default.failed) == ("stm32n6 4.0", 2, 1)
    assert (small.name, small.done, small.failed) == ("stm32n6 4.0, pools small", 2, 1)
    assert default.against_best == 1.0
    assert small.against_best == pytest.approx(math.sqrt(1.5 * 2.0))
    assert [one["key"] for one in summary.front] == ["2", "3"]
    assert [one["key"] for one in summary.failures] == ["5", "6"]


def test_of_equals_the_plainest_is_best() -> None:
    rows = [row("1", pools="x"), row("2", external_ram_bytes=5), row("3")]
    (model,) = summarise(rows).models
    assert model.best is not None and model.best["key"] == "3"
    assert [one["key"] for one in model.front] == ["3"]


def test_all_failed() -> None:
    summary = summarise([failed("1")])
    assert (summary.front, summary.done) == ((), ())
    assert summary.configurations[0].against_best is None


def test_folders_are_shown_only_where_they_tell_models_apart() -> None:
    assert short_names(["x/a", "y/b", "x/a"]) == {"x/a": "a", "y/b": "b"}
    assert short_names(["x/a", "y/a"]) == {"x/a": "x/a", "y/a": "y/a"}
