"""What `explain` says first, and how much of the avoidable time it explains.

    python benchmarks/first_advice.py MODEL [MODEL ...]

Avoidable is the time of epochs off the NPU, and of NPU epochs what their best fix is predicted to
save. One row per model: total and avoidable milliseconds, the first cause with the number of its
findings, its share of the avoidable time, and what to do about it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import npuscope
from npuscope.advice.explain import Explanation
from npuscope.errors import NpuscopeError
from npuscope.rulebook.finding import Finding


def avoidable_ms(found: Explanation) -> float:
    away = found.profile.time.software_ms + found.profile.time.hybrid_ms
    gains: dict[object, float] = {}
    for finding in found.findings:
        if not finding.cost_ms and finding.epoch is not None:
            gains[finding.epoch] = max(gains.get(finding.epoch, 0.0), finding.gain_ms or 0.0)
    return away + sum(gains.values())


def first_cause(findings: Iterable[Finding]) -> list[Finding]:
    findings = list(findings)
    return [finding for finding in findings if finding.pattern == findings[0].pattern]


def row(path: str) -> str:
    try:
        found = npuscope.explain(path)
    except NpuscopeError as error:
        return f"| {path.rpartition('/')[2]} | {error.message} |"
    whole = avoidable_ms(found)
    if not found.findings or not whole:
        return f"| {path.rpartition('/')[2]} | {found.profile.total_ms:.2f} | nothing |"
    cause = first_cause(found.findings)
    stake = sum(finding.stake_ms for finding in cause)
    rule, op = cause[0].pattern
    advice = found.changes[0].fix.title if found.changes else ""
    named = f"{rule} {op}".strip()
    return (
        f"| {path.rpartition('/')[2]} | {found.profile.total_ms:.2f} | {whole:.2f} | "
        f"{len(cause)} x {named} | {min(stake / whole, 1):.0%} | {advice} |"
    )


def main(paths: list[str]) -> int:
    if not paths:
        print(__doc__)
        return 2
    print("| model | ms | avoidable | first finding | share of it | first advice |")
    print("|---|---|---|---|---|---|")
    for path in paths:
        print(row(path), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
