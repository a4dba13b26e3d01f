"""One stats buffer, decoded: who wrote it, and its records as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from npuscope.manycore.layout import Layout, Specialization
from npuscope.manycore.records import SECTIONS, SectionId

Records = np.ndarray  # structured, with the dtype of its section


@dataclass(frozen=True, slots=True)
class Stats:
    """Records of one inference on one device. A section that is absent was not collected."""

    layout: Layout
    name: str  # of the file, without its ending
    level: int
    device: int
    specialization: int
    inference: int
    utc_ns: int  # of timer tick 0; 0 where unknown
    sections: Mapping[SectionId, Records] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what was dropped or odd

    def of(self, section: SectionId) -> Records:
        """The records; none where the section is absent."""
        found = self.sections.get(section)
        return found if found is not None else np.zeros(0, SECTIONS[section].dtype)

    def has(self, section: SectionId) -> bool:
        return section in self.sections

    @property
    def network(self) -> Specialization:
        return self.layout.specializations[self.specialization]
