"""A load-and-run as text and JSON: what was loaded where, then the epochs with their times."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from npuscope.board.device import NodeCounters
from npuscope.board.emulated.boot import Mode
from npuscope.profile.load_and_run import LoadAndRun
from npuscope.text import safe_terminal

SCHEMA = "npuscope/run/1"
_MODEL_ERROR = (
    "NPU cycles are simulated (docs/accuracy.md); MCU cycles count instructions, see docs/board.md"
)


def run_json(found: LoadAndRun) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "network": found.network.name,
        "board": found.info.description,
        "mode": _mode(found),
        "total_ms": found.total_ms if found.inferences else None,
        "inferences_per_s": 1e3 / found.total_ms if found.inferences else None,
        "phases": [round(value) for value in found.phases] if found.inferences else None,
        "model_error": _MODEL_ERROR,
        "epochs": [_epoch_json(row) for row in _nodes(found)],
        "outputs": _outputs(found),
    }


def _mode(found: LoadAndRun) -> str:
    return "xip" if Mode.XIP in found.placed.mode else "copy"


def _nodes(found: LoadAndRun) -> tuple[NodeCounters, ...]:
    return found.inferences[-1].nodes if found.inferences else ()


def _epoch_json(node: NodeCounters) -> dict[str, Any]:
    return {
        "name": node.name,
        "first": node.number,
        "last": node.last,
        "kind": node.kind.value,
        "mcu_cycles": list(node.mcu_cycles),
    }


def _outputs(found: LoadAndRun) -> list[dict[str, str]]:
    if not found.inferences:
        return []
    values = found.inferences[-1].outputs
    return [
        {"name": tensor.name, "sha256": _digest(value)}
        for tensor, value in zip(found.network.outputs, values, strict=True)
    ]


def _digest(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def run_lines(found: LoadAndRun, verbosity: int = 1) -> list[str]:
    """The answer first, then the table of epochs with their phases."""
    if not found.inferences:
        return [f"{safe_terminal(found.network.name)} is loaded and ready: {_where(found)}"]
    answer = (
        f"{safe_terminal(found.network.name)}: {found.total_ms:.3f} ms, "
        f"{1e3 / found.total_ms:,.2f} inf/s on the emulated board, {_where(found)}"
    )
    if verbosity == 0:
        return [answer]
    return [answer, "", *_table(found), "", f"  {_MODEL_ERROR}"]


def _where(found: LoadAndRun) -> str:
    mode = "executed in place" if Mode.XIP in found.placed.mode else "copied to RAM"
    return f"{mode} from {found.placed.address:#x}"


_RULE = "  " + "-" * 82


def _table(found: LoadAndRun) -> list[str]:
    rows = [_row(node, found) for node in _nodes(found)]
    pre, core, post = (round(value) for value in found.phases)
    total = pre + core + post or 1
    shares = "".join(f"{100 * value / total:>11.1f}%" for value in (pre, core, post))
    return [
        _RULE,
        f"  {'epoch':<26}{'type':<8}{'ms':>8}      [ {'pre':>9}  {'core':>9}  {'post':>9} ]",
        _RULE,
        *rows,
        _RULE,
        f"  {'total':<34}{found.total_ms:>8.3f}      [ {pre:>9,}  {core:>9,}  {post:>9,} ]",
        f"  {'':<28}{1e3 / found.total_ms:>8.2f} inf/s      [{shares} ]",
        _RULE,
    ]


def _row(node: NodeCounters, found: LoadAndRun) -> str:
    pre, core, post = node.mcu_cycles
    duration_ms = (pre + core + post) / found.info.clocks.mcu_hz * 1e3
    name = safe_terminal(node.name)[:26]
    return (
        f"  {name:<26}{node.kind.value:<8}{duration_ms:>8.3f}"
        f"      [ {pre:>9,}  {core:>9,}  {post:>9,} ]"
    )
