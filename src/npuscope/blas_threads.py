"""How many threads numpy's matrix products take.

A product of a small layer is over before a second thread has begun; that thread then spins until
the next one, and where other programs use the cores the first spins too. Work that consists of many
small products is done sooner, and with a third of the processor time, on one thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

# Where wheels of numpy keep OpenBLAS, and what its functions are called there.
_FOLDERS = ("../numpy.libs", ".dylibs")
_NAMES = tuple(
    f"{library}_{{}}_num_threads{ending}"
    for library in ("scipy_openblas", "openblas")
    for ending in ("64_", "")
)


class _Threads(NamedTuple):
    get: ctypes._NamedFuncPointer
    set: ctypes._NamedFuncPointer


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, products take one thread; where another library computes them, nothing changes."""
    threads = _threads()
    if threads is None:
        yield
        return
    before = int(threads.get())
    threads.set(1)
    try:
        yield
    finally:
        threads.set(before)


@cache
def _threads() -> _Threads | None:
    import numpy as np

    here = Path(np.__file__).parent
    paths = [path for folder in _FOLDERS for path in (here / folder).glob("*openblas*")]
    for path in paths:
        library = ctypes.CDLL(str(path))  # loaded by numpy already: the same one
        for name in _NAMES:
            ends = [getattr(library, name.format(what), None) for what in ("get", "set")]
            if ends[0] is not None and ends[1] is not None:
                return _Threads(ends[0], ends[1])
    return None
