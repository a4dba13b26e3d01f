"""What the judges say of a network."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Fault:
    judge: str
    symptom: str
    details: str = ""
    ops: str = ""
    values: tuple[str, ...] = ()  # where it shows, then what that is computed from

    @property
    def cause(self) -> str:
        return f"{self.judge}: {self.symptom}" + (f" ({self.ops})" if self.ops else "")


@dataclass(slots=True)
class Verdict:
    """What the judges say of a network; `counts` are facts that are no faults."""

    seed: int
    format: str
    nodes: int
    generation: str
    faults: list[Fault] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, judge: str, symptom: str, details: str = "", ops: str = "", *values: str) -> None:
        self.faults.append(Fault(judge, symptom, details, ops, values))
