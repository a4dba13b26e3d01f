"""The steps of a deployment as text and as JSON."""

from __future__ import annotations

import shlex
from typing import Any

from npuscope.loadable.deploy import DeployedStep
from npuscope.text import safe_terminal


def deploy_text(steps: tuple[DeployedStep, ...], *, source: str, board: str, run: bool) -> str:
    written = [one.written for one in steps if one.written]
    outcome = "deployed" if run else "nothing was done on the board: `--run` does it"
    if written:
        outcome = f"{' and '.join(written)} written, {outcome}"
    lines = [f"{safe_terminal(source)} on {board}: {len(steps)} steps, {outcome}"]
    for number, one in enumerate(steps, 1):
        lines.append(f"{number:>3}. {safe_terminal(one.step.what)}")
        if one.step.command:
            lines.append(f"     {safe_terminal(shlex.join(one.step.command))}")
        if one.step.command[:1] == ("npuscope",):  # the programmer's own words are left out
            lines += [f"     {line}" for line in one.output.splitlines()]
    return "\n".join(lines)


def deploy_json(steps: tuple[DeployedStep, ...], *, board: str, run: bool) -> dict[str, Any]:
    return {
        "schema": "npuscope/deploy/1",
        "board": board,
        "ran": run,
        "written": [one.written for one in steps if one.written],
        "steps": [{"what": one.step.what, "command": list(one.step.command)} for one in steps],
    }
