"""`npuscope sweep SPEC.toml` and `npuscope sweep report STORE`: many runs, and what they say."""

from __future__ import annotations

import argparse
from importlib import import_module

from npuscope.cli.options import add_options
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
    add_options(parser, "sweep")


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
