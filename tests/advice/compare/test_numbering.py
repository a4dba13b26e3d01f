"""Ops without names of their own are found again behind an edit that shifts their numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

import npuscope
from models import Net, save, to_tflite
from npuscope.advice.compare.model import Comparison


def network(*, longer: bool) -> bytes:
    """Three layers with an epoch each; the longer one has a softmax behind the first."""
    net = Net((1, 16, 16, 8))
    net.conv(8)
    if longer:
        net.softmax()
    net.conv(16)
    net.conv(8, kernel=1)
    return to_tflite(net)


@pytest.fixture
def short(tmp_path: Path) -> Path:
    return save(tmp_path, "short.tflite", network(longer=False))


@pytest.fixture
def long(tmp_path: Path) -> Path:
    return save(tmp_path, "long.tflite", network(longer=True))


def kept(file: Path) -> Path:
    npuscope.profile(file, save=file.with_suffix(".json"))
    return file.with_suffix(".json")


def one_sided(comparison: Comparison) -> list[tuple[str, ...]]:
    return [row.ops for row in comparison.rows if not (row.a and row.b)]


def test_an_op_more_is_the_only_new_one(short: Path, long: Path) -> None:
    comparison = npuscope.compare(short, long)
    assert one_sided(comparison) == [("SOFTMAX:#1 (new)",)]
    layers = {row.ops: (row.a_ms, row.b_ms) for row in comparison.rows if row.a and row.b}
    assert layers[("CONV_2D:#1",)] == pytest.approx(layers[("CONV_2D:#1",)][::-1])
    assert ("CONV_2D:#2",) in layers


def test_an_op_less_is_the_only_one_removed(short: Path, long: Path) -> None:
    assert one_sided(npuscope.compare(long, short)) == [("SOFTMAX:#1",)]


def test_kept_runs_know_the_kinds_of_their_ops(short: Path, long: Path) -> None:
    assert one_sided(npuscope.compare(kept(short), kept(long))) == [("SOFTMAX:#1 (new)",)]
    assert one_sided(npuscope.compare(short, kept(long))) == [("SOFTMAX:#1 (new)",)]


def test_another_input_size_is_the_same_network(tmp_path: Path) -> None:
    sizes = [Net((1, size, size, 8)) for size in (16, 24)]
    for net in sizes:
        net.conv(8)
        net.conv(16, stride=2)
    small, large = (save(tmp_path, f"{n}.tflite", to_tflite(net)) for n, net in enumerate(sizes))
    assert one_sided(npuscope.compare(small, large)) == []


def test_kinds_in_a_row_are_joined_as_far_as_possible() -> None:
    """C C C is within C D C C: nothing of it is missing."""
    from npuscope.advice.compare.numbering import _common

    c, d = ("c",), ("d",)
    assert sorted(_common([c, c, c], [c, d, c, c])) == [(0, 0), (1, 2), (2, 3)]
