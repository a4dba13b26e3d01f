"""Who gets which run: workers stay with their model, and no run kills for ever."""

from __future__ import annotations

from pathlib import Path

from advice.sweep.samples import long_sweep, runs_of, small_sweep
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


def test_runs_that_ask_the_same_go_together_but_not_all(tmp_path: Path) -> None:
    runs = runs_of(long_sweep(tmp_path, steps=10))
    waiting = Waiting(runs)
    first = waiting.take("", set())
    more = waiting.take_more(first, most=64, workers=2)
    assert [first, *more] == list(runs[: 1 + 19 // 4])  # 19 of its model are left
    assert waiting.take_more(first, most=2, workers=1) == [runs[1 + len(more)]]


def test_runs_of_a_worker_that_died_are_given_out_one_by_one(tmp_path: Path) -> None:
    runs = runs_of(long_sweep(tmp_path, steps=10))
    waiting = Waiting(runs)
    first = waiting.take("", set())
    together = [first, *waiting.take_more(first, most=3, workers=1)]
    waiting.put_back_all(together)
    for run in together:
        assert waiting.take(run.model.sha256, set()) is run
        assert waiting.take_more(run, most=64, workers=1) == []
