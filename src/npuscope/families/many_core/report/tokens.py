"""How fast a language model answers, as text and as JSON."""

from __future__ import annotations

from typing import Any

from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.setups.language import Step, TextGeneration
from npuscope.shown import Rows, ShownRecord, counted, significant
from npuscope.text import safe_terminal

SCHEMA = "npuscope/tokens/1"


class TokenRates(ShownRecord, frozen=True):
    """`slow` is the same with the lowest clock that was seen under load."""

    file: str
    machine: CoreMachine
    usual: TextGeneration
    slow: TextGeneration
    fast: TextGeneration

    @property
    def tokens_per_s(self) -> float:
        return self.usual.tokens_per_s

    @property
    def first_token_ms(self) -> float:
        return self.usual.first_token_ms

    def told(self) -> str:
        first, rate = significant(self.first_token_ms, 4), significant(self.tokens_per_s, 4)
        return f"{first} ms to the first token, {rate} tokens/s"

    def table(self) -> Rows:
        rows = {"usual": self.usual, "slow": self.slow, "fast": self.fast}
        return [
            {"clock": name, "first_token_ms": row.first_token_ms, "tokens_per_s": row.tokens_per_s}
            for name, row in rows.items()
        ]


def tokens_text(rates: TokenRates) -> str:
    usual, slow, fast, sizes = rates.usual, rates.slow, rates.fast, rates.usual.sizes
    precision = "MXFP6 weights" if sizes.mxfp6 else "weights as in the file, floats with 16 bits"
    cores = f"{counted(sizes.devices, 'device')} of {counted(sizes.cores, 'core')}"
    mhz = rates.machine.clocks.core_mhz, min(rates.machine.clocks.load_mhz)
    lines = [
        rates.told(),
        f"model    {safe_terminal(rates.file)}: {precision}",
        f"machine  {rates.machine.name}, {cores}, batch {sizes.batch}, context {sizes.context}",
        f"range    {significant(fast.first_token_ms, 4)} to "
        f"{significant(slow.first_token_ms, 4)} ms, "
        f"{significant(slow.tokens_per_s, 4)} to {significant(fast.tokens_per_s, 4)} tokens/s "
        f"({mhz[0]:g} to {mhz[1]:g} MHz)",
        "",
        "step      tokens        ms  limit",
    ]
    for name, step in (("prefill", usual.prefill), ("decode", usual.decode)):
        lines.append(
            f"{name:8}  {step.tokens:6}  {significant(step.ms, 4):>8}  {step.timing.limit}"
        )
    return "\n".join(lines)


def tokens_json(rates: TokenRates) -> dict[str, Any]:
    usual, slow, fast, sizes = rates.usual, rates.slow, rates.fast, rates.usual.sizes
    return {
        "schema": SCHEMA,
        "model": {"file": rates.file},
        "machine": {"name": rates.machine.name, "cores": sizes.cores, "devices": sizes.devices},
        "prompt": sizes.prompt,
        "context": sizes.context,
        "batch": sizes.batch,
        "mxfp6": sizes.mxfp6,
        "first_token_ms": round(usual.first_token_ms, 3),
        "first_token_interval_ms": [round(one.first_token_ms, 3) for one in (fast, slow)],
        "tokens_per_s": round(usual.tokens_per_s, 4),
        "tokens_per_s_interval": [round(one.tokens_per_s, 4) for one in (slow, fast)],
        "steps": {"prefill": _step(usual.prefill), "decode": _step(usual.decode)},
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "tokens": step.tokens,
        "ms": round(step.ms, 4),
        "limit": str(step.timing.limit),
        "parts_ms": {str(limit): round(ms, 4) for limit, ms in step.timing.parts_ms.items()},
        "ddr_bytes": round(step.timing.ddr_bytes),
    }
