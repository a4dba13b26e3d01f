"""The ops of a network as columns, found by core and number, with the label tables group by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from npuscope.manycore import buffer_ops
from npuscope.manycore.layout import CoreOpInfo, Engine, Layout, MemorySpace, Specialization

_OC_BITS = 32


@dataclass(frozen=True, slots=True)
class OpLabel:
    """What rows of the op table have in common."""

    kind: str
    engine: Engine
    memory: MemorySpace
    dtypes: tuple[str, ...]

    def __str__(self) -> str:
        types = f" ({', '.join(self.dtypes)})" if self.dtypes else ""
        return f"{self.kind} {self.engine.value} {self.memory.value}{types}"


@dataclass(frozen=True, slots=True)
class OpIndex:
    """One row an op of any core; `label`, `engine` and `group` are numbers of their tables."""

    infos: tuple[CoreOpInfo, ...]
    labels: tuple[OpLabel, ...]
    core: np.ndarray
    group: np.ndarray
    label: np.ndarray
    engine: np.ndarray  # position in ENGINES
    out_bytes: np.ndarray
    asynchronous: np.ndarray
    places: buffer_ops.OpIndex  # the same ops in the same order

    def rows(self, core: np.ndarray, oc: np.ndarray) -> np.ndarray:
        """The row of each op; -1 for one that the program does not have."""
        return self.places.find(core, oc)


ENGINES = tuple(Engine)


def op_index(layout: Layout, specialization: int) -> OpIndex:
    """Columns of one network of the program."""
    placed = list(_placed(layout.specializations[specialization]))
    engines = [_engine(layout, group) for group in range(len(layout.groups))]
    numbers: dict[OpLabel, int] = {}
    label = [
        numbers.setdefault(_label(info, engines[group]), len(numbers)) for _, group, info in placed
    ]
    core = _column(core for core, _, _ in placed)
    group = _column(group for _, group, _ in placed)
    return OpIndex(
        infos=tuple(info for _, _, info in placed),
        labels=tuple(numbers),
        core=core,
        group=group,
        label=np.array(label, np.int64),
        engine=np.array([ENGINES.index(engine) for engine in engines], np.int64)[group],
        out_bytes=_column(info.out_bytes for _, _, info in placed),
        asynchronous=np.array([info.asynchronous for _, _, info in placed], bool),
        places=buffer_ops.op_index(layout, specialization),
    )


def _placed(network: Specialization) -> Iterator[tuple[int, int, CoreOpInfo]]:
    for core, groups in enumerate(network.ops):
        for group, ops in enumerate(groups):
            for info in ops:
                yield core, group, info


def _engine(layout: Layout, group: int) -> Engine:
    """Threads of a group drive the same engine."""
    by_id = {thread.id: thread.engine for thread in layout.threads}
    return by_id[layout.groups[group].threads[0]]


def _label(info: CoreOpInfo, engine: Engine) -> OpLabel:
    return OpLabel(info.kind, engine, info.memory, info.dtypes)


def _column(values: Iterator[int]) -> np.ndarray:
    return np.fromiter(values, np.int64)


def op_key(core: np.ndarray, oc: np.ndarray) -> np.ndarray:
    """Core and oc in one number."""
    return (core.astype(np.int64) << _OC_BITS) | oc.astype(np.int64)
