"""Fixtures for sweeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from advice.sweep.processes import Drivers


@pytest.fixture
def drivers() -> Iterator[Drivers]:
    found = Drivers()
    yield found
    for process in found.processes:
        process.kill()
        process.wait()
