"""`npuscope explain SOURCE`: why it is slow or off the NPU, and what to change."""

from __future__ import annotations

import argparse
from functools import partial

from npuscope.cli.options import add_options, api_options, words_for
from npuscope.cli.output import deliver, refuse_overwrite, working

_FOUND = 1


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "explain")


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    refuse_overwrite(args, args.model)
    from npuscope import api
    from npuscope.advice.explain import Explanation
    from npuscope.report.findings import explain_json, explain_text

    with working(args, "explaining"):
        result = api.explain(
            args.source,
            model=args.model,
            sarif=args.sarif,
            junit=args.junit,
            **api_options(args),
        )
    if not isinstance(result, Explanation):
        from npuscope.report.core_explain import core_explain_json, core_explain_text

        deliver(args, core_explain_text(result, every=args.verbose), core_explain_json(result))
        return _FOUND if args.strict and result.has_problems else 0
    text = explain_text(result, every=args.verbose, words=partial(words_for, args, "explain"))
    deliver(args, text, explain_json(result))
    return _FOUND if args.strict and result.has_problems else 0
