"""`npuscope sweep SPEC.toml` and `npuscope sweep report STORE`: many runs, and what they say."""

from __future__ import annotations

import argparse
from importlib import import_module

from npuscope.cli.options import add_output
from npuscope.errors import UsageError

_REPORT = "report"
# Options that say how runs are done; a report does none.
_OF_RUNS = (
    "output",
    "jobs",
    "scheduler",
    "local_cluster",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "dashboard",
    "timeout",
    "retry_failed",
    "yes",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "npuscope sweep [options] SPEC.toml\n       npuscope sweep report [options] STORE"
    )
    parser.add_argument(
        "words",
        nargs="+",
        metavar="SPEC.toml | report STORE",
        help="the sweep file with the runs to do, or `report` and the store that they left",
    )
    _add_runs(parser.add_argument_group("runs"))
    _add_cluster(parser.add_argument_group("dask cluster"))
    _add_report(parser.add_argument_group("report"))
    add_output(parser)


def _add_runs(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-o", "--output", metavar="STORE", help="the store (default: SPEC.jsonl beside SPEC.toml)"
    )
    group.add_argument("--jobs", type=int, metavar="N", help="processes (default: the cores)")
    group.add_argument(
        "--timeout", type=float, metavar="S", help="a run that takes longer than S seconds fails"
    )
    group.add_argument(
        "--retry-failed", action="store_true", help="do failed runs of the store again"
    )
    group.add_argument("--yes", action="store_true", help="do more than 10,000 runs")


def _add_cluster(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--scheduler", metavar="ADDRESS", help="tcp://HOST:PORT or tls://HOST:PORT of a scheduler"
    )
    group.add_argument(
        "--local-cluster", type=int, metavar="N", help="a cluster of N workers on this computer"
    )
    group.add_argument("--tls-ca", metavar="FILE", help="certificate authority of tls://")
    group.add_argument("--tls-cert", metavar="FILE", help="our certificate for tls://")
    group.add_argument("--tls-key", metavar="FILE", help="the key of our certificate")
    group.add_argument(
        "--dashboard", action="store_true", help="dask's pages about --local-cluster, on loopback"
    )


def _add_report(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--html", metavar="FILE", help="tables and plots as one offline HTML file")
    group.add_argument("--csv", metavar="FILE", help="one line a run")
    group.add_argument("--parquet", metavar="FILE", help="the same with types (needs pyarrow)")


def run(args: argparse.Namespace) -> int:
    if args.words[0] == _REPORT:
        _check_report(args)
        return _go("sweep_report", args, args.words[1])
    if len(args.words) > 1:
        raise UsageError(f"one sweep file at a time, found {len(args.words)}")
    return _go("sweep_run", args, args.words[0])


def _go(module: str, args: argparse.Namespace, source: str) -> int:
    code: int = import_module(f"npuscope.cli.{module}").run(args, source)
    return code


def _check_report(args: argparse.Namespace) -> None:
    if len(args.words) != 2:
        raise UsageError(
            f"expected one store, found {len(args.words) - 1}", hint="npuscope sweep report STORE"
        )
    for name in _OF_RUNS:
        if getattr(args, name):
            option = f"--{name.replace('_', '-')}"
            raise UsageError("this is for runs, a report does none", where=option)
