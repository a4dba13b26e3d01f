"""`npuscope rules [ID]`: what is checked."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING

from npuscope.cli.options import add_options
from npuscope.cli.output import deliver
from npuscope.shown import counted

if TYPE_CHECKING:
    from npuscope.rulebook.registry import Rule

_WIDTH = 100


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "rules")


def run(args: argparse.Namespace) -> int:
    from npuscope import api
    from npuscope.report.findings import rules_json

    chosen = list(api.rules(args.rule))
    text = _table(chosen) if args.rule is None else _page(chosen[0])
    deliver(args, text, rules_json(chosen))
    return 0


def _table(rules: list[Rule]) -> str:
    kinds = {info.kind: sum(i.kind is info.kind for i in rules) for info in rules}
    counts = ", ".join(f"{number} {kind.value}" for kind, number in kinds.items())
    lines = [f"{counted(len(rules), 'rule')}: {counts}"]
    lines += [f"{info.id:<27} {info.severity.value:<8} {info.title}" for info in rules]
    return "\n".join(lines)


def _page(info: Rule) -> str:
    lines = [
        f"{info.id}: {info.title}",
        f"{info.kind.value} rule, {info.severity.value}, {info.confidence.value}",
    ]
    if info.since or info.until:
        lines.append(f"generations {info.since or 'first'} to {info.until or 'last'}")
    paragraphs = [info.sentence, info.cause, *(f"fix: {fix.in_general}" for fix in info.fixes)]
    for paragraph in filter(None, paragraphs):
        lines += textwrap.wrap(paragraph, _WIDTH)
    return "\n".join([*lines, f"see {info.docs}"])
