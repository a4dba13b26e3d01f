"""A dask cluster on this computer: the same rows, and nothing lost when something is killed."""

from __future__ import annotations

import logging
import os
import signal
import socket
from importlib.util import find_spec
from pathlib import Path

import pytest

from advice.sweep.processes import (
    PATIENCE_S,
    Drivers,
    children,
    has_lines,
    is_gone,
    needs_proc,
    wait_for,
)
from advice.sweep.samples import lines_of, long_sweep, plain, small_sweep
from npuscope.advice.sweep import cluster as cluster_client
from npuscope.advice.sweep.cluster import is_loopback
from npuscope.advice.sweep.drive import sweep
from npuscope.advice.sweep.options import SweepOptions, Tls
from npuscope.errors import DeviceError, FileError, UsageError

distributed = pytest.importorskip("distributed")
needs_certificates = pytest.mark.skipif(
    find_spec("cryptography") is None, reason="a local cluster needs the package cryptography"
)


@needs_certificates
def test_rows_are_the_same_as_here(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    spec = small_sweep(tmp_path)
    (tmp_path / "bad.tflite").write_bytes(b"no model")
    here = sweep(spec, tmp_path / "here.jsonl", SweepOptions(jobs=2))
    there = sweep(spec, tmp_path / "there.jsonl", SweepOptions(local_cluster=2))
    assert (there.runs, there.done, there.failed, there.new) == (6, 4, 2, 6)
    assert [plain(row) for row in there.rows] == [plain(row) for row in here.rows]
    said = capfd.readouterr()
    assert said.out == said.err == ""


def test_a_scheduler_that_runs_already(tmp_path: Path) -> None:
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
    ) as own:
        options = SweepOptions(scheduler=own.scheduler_address)
        found = sweep(small_sweep(tmp_path), options=options)
        assert (found.done, found.failed) == (4, 0)
        assert len(own.scheduler.workers) == 1  # it is not ours to end


@needs_proc
@needs_certificates
def test_killing_a_worker_and_the_driver_loses_nothing(tmp_path: Path, drivers: Drivers) -> None:
    spec = long_sweep(tmp_path, steps=40)
    store = tmp_path / "sweep.jsonl"
    driver = drivers.start(spec, "--local-cluster", "2")
    wait_for(lambda: has_lines(store, 20))
    os.kill(children(driver.pid)[0], signal.SIGKILL)
    wait_for(lambda: has_lines(store, 80))
    workers = wait_for(lambda: children(driver.pid))
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    wait_for(lambda: all(map(is_gone, workers)))
    before = len(lines_of_whole(store))
    assert drivers.start(spec, "--local-cluster", "2").wait(PATIENCE_S) == 0
    rows = lines_of(store)
    assert len(rows) == len({row["key"] for row in rows}) == 160
    assert {row["status"] for row in rows} == {"ok"}
    assert before >= 80


@needs_certificates
def test_a_client_without_the_certificate_is_refused() -> None:
    """Whoever reaches a scheduler can run code in it: nobody but us may."""
    options = SweepOptions(local_cluster=1)
    with cluster_client.connected(options) as ours:
        info = ours.scheduler_info()
        addresses = [info["address"], *info["workers"]]
        assert all(address.startswith("tls://127.0.0.1:") for address in addresses)
        for address in addresses:
            for theirs, security in (
                (address, distributed.security.Security.temporary()),
                (address.replace("tls://", "tcp://"), None),
            ):
                with pytest.raises((OSError, TypeError, RuntimeError)):
                    distributed.Client(theirs, timeout=2, security=security)
        assert ours.submit(int, "7").result(timeout=PATIENCE_S) == 7


def lines_of_whole(store: Path) -> list[bytes]:
    return store.read_bytes().split(b"\n")[:-1]


def test_nobody_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_client, "_CONNECT_S", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(DeviceError) as caught:
            sweep(small_sweep(tmp_path), options=SweepOptions(scheduler=address))
    assert caught.value.where == address
    assert caught.value.message.startswith("no scheduler answers: ")


def test_certificates_that_cannot_be_read(tmp_path: Path) -> None:
    tls = Tls(str(tmp_path / "ca"), "cert", "key")
    options = SweepOptions(scheduler="tls://127.0.0.1:1", tls=tls)
    with pytest.raises(FileError, match="cannot be read: No such file"):
        sweep(small_sweep(tmp_path), options=options)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("tcp://127.0.0.1:8786", True),
        ("tcp://localhost:8786", True),
        ("tcp://[::1]:8786", True),
        ("tcp://192.168.1.2:8786", False),
        ("tcp://cluster.example:8786", False),
        ("tcp://", False),
    ],
)
def test_only_loopback_is_private(address: str, said: bool) -> None:
    assert is_loopback(address) is said


def test_a_line_that_can_be_listened_to_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("not here")

    monkeypatch.setattr(distributed, "Client", refuse)
    with pytest.raises(DeviceError):
        sweep(small_sweep(tmp_path), options=SweepOptions(scheduler="tcp://10.0.0.1:8786"))
    assert caplog.messages == [
        "tcp://10.0.0.1:8786 is not encrypted: models and results can be read in transit, and "
        "anyone who reaches the scheduler can run code on its workers; use tls://"
    ]


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("distributed", "clusters need the package distributed"),
        ("cryptography", "--local-cluster: it needs the package cryptography, to keep others out"),
        ("bokeh", "--dashboard: it needs the package bokeh\n  hint: pip install bokeh"),
    ],
)
def test_packages_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, said: str
) -> None:
    real = cluster_client.find_spec
    there = ("cryptography", "bokeh")
    monkeypatch.setattr(
        cluster_client,
        "find_spec",
        lambda name: None if name == package else real("json" if name in there else name),
    )
    with pytest.raises(UsageError) as caught:
        options = SweepOptions(local_cluster=1, dashboard=True)
        sweep(small_sweep(tmp_path), options=options)
    assert said in str(caught.value)
