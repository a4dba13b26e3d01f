"""Runs on a cluster that is played: workers come, go, hang, and have other versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advice.sweep.samples import runs_of, small_sweep
from npuscope.advice.sweep import cluster
from npuscope.advice.sweep.cluster import _Cluster
from npuscope.advice.sweep.runs import SweepRun, versions
from npuscope.errors import DeviceError, UsageError

pytest.importorskip("distributed")


LOST = "done, but not to be had any more"


class PlayedFuture:
    """Done when its worker says so."""

    def __init__(self, answer: str | Exception | None) -> None:
        self.answer = answer
        self.status = "pending" if answer is None else "finished"
        if isinstance(answer, Exception):
            self.status = "error"

    def done(self) -> bool:
        return self.status != "pending"

    def result(self, timeout: float) -> str:
        assert isinstance(self.answer, str)
        if self.answer == LOST:
            raise TimeoutError
        return self.answer

    def exception(self) -> Exception:
        assert isinstance(self.answer, Exception)
        return self.answer

    def cancel(self) -> None:
        self.status = "cancelled"


Act = Callable[[str, dict[str, Any], bytes | None], "str | Exception | None"]


class PlayedClient:
    """A cluster of worker names; `act` answers for them."""

    def __init__(self, act: Act, *workers: str) -> None:
        self.act = act
        self.workers = list(workers)
        self.restarted: list[str] = []
        self.sent: list[tuple[str, str, bool]] = []
        self.has_keepers = True

    def nthreads(self) -> dict[str, int]:
        return dict.fromkeys(self.workers, 1)

    def submit(
        self, function: Any, task: str, model: bytes | None, *, workers: list[str], **_: Any
    ) -> PlayedFuture:
        (address,) = workers
        told = json.loads(task)
        if "head" in told:
            self.sent.append((address, told["head"]["key"], model is not None))
        return PlayedFuture(self.act(address, told, model))

    def restart_workers(self, workers: list[str], **_: Any) -> None:
        if not self.has_keepers:
            raise ValueError("no nanny")
        self.restarted += workers
        for address in workers:
            self.workers.remove(address)
            self.workers.append(f"{address}'")


def well(address: str, told: dict[str, Any], model: bytes | None) -> str:
    if "head" not in told:
        return json.dumps({"welcome": versions()})
    return json.dumps(told["head"] | {"status": "ok"})


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributed.wait", lambda *_, **__: None)
    monkeypatch.setattr(cluster, "_TICK_S", 0.0)


@pytest.fixture
def runs(tmp_path: Path) -> tuple[SweepRun, ...]:
    return runs_of(small_sweep(tmp_path))


def play(
    client: PlayedClient,
    runs: tuple[SweepRun, ...],
    timeout_s: float | None = None,
    steps: int = 60,
) -> dict[str, dict[str, Any]]:
    """All rows by key; none comes twice."""
    rows: dict[str, dict[str, Any]] = {}

    def keep(row: dict[str, Any]) -> None:
        assert row["key"] not in rows
        rows[row["key"]] = row

    played = _Cluster(client, runs, timeout_s, keep)  # type: ignore[arg-type]
    for _ in range(steps):
        if not played.is_busy:
            assert set(rows) == {run.key for run in runs}
            return rows
        played.step()
    raise AssertionError("it does not come to an end")


def test_a_model_is_sent_once_to_each_worker(runs: tuple[SweepRun, ...]) -> None:
    client = PlayedClient(well, "w1", "w2")
    rows = play(client, runs)
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert sorted(with_model for _, _, with_model in client.sent) == [False, False, True, True]


def test_a_worker_that_forgot_a_model_gets_it_again(runs: tuple[SweepRun, ...]) -> None:
    def forgetful(address: str, told: dict[str, Any], model: bytes | None) -> str:
        if "head" in told and model is None:
            return json.dumps({"wanted": told["head"]["model_sha256"]})
        return well(address, told, model)

    client = PlayedClient(forgetful, "w1")
    assert len(play(client, runs)) == 4
    assert [with_model for *_, with_model in client.sent] == [True, False, True] * 2


def test_a_worker_that_goes_costs_one_run(runs: tuple[SweepRun, ...]) -> None:
    def leaving(address: str, told: dict[str, Any], model: bytes | None) -> str | None:
        if address == "w1" and "head" in told and len(client.sent) > 1:
            client.workers = ["late"]
            return None
        return well(address, told, model)

    client = PlayedClient(leaving, "w1")
    rows = play(client, runs)
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert len(client.sent) == len(runs) + 1


def test_a_row_that_went_with_its_worker_is_done_again(runs: tuple[SweepRun, ...]) -> None:
    def losing(address: str, told: dict[str, Any], model: bytes | None) -> str:
        if address == "w1" and "head" in told:
            client.workers = ["late"]
            return LOST
        return well(address, told, model)

    client = PlayedClient(losing, "w1")
    rows = play(client, runs)
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert len(client.sent) == len(runs) + 1


def test_a_run_that_takes_two_workers_along_is_a_row(runs: tuple[SweepRun, ...]) -> None:
    deadly = runs[1]
    names = iter(["w2", "w3", "w4"])

    def dying(address: str, told: dict[str, Any], model: bytes | None) -> str | None:
        if told.get("head", {}).get("key") == deadly.key:
            client.workers = [next(names)]
            return None
        return well(address, told, model)

    client = PlayedClient(dying, "w1")
    rows = play(client, runs)
    assert rows[deadly.key]["error"]["message"] == (
        "2 workers ended during this run: they left the cluster"
    )
    assert [row["status"] for row in rows.values()].count("ok") == 3


def test_a_broken_way_to_a_worker_is_tried_twice(runs: tuple[SweepRun, ...]) -> None:
    def broken(address: str, told: dict[str, Any], model: bytes | None) -> str | Exception:
        if told.get("head", {}).get("key") == runs[0].key:
            return OSError("connection lost")
        return well(address, told, model)

    rows = play(PlayedClient(broken, "w1"), runs)
    assert [row["status"] for row in rows.values()].count("failed") == 1
    assert rows[runs[0].key]["status"] == "failed"


@pytest.mark.parametrize("has_keepers", [True, False])
def test_a_slow_run_is_a_row_and_its_process_is_replaced(
    runs: tuple[SweepRun, ...], has_keepers: bool
) -> None:
    slow = runs[2]

    def slowly(address: str, told: dict[str, Any], model: bytes | None) -> str | None:
        return None if told.get("head", {}).get("key") == slow.key else well(address, told, model)

    client = PlayedClient(slowly, "w1", "w2")
    client.has_keepers = has_keepers
    rows = play(client, runs, timeout_s=0.0001)
    assert rows[slow.key]["error"]["message"] == "not finished after 0.0001 s"
    assert [row["status"] for row in rows.values()].count("ok") == 3
    assert len(client.restarted) == has_keepers


def test_a_worker_of_another_version_ends_the_sweep_even_if_it_comes_late(
    runs: tuple[SweepRun, ...],
) -> None:
    def old(address: str, told: dict[str, Any], model: bytes | None) -> str:
        if address == "old":
            return json.dumps({"refused": {"npuscope": "0.0.1", "python": "3.9"}})
        client.workers = ["w1", "old"]
        return well(address, told, model)

    client = PlayedClient(old, "w1")
    with pytest.raises(UsageError) as caught:
        play(client, runs)
    ours = versions()
    assert str(caught.value) == (
        "worker old: this worker has npuscope 0.0.1 and python 3.9, the sweep npuscope "
        f"{ours['npuscope']} and python {ours['python']}\n"
        "  hint: install the same versions everywhere and start the sweep again: it resumes"
    )


def test_a_worker_without_npuscope(runs: tuple[SweepRun, ...]) -> None:
    client = PlayedClient(lambda *_: ModuleNotFoundError("No module named 'npuscope'"), "w1")
    with pytest.raises(DeviceError) as caught:
        play(client, runs)
    assert str(caught.value) == (
        "worker w1: this worker cannot import npuscope: No module named 'npuscope'\n"
        "  hint: install the same npuscope where the workers run"
    )


def test_a_scheduler_without_workers(
    runs: tuple[SweepRun, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE_S", -1.0)
    with pytest.raises(DeviceError, match="the scheduler has had no workers"):
        play(PlayedClient(well), runs)


def test_a_scheduler_that_goes(runs: tuple[SweepRun, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    client = PlayedClient(well, "w1")
    monkeypatch.setattr(client, "nthreads", lambda: (_ for _ in ()).throw(OSError("gone")))
    with pytest.raises(DeviceError) as caught:
        play(client, runs)
    assert str(caught.value) == (
        "the connection to the scheduler was lost\n  hint: start the sweep again: it resumes"
    )


def test_a_model_that_is_gone_is_a_row(runs: tuple[SweepRun, ...]) -> None:
    runs[0].model.path.unlink()
    rows = play(PlayedClient(well, "w1"), runs)
    lost = [row for row in rows.values() if row["status"] == "failed"]
    assert {row["model"] for row in lost} == {"conv.tflite"}
    assert lost[0]["error"]["message"] == "no such file"
