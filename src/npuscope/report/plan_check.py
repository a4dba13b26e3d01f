"""The check of an application folder as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npuscope.application.check.model import AppSeverity, CheckedTarget, FolderCheck
from npuscope.shown import counted
from npuscope.text import safe_terminal

_TITLES = {
    AppSeverity.ERROR: "Errors",
    AppSeverity.LATENT: "Right today, wrong when something grows",
    AppSeverity.NOTE: "Not faults, but worth knowing",
}


def answer(check: FolderCheck) -> str:
    errors, latent = len(check.of(AppSeverity.ERROR)), len(check.of(AppSeverity.LATENT))
    networks = {network.file for target in check.targets for network in target.networks}
    scope = f"{counted(len(networks), 'network')} on {counted(len(check.targets), 'board')}"
    if errors:
        first = safe_terminal(check.of(AppSeverity.ERROR)[0].message)
        more = f" and {counted(errors - 1, 'more error')}" if errors > 1 else ""
        return f"{first}{more} ({scope})"
    risks = f"; {counted(latent, 'latent risk')}" if latent else ""
    return f"no errors in {scope}{risks}"


def check_text(check: FolderCheck) -> str:
    lines = [answer(check)]
    for severity in AppSeverity:
        rows = check.of(severity)
        if rows:
            lines += ["", _TITLES[severity]]
        for finding in rows:
            board = f" [{finding.board}]" if finding.board else ""
            lines.append(f"  {finding.rule}{board}: {safe_terminal(finding.message)}")
            lines += [f"    {safe_terminal(place)}" for place in finding.places]
            if finding.hint:
                lines.append(f"    hint: {safe_terminal(finding.hint)}")
    for target in check.targets:
        lines += ["", *_target(target)]
    if check.not_checked:
        lines += ["", "Not checked", *(f"  {safe_terminal(text)}" for text in check.not_checked)]
    return "\n".join(lines) + "\n"


def _target(target: CheckedTarget) -> Iterator[str]:
    by = f", {safe_terminal(target.build_file)}" if target.build_file else ""
    yield f"{target.board}{by}"
    for network in target.networks:
        yield f"  {safe_terminal(network.file)}"
        for used in network.used:
            yield f"    {used.start:#010x} to {used.end:#010x}, {used.size_bytes:,} bytes"
    for region in target.regions:
        name = safe_terminal(region.what)
        yield f"  region {name} {region.start:#010x} to {region.end:#010x}"
    for section, size in target.buffers_bytes.items():
        yield f"  buffers in {safe_terminal(section)}: {size:,} bytes"


def check_json(check: FolderCheck) -> dict[str, Any]:
    return {
        "schema": "npuscope/plan-check/1",
        "folder": check.folder,
        "fits": check.fits,
        "answer": answer(check),
        "findings": check.table(),
        "targets": [
            {
                "board": target.board,
                "build_file": target.build_file,
                "networks": [
                    {"name": n.name, "file": n.file,
                        "used": [{"address": f"{s.start:#010x}", "size_bytes": s.size_bytes}
                            for s in n.used]}
                    for n in target.networks
                ],
                "regions": [
                    {"name": r.what, "address": f"{r.start:#010x}", "size_bytes": r.size_bytes}
                    for r in target.regions
                ],
                "buffers_bytes": target.buffers_bytes,
            }
            for target in check.targets
        ],
        "not_checked": list(check.not_checked),
    }  # fmt: skip
