"""`npuscope profile SOURCE`: run on a device, report every epoch."""

from __future__ import annotations

import argparse

from npuscope.cli.options import SOURCE_HELP, add_model, add_output, add_target, api_options
from npuscope.cli.output import deliver, print_text, refuse_overwrite, working
from npuscope.errors import UsageError

DEVICES = ("simulated",)
# A list longer than any program; keeps `--epochs 0-99999999999` from eating memory.
_MOST_EPOCHS = 100_000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=SOURCE_HELP)
    parser.add_argument(
        "--connect",
        default="simulated",
        metavar="DESC",
        help=f"device to run on: {', '.join(DEVICES)} (default)",
    )
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="inferences to run")
    parser.add_argument(
        "--full", action="store_true", help="every field of every epoch instead of one line"
    )
    parser.add_argument("--epochs", metavar="LIST", help="only these, e.g. 3,7-12")
    add_target(parser)
    add_model(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    _check(args)
    epochs = epoch_numbers(args.epochs)
    from npuscope import api
    from npuscope.report.json_report import profile_json
    from npuscope.report.text_profile import profile_text

    with working(args, "running"):
        if args.json is None:
            profile = api.profile(args.source, batch=args.batch, **api_options(args))
            print_text(args, profile_text(profile, full=args.full, epochs=epochs))
            return 0
        found = api.explain(args.source, batch=args.batch, **api_options(args))
    text = profile_text(found.profile, full=args.full, epochs=epochs)
    deliver(args, text, profile_json(found.profile, found.findings))
    return 0


def epoch_numbers(text: str | None) -> frozenset[int] | None:
    """'3,7-12' as numbers; None stands for all."""
    if text is None:
        return None
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = (first, last if dash else first)
        if not all(end.strip().isdecimal() for end in ends):
            raise UsageError(f"expected numbers such as 3,7-12, found '{text}'", where="--epochs")
        low, high = (int(end) for end in ends)
        if high - low > _MOST_EPOCHS:
            raise UsageError(f"the range {part} is too long", where="--epochs")
        numbers.update(range(low, high + 1))
    return frozenset(numbers)


def _check(args: argparse.Namespace) -> None:
    if args.batch < 1:
        raise UsageError(f"expected at least 1 inference, found {args.batch}", where="--batch")
    if args.connect not in DEVICES:
        known = ", ".join(DEVICES)
        raise UsageError(f"unknown device '{args.connect}'", where="--connect", hint=known)
