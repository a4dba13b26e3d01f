"""What `npuscope profile` prints: ours, or in the vendor's layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from npuscope.profiling.model import Profile
from npuscope.report.figures import answer
from npuscope.report.json_report import profile_json
from npuscope.report.profile import profile_text, select
from npuscope.rulebook.finding import Finding

if TYPE_CHECKING:
    from npuscope.profiling.measure import Measurement


class ProfileReport(Struct, frozen=True):
    """A run with its findings, or with what a device measured."""

    profile: Profile
    findings: tuple[Finding, ...] = ()
    measured: Measurement | None = None


def report_text(
    report: ProfileReport,
    *,
    full: bool = False,
    epochs: frozenset[int] | None = None,
    vendor_figures: bool = False,
    verbosity: int = 1,
) -> str:
    select(report.profile, epochs)  # refuses those that there are not
    if not verbosity:
        return answer(report.profile) + "\n"
    full = full or verbosity > 1
    if not vendor_figures or report.measured is None:
        return profile_text(report.profile, full=full, epochs=epochs)
    from npuscope.report.vendor_figures import measured_vendor_report
    from npuscope.report.vendor_text import vendor_report_text

    return vendor_report_text(measured_vendor_report(report.measured), report.measured, epochs)


def report_json(report: ProfileReport, *, epochs: frozenset[int] | None = None) -> dict[str, Any]:
    """Sums are those of the whole run."""
    result = profile_json(report.profile, report.findings)
    chosen = {epoch.index for epoch in select(report.profile, epochs)}
    return result | {"epochs": [row for row in result["epochs"] if row["index"] in chosen]}
