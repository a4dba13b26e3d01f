"""Pool and machine files of real projects, where a folder of them is at hand.

NPUSCOPE_ARTEFACTS names the folder; without it these tests are skipped.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from npuscope.machine.load import load_machine
from npuscope.machine.mpool import apply_mpool
from npuscope.machine.vendor_options import apply_mdesc, read_mdesc

FOLDER = Path(os.environ.get("NPUSCOPE_ARTEFACTS", "no-such-folder"))
MPOOLS = sorted(FOLDER.rglob("*.mpool"))
MDESCS = sorted(FOLDER.rglob("*.mdesc"))
MACHINE = load_machine()


@pytest.mark.skipif(not MPOOLS, reason="no vendor pool files here")
@pytest.mark.parametrize("path", MPOOLS, ids=lambda path: path.name)
def test_pools_agree_with_our_machine(path: Path) -> None:
    own = {pool.name: pool for pool in MACHINE.pools}
    for pool in apply_mpool(MACHINE, path).pools:
        if pool.name not in own:
            continue
        # Place, size and use are the user's choice, power varies; how it is reached does not.
        for key in ("file", "byte_width", "path", "score", "writable"):
            assert getattr(pool, key) == getattr(own[pool.name], key)
        assert pool.freq_ratio in (own[pool.name].freq_ratio, 1.11)


@pytest.mark.skipif(not MDESCS, reason="no vendor machine files here")
@pytest.mark.parametrize("path", MDESCS, ids=lambda path: path.name)
def test_units_agree_with_our_machine(path: Path) -> None:
    assert apply_mdesc(MACHINE, path) == MACHINE
    assert read_mdesc(path).engines_by_port == (5, 5)
