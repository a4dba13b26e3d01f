"""Rules: may this op use this unit, and if not, why."""

from npuscope.rules import conv, moves, operands, pool, software
from npuscope.rules.registry import RULES, Refusal, refusals

__all__ = ["RULES", "Refusal", "conv", "moves", "operands", "pool", "refusals", "software"]
