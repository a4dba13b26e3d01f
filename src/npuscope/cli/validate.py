"""`npuscope validate SOURCE`: the NPU's arithmetic against the reference."""

from __future__ import annotations

import argparse

from npuscope.bounded_file import read_array
from npuscope.cli.options import SOURCE_HELP, add_model, add_output, add_target, api_options
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.errors import UsageError

_FAILED = 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=SOURCE_HELP)
    parser.add_argument(
        "--model", metavar="M", help="the model that a compiled program was made from"
    )
    data = parser.add_mutually_exclusive_group()
    data.add_argument(
        "--inputs",
        action="append",
        metavar="F.npy",
        help="input data; once for every input, in order",
    )
    data.add_argument("--seeds", type=int, default=1, metavar="N", help="random inputs to try")
    add_target(parser)
    add_model(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    if args.seeds < 1:
        raise UsageError(f"expected at least 1 seed, found {args.seeds}", where="--seeds")
    inputs = [read_array(name) for name in args.inputs] if args.inputs else None
    from npuscope import api
    from npuscope.report.validation import validation_json, validation_text

    with working(args, "validating"):
        result = api.validate(
            args.source, inputs=inputs, seeds=args.seeds, model=args.model, **api_options(args)
        )
    deliver(args, validation_text(result), validation_json(result))
    return 0 if result.passed else _FAILED
