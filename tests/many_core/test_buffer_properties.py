"""Any counts: what is written into a stats buffer is read from it, and added up."""

from __future__ import annotations

import contextlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from many_core import samples
from npuscope.errors import FileError
from npuscope.families.many_core.buffer import read_buffer, write_buffer
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.records import SectionId
from npuscope.structs import replace

LAYOUT = samples.layout()
STATS = samples.stats(LAYOUT)
DATA = write_buffer(STATS)
COUNTS = st.integers(0, (1 << 53) - 1)  # larger ones are dropped, and that is told


def with_counts(section: SectionId, names: tuple[str, ...], counts: list[int]) -> Stats:
    rows = STATS.of(section).copy()
    for at, count in enumerate(counts):
        rows[names[at % len(names)]][at // len(names) % len(rows)] = count
    return samples.with_rows(STATS, section, rows)


@given(
    st.sampled_from(
        [
            (SectionId.DDR_CORE, ("rd_bytes", "wr_bytes", "mc_rd_bytes", "mc_wr_bytes")),
            (SectionId.PMU_THREAD, tuple(f"count{i}" for i in range(6))),
        ]
    ),
    st.lists(COUNTS, max_size=20),
)
def test_counts_come_back(where: tuple[SectionId, tuple[str, ...]], counts: list[int]) -> None:
    sent = with_counts(*where, counts)
    found = read_buffer(write_buffer(sent), LAYOUT, sent.name)
    assert replace(found, sections={}) == replace(sent, sections={})
    for key in sent.sections:
        assert np.array_equal(found.of(key), sent.of(key)), key


@given(st.sets(st.sampled_from(list(STATS.sections)), min_size=1))
def test_any_choice_of_sections_comes_back(keys: set[SectionId]) -> None:
    kept = {key: rows for key, rows in STATS.sections.items() if key in keys}
    found = read_buffer(write_buffer(replace(STATS, sections=kept)), LAYOUT, STATS.name)
    # A section that is absent was not collected; an empty one was, and held nothing.
    assert {key for key in found.sections if len(found.of(key))} == {
        key for key, rows in kept.items() if len(rows)
    }


@settings(max_examples=60)
@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_one_other_byte_is_an_error_or_told(at: int, change: int) -> None:
    """Every byte of a section is under its CRC: damage cannot pass as figures."""
    damaged = bytearray(DATA)
    damaged[at] ^= change
    with contextlib.suppress(FileError):
        found = read_buffer(bytes(damaged), LAYOUT, STATS.name, ignore_uuid=True)
        for key, rows in found.sections.items():
            assert np.array_equal(rows, STATS.of(key)) or found.notes, key
