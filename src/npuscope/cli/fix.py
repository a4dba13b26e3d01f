"""`npuscope fix MODEL -o FIXED`: edits that help, applied, compiled again, timed and measured."""

from __future__ import annotations

import argparse

from npuscope.cli.options import add_options, api_options
from npuscope.cli.output import INTERRUPTED, deliver, refuse_overwrite, working


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "fix")


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    from npuscope import api
    from npuscope.report.fix import fix_json, fix_text

    with working(args, "fixing"):
        fixed = api.fix(
            args.source,
            args.output,
            only=[name.strip() for text in args.only for name in text.split(",")],
            cut=args.cut,
            drop_softmax=args.drop_softmax,
            integer_io=args.integer_io,
            everything=args.all,
            lossy=args.lossy,
            seeds=args.seeds,
            data=args.data,
            mean=args.mean,
            std=args.std,
            pixel_max=args.pixel_max,
            layout=args.layout,
            html=args.html,
            **api_options(args),
        )
    result = fix_json(fixed, args.output)
    result |= {"interrupted": True} if fixed.interrupted else {}
    deliver(args, fix_text(fixed, every=args.verbose, output=args.output), result)
    return INTERRUPTED if fixed.interrupted else 0
