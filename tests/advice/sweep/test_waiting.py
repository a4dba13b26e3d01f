"""Who gets which run: workers stay with their model, and no run kills for ever."""

from __future__ import annotations

from pathlib import Path

from advice.sweep.samples import runs_of, small_sweep
from npuscope.advice.sweep.pool import Waiting


def test_workers_stay_with_their_model_and_share_the_last(tmp_path: Path) -> None:
    runs = runs_of(small_sweep(tmp_path))
    conv, dense = (run.model.sha256 for run in (runs[0], runs[-1]))
    waiting = Waiting(runs)
    first = waiting.take("", set())
    second = waiting.take("", {first.model.sha256})
    assert (first.model.sha256, second.model.sha256) == (conv, dense)
    third = waiting.take(dense, set())  # although the other comes first and is free
    assert third.model.sha256 == dense
    fourth = waiting.take(dense, {conv})  # nothing else is left
    assert fourth.model.sha256 == conv
    assert not waiting
    taken = {run.key for run in (first, second, third, fourth)}
    assert taken == {run.key for run in runs}


def test_a_run_is_given_out_again_once(tmp_path: Path) -> None:
    first, *rest = runs_of(small_sweep(tmp_path))
    waiting = Waiting([first, *rest])
    assert waiting.take("", set()) is first
    assert waiting.put_back(first)
    assert waiting.take("", set()) is first
    assert not waiting.put_back(first)
    assert [waiting.take("", set()) for _ in rest] == list(rest)
    assert not waiting
