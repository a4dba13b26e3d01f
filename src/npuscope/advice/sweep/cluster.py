"""The same runs on the workers of a dask cluster: JSON to one function, models as bytes.

Every run is meant for one worker, which gets its next when the row is on disk. So each
worker has at most one run in progress, and the driver knows which one when a worker leaves."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

import npuscope.child as child
from npuscope.advice.sweep.one_run import failed_row, run_json
from npuscope.advice.sweep.options import SweepOptions, Tls
from npuscope.advice.sweep.pool import Keep, Waiting, answer_of, deadly_row, overdue_row
from npuscope.advice.sweep.runs import SweepRun, versions
from npuscope.bounded_file import read_head
from npuscope.edits import whole_bytes
from npuscope.errors import DeviceError, FileError, NpuscopeError, UsageError
from npuscope.structs import replace

if TYPE_CHECKING:
    from distributed import Client


# --- Connecting to a dask cluster: a running one, or a local one ---

log = logging.getLogger(__name__)

_CONNECT_S = 10  # for a scheduler to answer
_TALKERS = ("distributed", "tornado", "asyncio")
_SILENT = logging.CRITICAL + 1
_DASHBOARD = "127.0.0.1:8787"
_CONFIG: dict[str, Any] = {
    # A run that lost its worker is given out again by us, with a count of its own.
    "distributed.scheduler.allowed-failures": 1,
    "distributed.worker.preload": ["npuscope.advice.sweep.cluster_worker"],
}
_WITHOUT_PAGES: dict[str, Any] = {
    # Pages about health and metrics, which would listen although the dashboard is off.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


@contextmanager
def connected(options: SweepOptions) -> Iterator[Client]:
    """A client of the cluster that the options name; a cluster of our own ends with it."""
    if find_spec("distributed") is None:
        raise UsageError(
            "clusters need the package distributed",
            where="--scheduler, --local-cluster",
            hint="pip install 'npuscope[sweep]'",
        )
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        if options.scheduler is not None:
            client = _client(options.scheduler, options.tls)
        else:
            client = _own(stack, options)
        stack.callback(client.close)
        stack.enter_context(client.as_current())
        yield client


def is_loopback(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _client(address: str, tls: Tls | None) -> Client:
    from distributed import Client

    if tls is None and not is_loopback(address):
        log.warning(
            "%s is not encrypted: models and results can be read in transit, and anyone who "
            "reaches the scheduler can run code on its workers; use tls://",
            address,
        )
    try:
        return Client(address, timeout=_CONNECT_S, set_as_default=False, security=_security(tls))
    except (OSError, ValueError) as error:  # also a refused certificate, or no address at all
        raise DeviceError(
            f"no scheduler answers: {error}",
            where=address,
            hint="start one with `dask scheduler` and workers with `dask worker ADDRESS`",
        ) from None


def _security(tls: Tls | None) -> Any:
    if tls is None:
        return None
    from distributed.security import Security

    for name, file in (("ca", tls.ca), ("cert", tls.cert), ("key", tls.key)):
        try:
            read_head(file, 1)
        except FileError as error:
            raise FileError(error.message, where=f"--tls-{name} {file}") from None
    return Security(
        tls_ca_file=tls.ca,
        tls_client_cert=tls.cert,
        tls_client_key=tls.key,
        require_encryption=True,
    )


def _own(stack: ExitStack, options: SweepOptions) -> Client:
    """Processes of one thread each; everything listens on the loopback interface alone.

    Whoever reaches a scheduler can run code in it, and every process of this computer reaches the
    loopback interface: so all sides have to show a certificate that lives as long as the cluster.
    """
    import dask.config
    from distributed import Client, LocalCluster
    from distributed.security import Security

    if find_spec("cryptography") is None:
        raise UsageError(
            "it needs the package cryptography, to keep others out of the cluster",
            where="--local-cluster",
            hint="pip install 'npuscope[sweep]'",
        )
    if options.dashboard and find_spec("bokeh") is None:
        raise UsageError(
            "it needs the package bokeh", where="--dashboard", hint="pip install bokeh"
        )
    stack.enter_context(dask.config.set(_CONFIG if options.dashboard else _CONFIG | _WITHOUT_PAGES))
    # As long as the cluster lives: workers that died are replaced.
    stack.enter_context(child.safe_spawning())
    cluster = LocalCluster(
        n_workers=options.local_cluster,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        protocol="tls://",
        security=Security.temporary(),
        dashboard_address=_DASHBOARD if options.dashboard else "127.0.0.1:0",
        scheduler_kwargs={"dashboard": options.dashboard},
        worker_dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )
    stack.callback(cluster.close)
    if options.dashboard:
        log.warning("dashboard: %s", cluster.dashboard_link)
    return Client(cluster, set_as_default=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences the cluster's messages about workers that come and go; rows hold what matters."""
    import distributed  # noqa: F401 - it sets the levels of its loggers when it is loaded

    names = [name for name in logging.root.manager.loggerDict if name.startswith(_TALKERS)]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(_SILENT)
    try:
        with warnings.catch_warnings():
            # A model is a large argument, and is meant to be.
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


_TICK_S = 0.25  # how late a lost worker, a new one or a time limit may be noticed
_FETCH_S = 5.0  # for a row that is done to arrive
_PATIENCE_S = 60.0  # with a scheduler that has no workers
_GO_ON = "start the sweep again: it resumes"


def run_on_cluster(runs: Sequence[SweepRun], options: SweepOptions, keep: Keep) -> None:
    """Do all runs; `keep` gets the row of each."""
    with connected(options) as client:
        cluster = _Cluster(client, runs, options.timeout_s, keep)
        while cluster.is_busy:
            cluster.step()


class _Begun(Struct, frozen=True):
    """What a worker is busy with; without a run it is something that no row comes of."""

    future: Any
    since: float
    run: SweepRun | None = None


class _Cluster:
    def __init__(
        self, client: Client, runs: Sequence[SweepRun], timeout_s: float | None, keep: Keep
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
        """Look at everything once, then wait until a run is done."""
        present = self._workers()
        self._drop_lost(present)
        self._end_overdue()
        for address in sorted(present - self._begun.keys()):
            if address not in self._last_model:
                self._submit(address, json.dumps({"versions": versions()}))
            elif self._waiting:
                others = {begun.run.model.sha256 for begun in self._begun.values() if begun.run}
                run = self._waiting.take(self._last_model[address], others)
                self._send(address, run, with_model=self._last_model[address] != run.model.sha256)
        self._wait()
        for address, begun in list(self._begun.items()):
            if begun.future.done():
                self._hear(address, self._begun.pop(address))

    def _workers(self) -> set[str]:
        """Addresses of the workers that are connected now."""
        try:
            present = set(self._client.nthreads())
        except (OSError, CancelledError):
            raise DeviceError("the connection to the scheduler was lost", hint=_GO_ON) from None
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
        # No run is done yet, or a worker is gone: the next step handles both.
        with contextlib.suppress(TimeoutError, CancelledError):
            wait(futures, timeout=_TICK_S, return_when="FIRST_COMPLETED")

    # --- Handing out runs ---

    def _send(self, address: str, run: SweepRun, *, with_model: bool) -> None:
        """The model travels along when the worker had another before."""
        try:
            data = whole_bytes(run.model.path) if with_model else None
        except NpuscopeError as error:  # gone since the sweep began
            self._keep(failed_row(run.head(), error))
            return
        self._last_model[address] = run.model.sha256
        self._submit(address, run.task(with_path=False), data, run)

    def _submit(
        self, address: str, task: str, model: bytes | None = None, run: SweepRun | None = None
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

    # --- Collecting results ---

    def _hear(self, address: str, begun: _Begun) -> None:
        if begun.future.status != "finished":
            # The function itself raises nothing, so the worker or its connection failed.
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
            return
        try:
            text = begun.future.result(timeout=_FETCH_S)
        except (TimeoutError, CancelledError):
            # Done, but its worker left before it could report: the run counts as lost.
            self._begun[address] = begun
            return
        answer = answer_of(text, f"worker {address}")
        if begun.run is None:
            self._last_model.setdefault(address, "")
        elif "wanted" in answer:
            self._send(address, begun.run, with_model=True)
        else:
            self._keep(answer)

    def _drop_lost(self, present: set[str]) -> None:
        """Runs of workers that left are done again, up to a limit."""
        for address in self._last_model.keys() - present:
            del self._last_model[address]
        for address in list(self._begun.keys() - present):
            begun = self._begun.pop(address)
            begun.future.cancel()
            self._again(begun.run)

    def _again(self, run: SweepRun | None) -> None:
        if run is not None and not self._waiting.put_back(run):
            self._keep(deadly_row(run, "they left the cluster"))

    def _end_overdue(self) -> None:
        limit = self._timeout_s
        for address, begun in list(self._begun.items()):
            if limit is None or begun.run is None or time.monotonic() - begun.since <= limit:
                continue
            self._keep(overdue_row(begun.run, limit))
            # Its result is not needed any more.
            self._begun[address] = replace(begun, run=None)
            # A thread cannot be stopped, so its process is; its nanny starts another.
            try:
                self._client.restart_workers([address], raise_for_error=False)
            except (ValueError, TimeoutError):
                continue  # without a nanny it cannot be restarted: busy until it is done
            self._begun.pop(address).future.cancel()
            self._last_model.pop(address, None)
