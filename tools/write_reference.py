"""Write what the pages say from the sources: tables of options in docs/cli.md, docs/api.md, and
docs/operators.md.

python tools/write_reference.py          # a test fails while they are out of date
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]


from api_types import attributes, results, signature  # noqa: E402

import npuscope  # noqa: E402
from npuscope import verbs  # noqa: E402
from npuscope.advice.catalogue import catalogue  # noqa: E402
from npuscope.families.many_core.compiler.kinds import KERNELS, group_of  # noqa: E402
from npuscope.families.registry import packaged_families  # noqa: E402
from npuscope.graph.model import Graph  # noqa: E402
from npuscope.machine.load import load_machine, packaged, read_table  # noqa: E402
from npuscope.machine.model import Machine  # noqa: E402
from npuscope.machine.npu_ops import SUPPORT  # noqa: E402
from npuscope.ops.table import OPS  # noqa: E402
from npuscope.options import rows as option_rows  # noqa: E402
from npuscope.options.kinds import Option, OptionGroup, OptionKind  # noqa: E402
from npuscope.profiling.model import Profile  # noqa: E402
from npuscope.program.model import Program  # noqa: E402
from npuscope.program.network_c.vendor_functions import (  # noqa: E402
    KERNEL,
    KERNEL_FUNCTIONS,
    LIBRARY,
    LIBRARY_FUNCTIONS,
)
from npuscope.rulebook.finding import Finding  # noqa: E402
from npuscope.rulebook.registry import RuleKind  # noqa: E402
from npuscope.verbs.table import record  # noqa: E402

CLI = ROOT / "docs" / "cli.md"
API = ROOT / "docs" / "api.md"
OPERATORS = ROOT / "docs" / "operators.md"
NOUNS = (Graph, Machine, Program, Profile, Finding)
_BLOCK = re.compile(r"(<!-- options: ([a-z ]+) -->\n).*?(<!-- end of options -->)", re.DOTALL)
_API_HEAD = """# The Python functions

`import npuscope` gives every verb of the [command line](cli.md) as a function with the same name
and options, and the five nouns. This page is made from their docstrings by
`tools/write_reference.py`.

```python
import npuscope

profile = npuscope.estimate("model.tflite", generation="4.0", npu_mhz=800)
print(profile.total_ms, npuscope.explain("model.tflite").changes)
profile.save("run.json")  # npuscope.load("run.json") reads it again
profile.to_dataframe()  # with pip install 'npuscope[notebook]'
```

An option that does not exist, or that a verb does not use, is an error with a suggestion. Nouns and
results are one line in a shell and a small table in a notebook; `to_dataframe()` gives the table to
pandas. Options that many functions share are listed
[once](#options-of-functions-that-take-a-model). The package is typed (`py.typed`).

A file or an option that is wrong raises `npuscope.NpuscopeError`, whose `message`, `where` and
`hint` are what the command line prints; `exit_code` is its [exit code](cli.md).

## What is stable

* **Stable**: names and keywords of functions; the five nouns; `NpuscopeError` with the four
  attributes above; `told()`, `table()` with its columns, `to_dataframe()`, `save()` and
  `npuscope.load`.
* **Kept where possible**: the other attributes on this page. New ones are added; a rename is in the
  [changelog](../CHANGELOG.md).
* **May change at any time**: modules below `npuscope`, and what is not on this page; see
  [stability.md](stability.md).
"""


def cli_page(text: str) -> str:
    """The page with its tables written again; the text between them stays."""
    return _BLOCK.sub(lambda found: f"{found[1]}{_table(found[2])}{found[3]}", text)


def _table(name: str) -> str:
    if name == "of all verbs":
        own = [OptionGroup(one.name, one.options) for one in packaged_families() if one.options]
        groups: Iterable[OptionGroup] = (option_rows.TARGET, option_rows.READING, *own)
        rows = [_row(option, option.mark.value) for group in groups for option in group.options]
        head = "| option | default | means | changes |\n|---|---|---|---|\n"
    else:
        own = [group for group in record(name).groups if not group.shared]
        rows = [_row(option) for group in own for option in group.options]
        head = "| option | default | means |\n|---|---|---|\n"
    return head + "".join(row for row in rows if row)


def _row(option: Option, *more: str) -> str:
    if not option.shell:
        return ""
    flags = [f"`{_spelt(flag, option)}`" for flag in option.spellings]
    if option.kind is OptionKind.SWITCH:
        flags.insert(1, f"`{option.spellings[0].replace('--', '--no-', 1)}`")
    default = "" if option.default in (None, "", False, ()) else f"`{_word(option.default)}`"
    if option.choices:
        known = ", ".join(f"`{choice}`" for choice in option.choices)
        more = (f"{_cell(option.means)}: {known}", *more)
    else:
        more = (_cell(option.means), *more)
    return f"| {', '.join(flags)} | {default} | {' | '.join(more)} |\n"


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _spelt(flag: str, option: Option) -> str:
    if not option.value:
        return flag
    value = option.value.replace("|", "\\|")
    return f"{flag} [{value}]" if option.const is not None else f"{flag} {value}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def api_page() -> str:
    parts = [_API_HEAD, "\n## Nouns\n"]
    parts += [_class(noun) for noun in NOUNS]
    parts.append("\n## Functions\n")
    nouns = {noun.__name__ for noun in NOUNS}
    functions = [n for n in npuscope.__all__ if n not in {*nouns, "__version__", "NpuscopeError"}]
    parts += [_function(name) for name in functions]
    parts.append("\n## Results\n")
    parts += [_class(kind) for kind in results(functions) if kind not in NOUNS]
    parts.append("\n## Options of functions that take a model\n\n")
    parts.append("| keyword | means | changes |\n|---|---|---|\n")
    own = (option for family in packaged_families() for option in family.options)
    shared = (*option_rows.TARGET.options, *option_rows.READING.options, *own)
    parts += [f"| `{o.name}` | {_cell(o.means)} | {o.mark.value} |\n" for o in shared]
    return "".join(parts)


_OPERATORS_HEAD = """# What is read, and what keeps it off the NPU

Every op that npuscope knows, by the names it has in TFLite and in ONNX, where an STM32N6 can run
it, and the rules that may keep it off the NPU; a rule's page says when, since which compiler
generation, and what helps. Where the CPU is named, passes of the compiler may still make other ops
of it that the NPU runs, such as a product of a quotient by a constant; "timed" has no C kernel, so
no network.c is written. The many-core column names the engine of a core. Any other op gets an
answer too: see [models.md](models.md). This page is made from the sources by
`tools/write_reference.py`.

| op | TFLite | ONNX | STM32N6 | many-core | may be refused by |
|---|---|---|---|---|---|
"""


def operators_page() -> str:
    refusing = [rule for rule in catalogue().values() if rule.kind is RuleKind.REFUSE]
    lines = []
    for kind, row in sorted(OPS.items()):
        if not (row.tflite or row.onnx):
            continue
        rules = ", ".join(f"[{r.id}](rules/{r.id}.md)" for r in refusing if kind in r.ops)
        names = (", ".join(f"`{name}`" for name in sorted(how)) for how in (row.tflite, row.onnx))
        npu, core = SUPPORT[kind], KERNELS[kind]
        where = "NPU" if npu.lowering else "CPU" if npu.kernel else "CPU, timed"
        engine = "as other ops" if core.rewritten else group_of(core.name).name
        lines.append(f"| {kind} | {' | '.join(names)} | {where} | {engine} | {rules} |\n")
    machine = load_machine()
    generations = read_table(packaged(machine.name))["generations"]
    heads = "| generation | |\n|---|---|\n"
    told = [f"| `{name}` | {_cell(str(table['title']))} |\n" for name, table in generations.items()]
    count = f"\n{len(lines)} ops, {len(refusing)} rules that may refuse one.\n"
    more = f"\n## Compiler generations\n\n{heads}{''.join(told)}"
    return _OPERATORS_HEAD + "".join(lines) + count + more + _vendor_functions()


_FUNCTIONS_HEAD = """
## Functions of the vendor's libraries

What a build of the vendor's compilers may call on the CPU, from the public headers of each
runtime. A function that is "refused" is timed, and execution stops with its name and its epoch: no
public build calls it, so nothing tells how its operands lie. Costs are rows of the
[machine](machine.md); no kernel with products takes less time than `software_limits` says. Each
that is read has a test in `tests/program/network_c`, which also holds this list against the code.

| function | headers | executed as | cost |
|---|---|---|---|
"""


def _vendor_functions() -> str:
    costs = read_table(packaged(load_machine().name))["software"]
    rows = []
    for prefix, functions in ((KERNEL, KERNEL_FUNCTIONS), (LIBRARY, LIBRARY_FUNCTIONS)):
        for name, function in functions.items():
            own = [op for op in function.ops.split(", ") if op in costs]
            named = ", ".join(f"`software.{op}`" for op in own) or "`software.default`"
            if len(own) < len(function.ops.split(", ")) and own:
                named += ", `software.default`"
            if function.ops == "Conv2D":
                named = "`software_limits`"
            cells = (f"`{prefix}{name}`", function.generations, function.ops or "refused", named)
            rows.append(f"| {' | '.join(cells)} |\n")
    return _FUNCTIONS_HEAD + "".join(rows)


def _class(kind: type) -> str:
    doc = kind.__doc__ if "__doc__" in vars(kind) else ""  # not that of a base
    text = f"\n{_prose(inspect.cleandoc(doc))}\n" if doc else ""
    return f"\n### {kind.__name__}\n{text}{attributes(kind)}"


def _function(name: str) -> str:
    function = getattr(npuscope, name)
    text, _, example = (inspect.getdoc(function) or "").partition(">>> ")
    code = f"\n```python\n{example.strip()}\n```\n" if example else ""
    return f"\n### {name}\n{signature(name)}\n{_prose(text.strip())}\n{code}{_keywords(name)}"


def _prose(text: str) -> str:
    return text.replace("<", "&lt;")


def _keywords(name: str) -> str:
    """Its own options; those of many functions stand at the end of the page."""
    if name not in verbs.__all__:
        return ""
    row = record(name)
    own = [o for group in row.groups if not group.shared for o in group.options if o.python]
    shared = any(group in (option_rows.TARGET, option_rows.LOOKED_AT) for group in row.groups)
    lines = [f"| `{o.name}` | {_cell(o.means)} |\n" for o in own]
    if shared:
        lines.append(
            "| | and [those of functions that take a model]"
            "(#options-of-functions-that-take-a-model) |\n"
        )
    return "\n| keyword | means |\n|---|---|\n" + "".join(lines) if lines else ""


def main() -> None:
    CLI.write_text(cli_page(CLI.read_text(encoding="utf-8")), encoding="utf-8")
    API.write_text(api_page(), encoding="utf-8")
    OPERATORS.write_text(operators_page(), encoding="utf-8")
    print("docs/cli.md, docs/api.md and docs/operators.md are up to date")


if __name__ == "__main__":
    main()
