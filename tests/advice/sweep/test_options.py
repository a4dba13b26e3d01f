"""Options that contradict each other are refused before anything starts."""

from __future__ import annotations

import pytest

from npuscope.advice.sweep.options import SweepOptions, Tls, check
from npuscope.errors import UsageError

TLS = Tls("ca.pem", "cert.pem", "key.pem")
WRONG = [
    (SweepOptions(jobs=0), "--jobs: expected 1 to 1024, found 0"),
    (SweepOptions(local_cluster=2000), "--local-cluster: expected 1 to 1024, found 2000"),
    (SweepOptions(timeout_s=0.0), "--timeout: expected seconds above 0, found 0"),
    (SweepOptions(timeout_s=float("nan")), "--timeout: expected seconds above 0, found nan"),
    (
        SweepOptions(jobs=2, local_cluster=2),
        "--jobs and --local-cluster cannot be combined\n  hint: choose one",
    ),
    (
        SweepOptions(dashboard=True),
        "--dashboard: only a local cluster has a dashboard\n"
        "  hint: add --local-cluster N; a scheduler elsewhere has its own dashboard",
    ),
    (
        SweepOptions(scheduler="host:8786"),
        "--scheduler: expected tcp://HOST:PORT or tls://HOST:PORT, found 'host:8786'",
    ),
    (
        SweepOptions(scheduler="tls://host:8786"),
        "--scheduler: tls:// needs certificates\n  hint: give --tls-ca, --tls-cert and --tls-key",
    ),
    (
        SweepOptions(scheduler="tcp://host:8786", tls=TLS),
        "--tls-ca: certificates are only for tls://",
    ),
]


@pytest.mark.parametrize(("options", "said"), WRONG, ids=[said[:30] for _, said in WRONG])
def test_contradictions(options: SweepOptions, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(options)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    "options",
    [
        SweepOptions(),
        SweepOptions(jobs=2, timeout_s=0.5),
        SweepOptions(local_cluster=2, dashboard=True),
        SweepOptions(scheduler="tls://host:8786", tls=TLS),
    ],
)
def test_what_goes_together(options: SweepOptions) -> None:
    check(options)
