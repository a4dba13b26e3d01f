"""`npuscope fix MODEL -o FIXED`: edits that help, applied, compiled again, timed and measured."""

from __future__ import annotations

import argparse
from pathlib import Path

from npuscope.cli.options import add_model, add_output, add_target, api_options
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.errors import UsageError
from npuscope.whole_file import write_whole


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="MODEL", help="a .tflite or .onnx model")
    parser.add_argument(
        "-o", "--output", metavar="FIXED", help="the fixed model; without it nothing is written"
    )
    group = parser.add_argument_group("which fixes (default: those that keep the function)")
    group.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME,...",
        help="rules or fixes, applied whatever they cost",
    )
    group.add_argument(
        "--cut", action="store_true", help="end the network where the NPU's work ends"
    )
    group.add_argument("--drop-softmax", action="store_true", help="end it before a last Softmax")
    group.add_argument(
        "--integer-io", action="store_true", help="integers instead of float at its border"
    )
    group.add_argument("--all", action="store_true", help="every edit there is, if it helps")
    parser.add_argument(
        "--seeds", type=int, default=2, metavar="N", help="seeded inputs to compare on (2)"
    )
    add_target(parser)
    add_model(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    _check(args)
    from npuscope import api
    from npuscope.report.json_fix import fix_json
    from npuscope.report.text_fix import fix_text

    with working(args, "fixing"):
        fixed = api.fix(
            args.source,
            only=[name.strip() for text in args.only for name in text.split(",")],
            cut=args.cut,
            drop_softmax=args.drop_softmax,
            integer_io=args.integer_io,
            everything=args.all,
            seeds=args.seeds,
            **api_options(args),
        )
    if args.output is not None:
        write_whole(args.output, fixed.data)
    deliver(args, fix_text(fixed, every=args.verbose), fix_json(fixed, args.output))
    return 0


def _check(args: argparse.Namespace) -> None:
    if args.seeds < 1:
        raise UsageError(f"expected 1 or more, found {args.seeds}", where="--seeds")
    if args.output is None:
        return
    source, target = Path(args.source), Path(args.output)
    if target.exists() and source.exists() and target.samefile(source):
        raise UsageError("this is the file to read", where=f"-o {args.output}")
    if source.suffix.lower() != target.suffix.lower():
        raise UsageError(
            f"the model is a {source.suffix} file, so the fixed one is",
            where=f"-o {args.output}",
            hint=f"name it {target.with_suffix(source.suffix)}",
        )
