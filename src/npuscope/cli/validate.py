"""`npuscope validate SOURCE`: the NPU's arithmetic against the reference."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TypedDict

from npuscope.bounded_file import read_array
from npuscope.cli.options import add_options, api_options
from npuscope.cli.output import INTERRUPTED, deliver, refuse_overwrite, working
from npuscope.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

_FAILED = 1


class Samples(TypedDict):
    inputs: list[np.ndarray] | None
    seeds: int


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "validate")


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    samples = sample_options(args)
    from npuscope import api
    from npuscope.report.validation import validation_json, validation_text

    with working(args, "validating"):
        result = api.validate(args.source, model=args.model, **samples, **api_options(args))
    deliver(args, validation_text(result), validation_json(result))
    if not args.inputs and result.seeds < args.seeds:
        return INTERRUPTED
    return 0 if result.passed else _FAILED


def sample_options(args: argparse.Namespace) -> Samples:
    """What to run on: files, or seeds of random data."""
    if args.seeds < 1:
        raise UsageError(f"expected at least 1 seed, found {args.seeds}", where="--seeds")
    inputs = [read_array(name) for name in args.inputs] if args.inputs else None
    return {"inputs": inputs, "seeds": args.seeds}
