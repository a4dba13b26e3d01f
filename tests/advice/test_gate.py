"""Limits on a run: what they are called, how they are written, what a baseline adds."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import npuscope
from advice.compared import measured, network, side, slower
from models import mobilenet_like, save, to_tflite
from npuscope.advice.compare.model import Side
from npuscope.advice.gate import (
    Baseline,
    Check,
    Gate,
    Limit,
    figures,
    gate,
    parse_limits,
    parse_share,
    read_baseline,
)
from npuscope.errors import FileError, UsageError
from npuscope.profiling.model import UNKNOWN_MEMORY
from npuscope.report.gate import gate_json
from npuscope.structs import replace

NAMES = {
    "total_ms",
    "inferences_per_s",
    "npu_core_ms",
    "control_ms",
    "software_ms",
    "hybrid_ms",
    "HW",
    "SW",
    "HYBRID",
    "epochs",
    "blobs",
    "internal_ram_bytes",
    "external_ram_bytes",
    "weights_bytes",
    "hyperRAM",
    "npuRAM5",
    "octoFlash",
}


@pytest.fixture(scope="module")
def latest() -> Side:
    return side(network())


def baseline_of(found: Side) -> Baseline:
    profile = found.profile
    known = figures(profile)
    return Baseline("before", known, profile.model.md5, profile.machine.generation, found)


def failed(found: Gate) -> list[str]:
    return [check.name for check in found.failed]


def test_the_figures_of_a_run(latest: Side) -> None:
    known = figures(latest.profile)
    assert set(known) >= NAMES
    parts = ("npu_core_ms", "control_ms", "software_ms", "hybrid_ms")
    assert sum(known[name] for name in parts) == pytest.approx(known["total_ms"])
    assert (known["SW"], known["hyperRAM"]) == (1, 0)
    assert known["epochs"] == len(latest.profile.epochs)


def test_unknown_memory_is_not_zero(latest: Side) -> None:
    known = figures(replace(latest.profile, memory=UNKNOWN_MEMORY))
    assert "internal_ram_bytes" not in known and "hyperRAM" not in known


KNOWN = {"total_ms": 2.0, "SW": 1, "internal_ram_bytes": 100, "hyperRAM": 0, "inferences_per_s": 5}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("total_ms", "20", 20),
        ("total_ms", "1.5ms", 1.5),
        ("total_ms", "2s", 2000),
        ("total_ms", "500 us", 0.5),
        ("SW", "0", 0),
        ("internal_ram_bytes", "2MiB", 2 << 20),
        ("internal_ram_bytes", "512kib", 512 << 10),
        ("hyperRAM", "1.5KiB", 1536),
        ("hyperRAM", "3kB", 3000),
        ("hyperRAM", 7, 7),
        ("total_ms", 1e-5, 1e-5),
    ],
)
def test_limits_in_the_unit_of_their_figure(name: str, text: str, value: float) -> None:
    assert parse_limits({name: text}, None, KNOWN) == (Limit(name, value),)


@pytest.mark.parametrize(
    ("name", "text", "message", "hint"),
    [
        ("total", "1", "unknown figure 'total'", "did you mean total_ms?"),
        ("sw", "1", "unknown figure 'sw'", "did you mean SW?"),
        ("xyzzy", "1", "unknown figure 'xyzzy'", f"figures: {', '.join(KNOWN)}"),
        (
            "total_ms",
            "2KiB",
            "cannot read the limit '2KiB' of total_ms",
            "a number, or one with ms, us, s",
        ),
        ("SW", "-1", "cannot read the limit '-1' of SW", "a plain number"),
        ("SW", "nan", "cannot read the limit 'nan' of SW", "a plain number"),
        (
            "hyperRAM",
            "1e9",
            "cannot read the limit '1e9' of hyperRAM",
            "a number, or one with B, kB, MB, GB, KiB, MiB, GiB",
        ),
    ],
)
def test_limits_that_are_none(name: str, text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_limits({name: text}, None, KNOWN)
    assert (caught.value.message, caught.value.where, caught.value.hint) == (message, "--max", hint)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_numbers_that_are_no_limit(value: float) -> None:
    with pytest.raises(UsageError, match="cannot read the limit"):
        parse_limits({"SW": value}, None, KNOWN)


@pytest.mark.parametrize(
    ("text", "value"), [("3%", 0.03), ("0.03", 0.03), (" 0 ", 0), ("50 %", 0.5)]
)
def test_shares(text: str, value: float) -> None:
    assert parse_share(text, "--tol") == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "%", "-1%", "x", "nan", "inf", "5000%"])
def test_shares_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="expected a share such as 3% or"):
        parse_share(text, "--tol")


def test_a_limit_that_is_just_met_is_met() -> None:
    assert Check("total_ms", "max", 20.0, 20.0).passed
    assert Check("total_ms", "min", 20.0, 20.0).passed
    assert not Check("total_ms", "max", 20.001, 20.0).passed
    assert not Check("total_ms", "min", 19.999, 20.0).passed


def test_most_and_least(latest: Side) -> None:
    limits = (Limit("total_ms", 1000.0), Limit("SW", 0.0), Limit("inferences_per_s", 1, False))
    found = gate(latest, limits)
    assert (found.passed, failed(found)) == (False, ["SW"])
    assert [check.kind for check in found.checks] == ["max", "max", "min"]


def test_no_worse_than_before(latest: Side) -> None:
    found = gate(latest, (), baseline_of(latest))
    assert found.passed
    assert [check.name for check in found.checks] == [
        "total_ms",
        "SW",
        "HYBRID",
        "internal_ram_bytes",
        "external_ram_bytes",
        "weights_bytes",
    ]


@pytest.mark.parametrize(("tolerance", "passed"), [(0.0, False), (0.05, False), (0.2, True)])
def test_a_regression_beyond_the_tolerance(latest: Side, tolerance: float, passed: bool) -> None:
    worse = slower(latest.profile, 2, 0.1 * latest.profile.total_ms)
    found = gate(Side("now", worse), (), baseline_of(latest), tolerance)
    assert found.passed is passed
    assert found.comparison is not None
    assert found.comparison.rows[0].b[0].index == 2


def test_one_more_epoch_on_the_cpu_is_not_covered_by_a_tolerance(latest: Side) -> None:
    counts = {**latest.profile.counts, "SW": 2}
    found = gate(Side("now", replace(latest.profile, counts=counts)), (), baseline_of(latest), 0.5)
    assert failed(found) == ["SW"]
    assert found.failed[0].limit == 1


def test_the_noise_of_a_measured_run_counts(latest: Side) -> None:
    board = measured(latest, factor=1.015, spread=0.02)
    found = gate(board, (), baseline_of(latest))
    assert found.passed
    assert found.checks[0].noise == pytest.approx(0.02 * board.profile.total_ms)
    quiet = measured(latest, factor=1.015, spread=0.001)
    assert failed(gate(quiet, (), baseline_of(latest))) == ["total_ms"]


def test_a_baseline_of_something_else_is_said(latest: Side) -> None:
    before = replace(baseline_of(latest), md5="1", generation="2.2")
    named = replace(latest.profile, model=replace(latest.profile.model, md5="2"))
    found = gate(replace(latest, profile=named), (), before)
    assert found.notes == (
        "the baseline belongs to another model file (its fingerprint differs)",
        "the baseline has generation 2.2, this run 4.0",
    )


def test_figures_that_one_side_lacks_are_named(latest: Side) -> None:
    bare = replace(latest.profile, memory=UNKNOWN_MEMORY)
    found = gate(Side("log", bare), (), baseline_of(latest))
    assert found.notes == (
        "not compared (unknown on one side): internal_ram_bytes, external_ram_bytes, weights_bytes",
    )


def test_a_gates_own_result_is_a_baseline(latest: Side, tmp_path: Path) -> None:
    path = tmp_path / "gate.json"
    path.write_text(json.dumps(gate_json(gate(latest, (Limit("SW", 5.0),))), indent=2))
    before = read_baseline(path, {})
    assert (before.name, before.generation, before.side) == ("gate.json", "4.0", None)
    assert before.figures["total_ms"] == pytest.approx(latest.profile.total_ms, abs=1e-6)
    assert gate(latest, (), before, 0.001).passed


@pytest.mark.parametrize("value", [None, "1", True, -1, {"float": "nan"}])
def test_a_baseline_with_a_figure_that_is_none(value: object, tmp_path: Path) -> None:
    path = tmp_path / "gate.json"
    data = {"schema": "npuscope/gate/1", "figures": {"total_ms": value}}
    path.write_text(json.dumps(data, indent=2))
    with pytest.raises(FileError) as caught:
        read_baseline(path, {})
    assert caught.value.message == "expected a number of 0 or more"
    assert caught.value.where == f"{path}: $.figures.total_ms"


def test_a_baseline_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        read_baseline(tmp_path / "none.json", {})
    assert caught.value.message == "no such baseline"
    assert caught.value.hint == "`npuscope estimate SOURCE --json FILE` writes one"


def test_as_a_function(tmp_path: Path) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    assert npuscope.gate(model, most={"total_ms": 20, "internal_ram_bytes": "2MiB"}).passed
    found = npuscope.gate(model, most={"findings.warning": 0}, baseline=model, tolerance="3%")
    assert failed(found) == ["findings.warning"]
    assert found.findings


def test_findings_need_a_build(tmp_path: Path) -> None:
    from npuscope.profiling.model import profile_to_json

    path = tmp_path / "kept.json"
    path.write_bytes(profile_to_json(npuscope.estimate(network())))
    with pytest.raises(UsageError, match="findings need a model or a build"):
        npuscope.gate(path, most={"findings.error": 0})
