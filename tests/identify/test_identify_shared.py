"""Real files, where the folder of them is at hand: counts agree, no number is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuscope.errors import FileError
from npuscope.identify.path import identify
from npuscope.identify.sample import Sample
from npuscope.identify.table import format_of
from npuscope.profiling.profiler_log import read_profiler_log
from npuscope.profiling.validate_report import read_validate_report
from npuscope.program.generate_report import read_generate_report
from npuscope.program.model import EpochKind
from number_proof import lost_numbers

SHARED = (Path(__file__).parents[2] / ".." / "shared" / "data" / "artefacts").resolve()
FILES = sorted(path for path in SHARED.rglob("*") if path.is_file())
KINDS = {path: format_of(Sample(path)).kind for path in FILES}


def of_kind(*kinds: str) -> list:
    """Parameters, or one that skips where there are no files."""
    found = [path for path, kind in KINDS.items() if kind in kinds]
    skip = pytest.mark.skip(reason="the shared files are not on this machine")
    return found or [pytest.param(Path("none"), marks=skip)]


@pytest.mark.parametrize("path", of_kind("generate_report"), ids=lambda path: path.name)
def test_counts_are_the_reports_own(path: Path) -> None:
    report = read_generate_report(path)
    assert report.counts is not None
    assert report.counts.total == sum(row.last - row.first + 1 for row in report.epochs)
    assert report.counts.software == report.count(EpochKind.SW)
    assert report.counts.hybrid in (None, report.count(EpochKind.HYBRID))
    assert sum(layer.macc or 0 for layer in report.layers) == dict(report.model_totals)["macc"]
    assert (
        sum(layer.size_bytes or 0 for layer in report.layers)
        == dict(report.model_totals)["weights"]
    )
    assert report.total is not None
    used = sum(pool.used.amount.bytes for pool in report.pools)
    assert used == pytest.approx(report.total.used.bytes, rel=1e-3)
    assert report.ignored == ()


@pytest.mark.parametrize("path", of_kind("validate_report"), ids=lambda path: path.name)
def test_nodes_add_up_to_the_totals(path: Path) -> None:
    report = read_validate_report(path)
    assert report.total is not None
    sums = tuple(sum(epoch.cycles[phase] for epoch in report.epochs) for phase in range(3))
    assert sums == report.total.cycles == report.cycles
    rounding = 0.0005 * (len(report.epochs) + 1)  # each time is printed with three digits
    assert sum(epoch.ms for epoch in report.epochs) == pytest.approx(report.total.ms, abs=rounding)


@pytest.mark.parametrize("path", of_kind("profiler_log"), ids=lambda path: path.name)
def test_the_reports_means_are_those_of_the_boards_lines(path: Path) -> None:
    log = read_profiler_log(path)
    assert log.other_events == ()
    (epoch,) = log.epochs
    core = [node.mcu_cycles[1] for node in log.nodes]
    assert epoch.mcu_cycles[1] == pytest.approx(sum(core) / len(core), rel=1e-3)


@pytest.mark.parametrize(
    "path",
    of_kind(
        "generate_report",
        "validate_report",
        "profiler_log",
        "network_csv",
        "mpool",
        "mdesc",
        "c_info",
    ),
    ids=lambda path: path.name,
)
def test_no_number_is_lost(path: Path) -> None:
    if path.stat().st_size < 1 << 18:
        assert not lost_numbers(path)


def test_descriptions_and_reports_agree() -> None:
    """Where both lie side by side they tell the same epochs."""
    pairs = 0
    identities = {path: identify(path) for path in FILES}
    assert {path: identity.kind for path, identity in identities.items()} == KINDS
    for path, identity in identities.items():
        report = path.with_name(path.name.replace("_c_info.json", "_generate_report.txt"))
        if identity.kind == "c_info" and identities.get(report):
            keys = ("epochs", "sw_epochs", "hybrid_epochs")
            assert [identity.summary[k] for k in keys] == [
                identities[report].summary[k] for k in keys
            ]
            pairs += 1
    assert pairs >= 4 or not FILES


@pytest.mark.parametrize(
    "path", of_kind("generate_report", "profiler_log"), ids=lambda path: path.name
)
def test_truncated_files_read_or_are_refused(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    cut = tmp_path / "cut"
    for end in range(0, len(data), max(1, len(data) // 25)):
        cut.write_bytes(data[:end])
        try:
            assert identify(cut).kind
        except FileError:
            continue
