"""`npuscope quantize MODEL -o OUT --data DATA`: a float model to the int8 form that is fastest."""

from __future__ import annotations

import argparse

from npuscope.cli.options import add_options, api_options
from npuscope.cli.output import INTERRUPTED, deliver, refuse_overwrite, working
from npuscope.progress import progress


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "quantize")


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    from npuscope import api
    from npuscope.report.quantize import quantize_json, quantize_text

    with working(args, "quantizing"):
        made = api.quantize(
            args.source,
            args.output,
            data=args.data,
            calibration=args.calibration,
            samples=args.samples,
            seed=args.seed,
            loss_db=args.loss_db,
            mean=args.mean,
            std=args.std,
            pixel_max=args.pixel_max,
            layout=args.layout,
            progress=lambda text: progress("%s", text),
            **api_options(args),
        )
    result = quantize_json(made, args.output)
    result |= {"interrupted": True} if made.interrupted else {}
    deliver(args, quantize_text(made, args.output, every=args.verbose), result)
    return INTERRUPTED if made.interrupted else 0
