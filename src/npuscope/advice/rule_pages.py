"""The documentation of all rules as pages, made from their records."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from npuscope.advice.catalogue import catalogue
from npuscope.edits import formats
from npuscope.rulebook.fix import FixTemplate, FunctionEffect
from npuscope.rulebook.registry import Rule, RuleKind
from npuscope.rulebook.training import SPELLINGS

_WIDTH = 100
_KINDS = {
    RuleKind.REFUSE: "keeps an op off the NPU",
    RuleKind.LINT: "a risk that the model file alone shows",
    RuleKind.ADVISE: "what slows a run down",
}
_HEADINGS = {
    RuleKind.REFUSE: "Refuse: why an op is not on the NPU",
    RuleKind.LINT: "Lint: risks in the model file",
    RuleKind.ADVISE: "Advise: what slows a run down",
}


_FUNCTIONS = {
    FunctionEffect.EXACT: "exactly the same outputs",
    FunctionEffect.ROUNDING: "the same outputs, up to rounding",
    FunctionEffect.MOVED: "a part moves to the application, or its inputs and outputs change",
    FunctionEffect.UNTOUCHED: "the model stays as it is",
    FunctionEffect.CHANGED: "other outputs: judge it on your own data",
}

_FAMILIES = {"many-core": "many cores"}


def rule_pages() -> dict[str, str]:
    """File name -> text, the index included."""
    rules = list(catalogue().values())
    pages = {f"{info.id}.md": _page(info) for info in rules}
    tables = {"fixes.md": _edits(rules), "training.md": _training(rules)}
    return {"index.md": _index(rules), **tables, **pages}


def _page(info: Rule) -> str:
    lines = [f"# {info.id}: {info.title}", ""]
    lines += [*_wrapped(info.sentence), ""] if info.sentence else []
    lines += [*_facts(info), "", *_wrapped(f"**Why.** {info.cause}"), *_fixes(info)]
    if info.twins:
        twins = ", ".join(_link(twin) for twin in info.twins)
        lines += ["", *_wrapped(f"The same in a compiled network: {twins}.")]
    return "\n".join([*lines, "", "[All rules](index.md)", ""])


def _facts(info: Rule) -> Iterator[str]:
    yield "| | |"
    yield "|---|---|"
    yield f"| kind | {info.kind.value}: {_KINDS[info.kind]} |"
    yield f"| severity | {info.severity.value} |"
    yield f"| confidence | {info.confidence.value} |"
    if info.family:
        yield f"| machines | {info.family} |"
    else:
        yield f"| generations | {_generations(info)} |"


def _generations(info: Rule) -> str:
    if not info.since and not info.until:
        return "all"
    if info.since == info.until:
        return info.since
    return f"{info.since or 'first'} to {info.until or 'last'}"


def _fixes(info: Rule) -> Iterator[str]:
    if info.fixes:
        yield ""
        yield "Fixes:"
        yield ""
    for fix in info.fixes:
        yield from textwrap.wrap(_fix(fix), _WIDTH, subsequent_indent="  ")


def _fix(fix: FixTemplate) -> str:
    files = formats(fix.id)
    tells = files or fix.function is not FunctionEffect.CHANGED
    outputs = f"; {_FUNCTIONS[fix.function]}" if tells else ""
    by_us = f" ([`npuscope fix`](../fix.md): {' and '.join(files)})" if files else ""
    return f"* `{fix.id}`: {_title(fix)}{outputs}{by_us}"


def _title(fix: FixTemplate) -> str:
    return re.sub(r"\{(\w+)\}", r"*\1*", fix.title)


def _edits(rules: list[Rule]) -> str:
    """Fixes that `npuscope fix` can make."""
    edits = {fix.id: fix for info in rules for fix in info.fixes if formats(fix.id)}
    lines = ["# Fixes that npuscope makes", ""]
    lines += _wrapped(
        "What [`npuscope fix`](../fix.md) can edit, what that does to the network's outputs, and "
        "which rules offer it. Edits that keep the outputs *the same*, up to rounding, are tried "
        "by default; the others only on request."
    )
    lines += ["", "| fix | does | outputs | files | offered by |", "|---|---|---|---|---|"]
    for fix in sorted(edits.values(), key=lambda fix: fix.id):
        offered = ", ".join(_link(i.id) for i in rules if fix.id in {f.id for f in i.fixes})
        outputs, files = _FUNCTIONS[fix.function], ", ".join(formats(fix.id))
        lines.append(f"| `{fix.id}` | {_title(fix)} | {outputs} | {files} | {offered} |")
    return "\n".join([*lines, "", "[All rules](index.md)", ""])


def _training(rules: list[Rule]) -> str:
    """Fixes in the words of those who train the network."""
    spellings = {fix.id: fix for info in rules for fix in info.fixes if fix.id in SPELLINGS}
    lines = ["# What to change in training", ""]
    lines += _wrapped(
        "Each fix as it is written in Keras and in PyTorch, for changes that are better made "
        "where the network is defined than in its file. `npuscope explain --verbose` prints them "
        "with the numbers of a finding, `--json` has them as `training` of each fix."
    )
    lines += ["", "| fix | Keras | PyTorch | offered by |", "|---|---|---|---|"]
    for fix in sorted(spellings.values(), key=lambda fix: fix.id):
        spelled = SPELLINGS[fix.id].told({})
        offered = ", ".join(_link(i.id) for i in rules if fix.id in {f.id for f in i.fixes})
        cells = (fix.in_general, spelled["keras"], spelled["torch"], offered)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", "[All rules](index.md)", ""])


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _link(rule_id: str) -> str:
    return f"[{rule_id}]({rule_id}.md)"


def _index(rules: list[Rule]) -> str:
    lines = ["# Rules", ""]
    lines += _wrapped(
        "What `npuscope explain` and `npuscope lint` check. Severity: an error means that the "
        "network does not run or is wrong, a warning that work leaves the NPU or that a hazard is "
        "known, an info that it could be faster or smaller. Confidence: verified (seen on "
        "hardware, or checked by us), documented, or reported (one public source)."
    )
    lines.append("")
    sections = {
        heading: [info for info in rules if info.kind is kind and not info.family]
        for kind, heading in _HEADINGS.items()
    }
    for family in dict.fromkeys(info.family for info in rules if info.family):
        heading = f"Machines with {_FAMILIES.get(family, family)}"
        sections[heading] = [info for info in rules if info.family == family]
    for heading, infos in sections.items():
        lines += [f"## {heading}", "", "| rule | severity | says |", "|---|---|---|"]
        lines += [f"| {_link(i.id)} | {i.severity.value} | {i.title} |" for i in infos]
        lines.append("")
    return "\n".join(lines)
