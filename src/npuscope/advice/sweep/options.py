"""Options of a sweep: where its runs are done, and which of them."""

from __future__ import annotations

import math

from msgspec import Struct

from npuscope.errors import UsageError

MANY_WORKERS = 1024  # more is a typing mistake
_SCHEMES = ("tcp://", "tls://")


class Tls(Struct, frozen=True):
    """Files: a certificate authority, our certificate, its key."""

    ca: str
    cert: str
    key: str


class SweepOptions(Struct, frozen=True):
    jobs: int | None = None  # processes here; as many as cores when None
    scheduler: str | None = None  # address of a dask scheduler
    local_cluster: int | None = None  # workers of a dask cluster on this computer
    tls: Tls | None = None
    dashboard: bool = False
    timeout_s: float | None = None
    retry_failed: bool = False
    yes: bool = False  # do more runs than MANY_RUNS

    @property
    def on_cluster(self) -> bool:
        return self.scheduler is not None or self.local_cluster is not None


def check(options: SweepOptions) -> None:
    """Options that contradict each other are errors, not guesses."""
    places = {
        "--jobs": options.jobs is not None,
        "--scheduler": options.scheduler is not None,
        "--local-cluster": options.local_cluster is not None,
    }
    names = [name for name, is_given in places.items() if is_given]
    if len(names) > 1:
        raise UsageError(f"{' and '.join(names)} cannot be combined", hint="choose one")
    if options.dashboard and options.local_cluster is None:
        raise UsageError(
            "only a local cluster has a dashboard",
            where="--dashboard",
            hint="add --local-cluster N; a scheduler elsewhere has its own dashboard",
        )
    address = options.scheduler
    is_tls = address is not None and address.startswith("tls://")
    if address is not None and not address.startswith(_SCHEMES):
        raise UsageError(
            f"expected tcp://HOST:PORT or tls://HOST:PORT, found '{address}'", where="--scheduler"
        )
    if is_tls and options.tls is None:
        raise UsageError(
            "tls:// needs certificates",
            where="--scheduler",
            hint="give --tls-ca, --tls-cert and --tls-key",
        )
    if options.tls is not None and not is_tls:
        raise UsageError("certificates are only for tls://", where="--tls-ca")
    for name, number in (("--jobs", options.jobs), ("--local-cluster", options.local_cluster)):
        if number is not None and not 1 <= number <= MANY_WORKERS:
            raise UsageError(f"expected 1 to {MANY_WORKERS}, found {number}", where=name)
    limit = options.timeout_s
    if limit is not None and not (math.isfinite(limit) and limit > 0):
        raise UsageError(f"expected seconds above 0, found {limit:g}", where="--timeout")
