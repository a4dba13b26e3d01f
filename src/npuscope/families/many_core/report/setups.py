"""Set-ups of a network, as text and as JSON."""

from __future__ import annotations

from typing import Any

from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.setups.model import SetupPrediction
from npuscope.families.many_core.setups.search import Ranking
from npuscope.shown import Rows, ShownRecord, counted, significant
from npuscope.text import safe_terminal

SCHEMA = "npuscope/setups/1"
_SHOWN = 8


class SetupSearch(ShownRecord, frozen=True):
    """The set-ups of a network on a machine, the best first."""

    file: str
    machine: CoreMachine
    ranking: Ranking
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> SetupPrediction:
        return self.ranking.best

    def told(self) -> str:
        return f"{self.best.setup}: {self.best.inferences_per_s:,.0f} inferences/s"

    def table(self) -> Rows:
        """One row per set-up, the best first."""
        return [
            {
                "cores": row.setup.cores,
                "copies": row.setup.copies,
                "batch": row.setup.batch,
                "inferences_per_s": row.inferences_per_s,
                "latency_ms": row.latency_ms,
                "limit": row.limit.value,
            }
            for row in self.ranking.rows
        ]


def setup_line(row: SetupPrediction) -> str:
    low, high = (factor * row.latency_ms for factor in row.interval)
    rate = f"{rate_text(row.inferences_per_s)} inferences/s, {significant(row.latency_ms, 4)} ms"
    return f"{row.setup}: {rate} (80 %: {significant(low, 4)} to {significant(high, 4)})"


def rate_text(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 1000 else significant(rate, 4)


def setups_text(search: SetupSearch) -> str:
    best, ranking = search.best, search.ranking
    lines = [
        setup_line(best),
        f"model    {safe_terminal(search.file)}",
        f"machine  {search.machine.name}, {search.machine.cores.card_count} cores",
        f"search   {ranking.objective}, {counted(len(ranking.rows), 'set-up')} compared",
        f"limit    {best.limit_words}",
        f"DDR      {best.ddr_bytes / 1e6:,.1f} MB per run and copy, {best.ddr_gb_per_s:.1f} GB/s",
    ]
    if best.watts is not None and search.machine.power is not None:
        bounds = [best.watts / best.inferences_per_s * f for f in search.machine.power.interval]
        lines.append(
            f"energy   {1e3 / (best.inferences_per_j or 1):.4g} mJ per inference (80 %: "
            f"{1e3 * bounds[0]:.4g} to {1e3 * bounds[1]:.4g}), {best.watts:.0f} W, "
            f"{best.inferences_per_j:.4g} inferences/J"
        )
    lines += ["", "copies  cores  batch  in flight  inferences/s        ms  limit"]
    for row in ranking.rows[:_SHOWN]:
        setup = row.setup
        lines.append(
            f"{setup.copies:6}  {setup.cores:5}  {setup.batch:5}  {setup.in_flight:9}  "
            f"{rate_text(row.inferences_per_s):>12}  {significant(row.latency_ms, 4):>8}  "
            f"{row.limit}"
        )
    if len(ranking.rows) > _SHOWN:
        lines.append(f"... {len(ranking.rows) - _SHOWN} more with --json")
    lines += [f"unfit    {one.setup}: {one.reason}" for one in ranking.unfit[:_SHOWN]]
    return "\n".join([*lines, *(f"note     {safe_terminal(note)}" for note in search.notes)])


def setups_json(search: SetupSearch) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "model": {"file": search.file},
        "machine": {"name": search.machine.name, "cores": search.machine.cores.card_count},
        "objective": str(search.ranking.objective),
        "setups": [setup_json(row) for row in search.ranking.rows],
        "unfit": [
            {"cores": one.setup.cores, "copies": one.setup.copies, "batch": one.setup.batch,
             "reason": one.reason}
            for one in search.ranking.unfit
        ],
        "notes": list(search.notes),
    }  # fmt: skip


def setup_json(row: SetupPrediction) -> dict[str, Any]:
    setup, (low, high) = row.setup, row.interval
    return {
        "cores": setup.cores,
        "copies": setup.copies,
        "batch": setup.batch,
        "in_flight": setup.in_flight,
        "inferences_per_s": round(row.inferences_per_s, 3),
        "latency_ms": round(row.latency_ms, 6),
        "interval_ms": [round(low * row.latency_ms, 6), round(high * row.latency_ms, 6)],
        "limit": str(row.limit),
        "parts_ms": {str(limit): round(ms, 6) for limit, ms in row.parts_ms.items()},
        "ddr_bytes": round(row.ddr_bytes),
        "watts": None if row.watts is None else round(row.watts, 2),
        "inferences_per_j": row.inferences_per_j and round(row.inferences_per_j, 4),
    }
