"""The rules as a table, or one of them as a page."""

from __future__ import annotations

import textwrap

from npuscope.rulebook.registry import Rule
from npuscope.shown import counted

_WIDTH = 100


def rules_text(rules: tuple[Rule, ...], *, rule: str | None = None) -> str:
    if rule is not None:
        return _page(rules[0])
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
