"""Rules on many cores: for each a run or network that it finds, and one that it leaves alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import npuscope
from many_core.nets import EncoderShape, encoder, graph_of
from models_onnx import OnnxWriter
from npuscope.cli.main import main
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.opstats.lever import Lever, LeverKind
from npuscope.families.many_core.opstats.model import CoreBound, CoreVerdict, OpLabel, Opstats
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.rule_subject import CoreRun
from npuscope.families.many_core.rules import core_findings, core_lints
from npuscope.families.many_core.sim.conditions import RunOptions
from npuscope.families.many_core.sim.run import simulate
from npuscope.graph.model import Graph
from npuscope.rulebook.fix import GainBasis
from npuscope.rulebook.registry import RuleKind, rules_in
from npuscope.structs import replace

CORE_RULES = rules_in("npuscope.families.many_core.rules")

MACHINE = load_core_machine()


@cache
def tables(cores: int = 2, batch: int = 1) -> Opstats:
    graph = graph_of(encoder(EncoderShape(batch=batch)))
    program = compile_graph(
        graph, MACHINE, CoreCompileOptions(cores, stats_level=70, ddr_stats=True)
    )
    return opstats_of(simulate(program, MACHINE, RunOptions(2, start_iteration=1)).stats[0])


def bound(by: CoreBound) -> Opstats:
    shares = tuple(
        (one.value, 0.9 if one is by else 0.1)
        for one in (CoreBound.DDR, CoreBound.HMX, CoreBound.HVX)
    )
    return replace(tables(), verdict=CoreVerdict(by, (*shares, ("host", 0.0))))


def with_path(**shares: float) -> Opstats:
    return replace(tables(), path=tuple(shares.items()))


def with_host(share: float) -> Opstats:
    return replace(tables(), verdict=CoreVerdict(CoreBound.HOST, (("host", share),)))


def with_row(memory: str) -> Opstats:
    first, *others = tables().cores
    row = replace(
        first.ops[0], label=OpLabel("elementadd", "HVX", memory, ("float16",)), out_bytes=1 << 20
    )
    rows = [one for one in first.ops if "DDR" not in one.details]
    return replace(tables(), cores=(replace(first, ops=(*rows, row)), *others))


def with_busy(factor: int) -> Opstats:
    """Core 0 has so many times the cycles of work."""
    first, *others = tables().cores
    threads = tuple(
        replace(row, busy_pcycles=factor * (row.busy_pcycles or 0)) for row in first.threads
    )
    return replace(tables(), cores=(replace(first, threads=threads), *others))


def with_conversions(part: float) -> Opstats:
    """Conversions take that part of the cycles of HVX."""
    core = tables().cores[0]
    rows = [
        replace(
            core.ops[0],
            label=OpLabel(kind, "HVX", "TCM", ("float16",)),
            pcycles=round(1000 * share),
        )
        for kind, share in (("aicconverttod32", part), ("elementadd", 1 - part))
    ]
    return replace(tables(), cores=(replace(core, ops=tuple(rows)),))


def with_products(used: float) -> Opstats:
    """A node that uses that part of HMX."""
    most = tables().capacity
    assert most is not None
    row = replace(
        tables().nodes[0], hmx_pcycles=1000, macs=round(1000 * used * most.macs_per_cycle)
    )
    return replace(tables(), nodes=(row,))


RUNS: dict[str, tuple[Callable[[], Opstats], Callable[[], Opstats]]] = {
    "ADV-CORE-DDR": (lambda: bound(CoreBound.DDR), lambda: bound(CoreBound.HMX)),
    "ADV-CORE-HMX": (lambda: bound(CoreBound.HMX), lambda: bound(CoreBound.HVX)),
    "ADV-CORE-HVX": (lambda: bound(CoreBound.HVX), lambda: bound(CoreBound.DDR)),
    "ADV-CORE-SYNC": (lambda: with_path(synchronisation=0.3), lambda: with_path(HVX=1.0)),
    "ADV-CORE-HOST": (lambda: with_host(0.4), lambda: with_host(0.01)),
    "ADV-CORE-SPILL": (lambda: with_row("DDR"), lambda: with_row("TCM")),
    "ADV-CORE-UNEVEN": (lambda: with_busy(3), lambda: with_busy(1)),
    "ADV-CORE-IDLE": (lambda: tables(2), lambda: tables(16)),
    "ADV-CORE-CONVERT": (lambda: with_conversions(0.5), lambda: with_conversions(0.01)),
    "ADV-CORE-FEW-ROWS": (lambda: with_products(0.1), lambda: with_products(0.8)),
}


def product(rows: int, channels: int, value: float = 1.0) -> Graph:
    w = OnnxWriter()
    weights = w.constant(np.full((64, channels), value, np.float32))
    made = w.node("MatMul", w.input("x", (1, rows, 64)), weights)
    return graph_of(w.finish({made: None}))


NETWORKS = {
    "LINT-CORE-CHANNELS": (lambda: product(64, 40), lambda: product(64, 64)),
    "LINT-CORE-ROWS": (lambda: product(3, 64), lambda: product(64, 64)),
    "LINT-CORE-HALF": (lambda: product(64, 64, 1e6), lambda: product(64, 64, 6e4)),
}


def test_every_rule_has_both_cases() -> None:
    assert set(CORE_RULES) == {*RUNS, *NETWORKS}
    assert {rule.family for rule in CORE_RULES.values()} == {"many-core"}


@pytest.mark.parametrize("rule", RUNS)
def test_a_rule_on_runs(rule: str) -> None:
    has, lacks = (core_findings(make()) for make in RUNS[rule])
    found = [finding for finding in has if finding.rule == rule]
    assert found and found[0].fixes and found[0].cause
    assert rule not in {finding.rule for finding in lacks}


@pytest.mark.parametrize("rule", NETWORKS)
def test_a_rule_on_networks(rule: str) -> None:
    has, lacks = (core_lints(make(), MACHINE) for make in NETWORKS[rule])
    found = [finding for finding in has if finding.rule == rule]
    assert found and found[0].ops and found[0].fixes
    assert rule not in {finding.rule for finding in lacks}


def test_gains_are_those_of_levers() -> None:
    run = tables(2)
    (idle,) = (finding for finding in core_findings(run) if finding.rule == "ADV-CORE-IDLE")
    fix = next(fix for fix in idle.fixes if fix.id == "core-copies")
    lever = next(lever for lever in run.levers if lever.name.startswith("8 activations"))
    assert fix.parameters == {"copies": 8}
    assert fix.gain_ms == pytest.approx(run.totals.seconds * 1e3 * (1 - 1 / lever.gain))


def test_a_gain_belongs_to_the_very_fix() -> None:
    """Copies on several cores each are not more cores, nor are copies on fewer cores these."""
    levers = (
        Lever(LeverKind.CORES, 3.0, 1.0, cores=4, copies=4),
        Lever(LeverKind.CORES, 5.0, 1.0, cores=1, copies=16),
        Lever(LeverKind.INTEGERS, 1.5, 1.0, bound=True),
    )
    run = CoreRun(replace(tables(2), levers=levers))
    assert run.gains("core-more", "core-copies") == {}
    assert "core-more" not in run.settings()
    assert run.gains("core-integers")["core-integers"].basis is GainBasis.BOUND
    fewer = Lever(LeverKind.CORES, 1.5, 0.5, cores=1)
    assert CoreRun(replace(tables(2), levers=(fewer,))).gains("core-more") == {}
    spread = Lever(LeverKind.CORES, 1.25, 0.5, cores=16)
    more = CoreRun(replace(tables(2), levers=(*levers, fewer, spread)))
    assert more.settings()["core-more"] == {"cores": 16}
    gain = more.gains("core-more")["core-more"]
    assert gain.is_timed and gain.ms == pytest.approx(run.ms * 0.2)


# --- The verbs that show them ---


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(encoder())
    return Path("net.onnx")


def test_explain_and_lint_of_a_model(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--machine", "cloudai100", str(model))
    assert main(("explain", *words, "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "npuscope/explain/1"
    assert {"verdict", "model", "machine", "total_ms", "changes", "findings", "notes"} <= set(found)
    assert found["machine"]["name"] == "cloudai100"
    rules = {row["rule"] for row in found["findings"]}
    assert rules and rules <= set(CORE_RULES)
    assert main(("explain", *words)) == 0
    text = capsys.readouterr().out
    assert " ms, bound by " in text.splitlines()[0]
    assert all(rule in text for rule in rules)
    assert main(("lint", *words)) == 0
    assert "LINT-CORE-ROWS" in capsys.readouterr().out
    assert npuscope.explain(model, machine="cloudai100").findings
    lints = npuscope.lint(model, machine="cloudai100")
    assert {finding.rule for finding in lints} <= set(CORE_RULES)


def test_gate_of_a_model(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("gate", "--machine", "cloudai100", str(model), "--max")
    assert main((*words, "total_ms=100", "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["figures"]["total_ms"] > 0 and "findings.warning" in found["figures"]
    assert main((*words, "total_ms=0.0001")) == 1
    assert "FAILED: total_ms" in capsys.readouterr().out


def test_explain_of_a_run_from_buffers_and_from_a_result(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("stats").mkdir()
    npuscope.manycore_compile(model, "binaries", stats_level=70, ddr_stats=True, cores=2)
    npuscope.manycore_run(
        "binaries", aic_profiling_type="raw_device_stats", aic_profiling_out_dir="stats"
    )
    words = ("opstats", "--qpc", "binaries/programqpc.bin", "-i", "stats", "--json", "run.json")
    assert main(words) == 0
    capsys.readouterr()
    raw, saved = npuscope.explain("stats"), npuscope.explain("run.json")
    assert raw.findings and [f.rule for f in raw.findings] == [f.rule for f in saved.findings]
    assert raw.verdict == saved.verdict
    assert main(("explain", "stats", "--sarif", "found.sarif")) == 0
    assert "ADV-CORE-IDLE" in capsys.readouterr().out
    assert "ADV-CORE-IDLE" in Path("found.sarif").read_text(encoding="utf-8")
    warnings = sum(finding.is_problem for finding in raw.findings)
    assert npuscope.gate("stats", most={"findings.warning": warnings}).passed
    assert not npuscope.gate("stats", most={"total_ms": 0.0}).passed
    assert npuscope.gate("run.json", baseline="stats").passed
    assert npuscope.compare("stats", "run.json").table()


def test_rules_of_other_machines_do_not_ask_the_first(model: Path) -> None:
    found = {finding.rule for finding in npuscope.lint(model)}
    assert found and not found & set(CORE_RULES)


def test_the_kinds_of_rules() -> None:
    kinds = {rule.id.split("-")[0]: rule.kind for rule in CORE_RULES.values()}
    assert kinds == {"ADV": RuleKind.ADVISE, "LINT": RuleKind.LINT}


def test_a_network_of_integers_is_not_to_be_quantized() -> None:
    def advised(types: tuple[str, ...]) -> set[str]:
        run = bound(CoreBound.HMX)
        label = OpLabel("aicconvolutiond32", "HMX", "TCM", types)
        core = run.cores[0]
        row = replace(core.ops[0], label=label)
        found = core_findings(replace(run, cores=(replace(core, ops=(row,)),)))
        return {fix.id for finding in found for fix in finding.fixes}

    assert "core-integers" in advised(("fp16",))
    assert "core-integers" not in advised(("i8",))
