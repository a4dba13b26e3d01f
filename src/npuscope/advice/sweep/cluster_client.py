"""The way to a dask cluster: one that runs already, or one of our own on this computer."""

from __future__ import annotations

import ipaddress
import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from npuscope import child
from npuscope.advice.sweep.options import SweepOptions, Tls
from npuscope.bounded_file import read_head
from npuscope.errors import DeviceError, FileError, UsageError

if TYPE_CHECKING:
    from distributed import Client

log = logging.getLogger(__name__)

_CONNECT_S = 10
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
    _need_distributed()
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


def _need_distributed() -> None:
    if find_spec("distributed") is None:
        raise UsageError(
            "clusters need the package distributed",
            where="--scheduler, --local-cluster",
            hint="pip install 'npuscope[sweep]'",
        )


def _client(address: str, tls: Tls | None) -> Client:
    from distributed import Client

    if tls is None and not is_loopback(address):
        log.warning(
            "%s is not encrypted: models and results can be read on the way, and whoever reaches "
            "the scheduler can run code on its workers; use tls://",
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
    """Processes of one thread each; everything listens on the loopback interface alone."""
    import dask.config
    from distributed import Client, LocalCluster

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
    """What a cluster says about workers that come and go is in our rows, where it matters."""
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
