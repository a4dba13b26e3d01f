"""Which ops a program has, for looking up many records at once."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import chain

import numpy as np

from npuscope.manycore.layout import CoreOpInfo, Layout

# A table by (core, oc) may be this much larger than the number of ops; numbers that lie wider
# apart are searched for.
_SPARSE = 16


@dataclass(frozen=True, slots=True, eq=False)
class OpIndex:
    """Ops of one device by (core, oc); positions are those in `ops`."""

    layout: Layout
    ops: tuple[CoreOpInfo, ...]
    cores: np.ndarray
    numbers: np.ndarray  # their oc
    threads: np.ndarray  # number of a thread -> its position in the layout, -1 where none
    kinds: tuple[str, ...]
    kind_of: np.ndarray  # position -> index in kinds
    width: int  # numbers a core; 0 where they are searched for
    _table: np.ndarray  # position by core * width + oc, or sorted (core << 32 | oc)
    _order: np.ndarray

    @classmethod
    def of(cls, layout: Layout, specialization: int) -> OpIndex:
        table = layout.specializations[specialization].ops
        ops = tuple(chain.from_iterable(chain.from_iterable(table)))
        sizes = [sum(map(len, groups)) for groups in table]
        cores = np.repeat(np.arange(len(table)), sizes)
        numbers = np.fromiter((op.oc for op in ops), np.int64, len(ops))
        kinds = tuple(dict.fromkeys(op.kind for op in ops))
        place = {kind: i for i, kind in enumerate(kinds)}
        width = _width(numbers, layout.cores)
        lookup, order = _lookup(cores, numbers, width, layout.cores)
        return cls(
            layout=layout,
            ops=ops,
            cores=cores,
            numbers=numbers,
            threads=_threads(layout),
            kinds=kinds,
            kind_of=np.fromiter((place[op.kind] for op in ops), np.int64, len(ops)),
            width=width,
            _table=lookup,
            _order=order,
        )

    def find(self, core: np.ndarray, oc: np.ndarray) -> np.ndarray:
        """The position of each op, -1 where there is none."""
        if not len(self.ops):
            return np.full(len(core), -1)
        if not self.width:
            return self._search(core, oc)
        place = core.astype(np.int64) * self.width + oc
        outside = (core >= self.layout.cores) | (oc >= self.width)
        none_outside = not outside.any()
        if not none_outside:
            place[outside] = 0
        found: np.ndarray = self._table[place]
        return found if none_outside else np.where(outside, -1, found)

    def _search(self, core: np.ndarray, oc: np.ndarray) -> np.ndarray:
        keys = core.astype(np.int64) << 32 | oc
        place = np.minimum(np.searchsorted(self._table, keys), len(self._table) - 1)
        return np.where(self._table[place] == keys, self._order[place], -1)

    def known_number(self, oc: np.ndarray) -> np.ndarray:
        """Whether some core has an op of that number."""
        return np.isin(oc.astype(np.int64), self.numbers)


# Buffers of one program are read one after the other; large programs have 10^5 ops.
_RECENT: deque[tuple[int, OpIndex]] = deque(maxlen=4)


def op_index(layout: Layout, specialization: int) -> OpIndex:
    """The index of a program's ops; made once for the buffers that follow one another."""
    for number, index in tuple(_RECENT):
        if number == specialization and index.layout is layout:
            return index
    made = OpIndex.of(layout, specialization)
    _RECENT.append((specialization, made))
    return made


def _threads(layout: Layout) -> np.ndarray:
    table = np.full(1 << 16, -1, np.int64)
    table[[thread.id for thread in layout.threads]] = np.arange(len(layout.threads))
    return table


def _width(numbers: np.ndarray, cores: int) -> int:
    width = int(numbers.max()) + 1 if len(numbers) else 0
    return width if width * cores <= _SPARSE * len(numbers) + 4096 else 0


def _lookup(
    cores: np.ndarray, numbers: np.ndarray, width: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    if not width:
        keys = cores << 32 | numbers
        order = np.argsort(keys, kind="stable")
        return keys[order], order
    table = np.full(count * width, -1, np.int64)
    table[cores * width + numbers] = np.arange(len(numbers))
    return table, np.zeros(0, np.int64)
