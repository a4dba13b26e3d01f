"""The same runs on the workers of a dask cluster: JSON to one function, models as bytes.

Every run is meant for one worker, which gets its next when the row is on disk. So at most one
run a worker is under way, and the driver knows which when a worker goes.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from npuscope.advice.sweep.answers import Keep, answer_of, deadly_row, overdue_row
from npuscope.advice.sweep.cluster_client import connected
from npuscope.advice.sweep.key import versions
from npuscope.advice.sweep.one_run import failed_row, run_json
from npuscope.advice.sweep.options import SweepOptions
from npuscope.advice.sweep.runs import Run
from npuscope.advice.sweep.waiting import Waiting
from npuscope.edits import whole_bytes
from npuscope.errors import DeviceError, NpuscopeError

if TYPE_CHECKING:
    from distributed import Client

_TICK_S = 0.25  # how late a lost worker, a new one or a time limit may be noticed
_FETCH_S = 5.0  # for a row that is done to arrive
_PATIENCE_S = 60.0  # with a scheduler that has no workers
_GO_ON = "start the sweep again: it goes on"


def run_on_cluster(runs: Sequence[Run], options: SweepOptions, keep: Keep) -> None:
    """Do all runs; `keep` gets the row of each."""
    with connected(options) as client:
        cluster = _Cluster(client, runs, options.timeout_s, keep)
        while cluster.is_busy:
            cluster.step()


@dataclass(frozen=True, slots=True)
class _Begun:
    """What a worker is busy with; without a run it is something that no row comes of."""

    future: Any
    since: float
    run: Run | None = None


class _Cluster:
    def __init__(
        self, client: Client, runs: Sequence[Run], timeout_s: float | None, keep: Keep
    ) -> None:
        self._client = client
        self._waiting = Waiting(runs)
        self._timeout_s = timeout_s
        self._keep = keep
        self._begun: dict[str, _Begun] = {}  # by the worker's address
        self._last_model: dict[str, str] = {}  # of workers whose versions are ours
        self._alone_since = time.monotonic()
        self._tasks = 0

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting) or any(begun.run for begun in self._begun.values())

    def step(self) -> None:
        """Look at everything once, then wait for somebody to be done."""
        present = self._workers()
        self._drop_lost(present)
        self._end_overdue()
        for address in sorted(present - self._begun.keys()):
            self._give_next(address)
        self._wait()
        for address, begun in list(self._begun.items()):
            if begun.future.done():
                self._hear(address, self._begun.pop(address))

    def _workers(self) -> set[str]:
        """Addresses of those that are there now."""
        try:
            present = set(self._client.nthreads())
        except (OSError, CancelledError):
            raise DeviceError("the scheduler is gone", hint=_GO_ON) from None
        now = time.monotonic()
        if present:
            self._alone_since = now
        elif now - self._alone_since > _PATIENCE_S:
            raise DeviceError(
                f"the scheduler has had no workers for {_PATIENCE_S:g} s", hint=_GO_ON
            )
        return present

    def _wait(self) -> None:
        from distributed import wait

        futures = [begun.future for begun in self._begun.values()]
        if not futures:
            time.sleep(_TICK_S)
            return
        # Nobody done yet, or somebody gone: the next step looks at both.
        with contextlib.suppress(TimeoutError, CancelledError):
            wait(futures, timeout=_TICK_S, return_when="FIRST_COMPLETED")

    # Giving work.

    def _give_next(self, address: str) -> None:
        if address not in self._last_model:
            self._submit(address, json.dumps({"versions": versions()}))
        elif self._waiting:
            others = {begun.run.model.sha256 for begun in self._begun.values() if begun.run}
            run = self._waiting.take(self._last_model[address], others)
            self._send(address, run, with_model=self._last_model[address] != run.model.sha256)

    def _send(self, address: str, run: Run, *, with_model: bool) -> None:
        """The model travels along when the worker had another before."""
        try:
            data = whole_bytes(run.model.path) if with_model else None
        except NpuscopeError as error:  # gone since the sweep began
            self._keep(failed_row(run.head(), error))
            return
        self._last_model[address] = run.model.sha256
        self._submit(address, run.task(with_path=False), data, run)

    def _submit(
        self, address: str, task: str, model: bytes | None = None, run: Run | None = None
    ) -> None:
        self._tasks += 1
        name = run.key if run else "versions"
        future = self._client.submit(
            run_json,
            task,
            model,
            key=f"npuscope-{self._tasks}-{name}",
            workers=[address],
            allow_other_workers=False,
            pure=False,
        )
        self._begun[address] = _Begun(future, time.monotonic(), run)

    # Hearing of it.

    def _hear(self, address: str, begun: _Begun) -> None:
        if begun.future.status != "finished":
            self._fail(address, begun)
            return
        try:
            text = begun.future.result(timeout=_FETCH_S)
        except (TimeoutError, CancelledError):
            # Done, but its worker went before it told: it counts as one that is lost.
            self._begun[address] = begun
            return
        answer = answer_of(text, f"worker {address}")
        if begun.run is None:
            self._last_model.setdefault(address, "")
        elif "wanted" in answer:
            self._send(address, begun.run, with_model=True)
        else:
            self._keep(answer)

    def _fail(self, address: str, begun: _Begun) -> None:
        """The function raises nothing, so the worker or the way to it broke."""
        error = begun.future.exception() if begun.future.status == "error" else None
        if isinstance(error, ImportError):
            raise DeviceError(
                f"this worker cannot import npuscope: {error}",
                where=f"worker {address}",
                hint="install the same npuscope where the workers run",
            )
        if begun.run is None and error is not None:
            raise DeviceError(f"this worker fails: {error}", where=f"worker {address}")
        self._again(begun.run)

    def _drop_lost(self, present: set[str]) -> None:
        """Runs of workers that went are done again, but not for ever."""
        for address in self._last_model.keys() - present:
            del self._last_model[address]
        for address in list(self._begun.keys() - present):
            begun = self._begun.pop(address)
            begun.future.cancel()
            self._again(begun.run)

    def _again(self, run: Run | None) -> None:
        if run is not None and not self._waiting.put_back(run):
            self._keep(deadly_row(run, "they left the cluster"))

    def _end_overdue(self) -> None:
        limit = self._timeout_s
        for address, begun in list(self._begun.items()):
            if limit is None or begun.run is None or time.monotonic() - begun.since <= limit:
                continue
            self._keep(overdue_row(begun.run, limit))
            # Whatever comes of it now, nobody waits for it.
            self._begun[address] = replace(begun, run=None)
            self._stop(address)

    def _stop(self, address: str) -> None:
        """A thread cannot be stopped, so its process is; its keeper starts another."""
        try:
            self._client.restart_workers([address], raise_for_error=False)
        except (ValueError, TimeoutError):
            return  # nobody keeps this worker: it stays busy until it is done
        self._begun.pop(address).future.cancel()
        self._last_model.pop(address, None)
