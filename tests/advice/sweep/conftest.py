"""Fixtures for sweeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from advice.sweep.processes import Drivers
from npuscope.advice.sweep import one_run


@pytest.fixture(autouse=True)
def nothing_compiled() -> None:
    """A worker begins without programs."""
    one_run._compiled.clear()


@pytest.fixture
def drivers() -> Iterator[Drivers]:
    found = Drivers()
    yield found
    for process in found.processes:
        process.kill()
        process.wait()
