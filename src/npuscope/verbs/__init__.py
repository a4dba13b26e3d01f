"""The verbs: one module each, with its record and its function.

In and out: keywords in; a noun or a small result out, which renderers of `report` print.
The record (`VERB`) holds the options and the names of the renderers; `cli` prints by it, whatever
the verb. `table` finds records by name, `check` refuses keywords that a record does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for type checkers alone: a verb loads when it is used
    from npuscope.families.verbs import (
        manycore_compile as manycore_compile,
    )
    from npuscope.families.verbs import (
        manycore_run as manycore_run,
    )
    from npuscope.families.verbs import (
        manycore_setups as manycore_setups,
    )
    from npuscope.families.verbs import (
        manycore_tokens as manycore_tokens,
    )
    from npuscope.families.verbs import (
        opstats as opstats,
    )
    from npuscope.verbs.asm import asm as asm
    from npuscope.verbs.bisect import bisect as bisect
    from npuscope.verbs.board import board_serve as board_serve
    from npuscope.verbs.checklist import checklist as checklist
    from npuscope.verbs.compare import compare as compare
    from npuscope.verbs.compile import compile as compile
    from npuscope.verbs.completion import completion as completion
    from npuscope.verbs.demo import demo as demo
    from npuscope.verbs.deploy import deploy as deploy
    from npuscope.verbs.disasm import disasm as disasm
    from npuscope.verbs.doctor import doctor as doctor
    from npuscope.verbs.estimate import estimate as estimate
    from npuscope.verbs.explain import explain as explain
    from npuscope.verbs.export import export as export
    from npuscope.verbs.fix import fix as fix
    from npuscope.verbs.gate import gate as gate
    from npuscope.verbs.inspect import inspect as inspect
    from npuscope.verbs.lint import lint as lint
    from npuscope.verbs.machines import machines as machines
    from npuscope.verbs.mcp import mcp as mcp
    from npuscope.verbs.measure import measure as measure
    from npuscope.verbs.package import package as package
    from npuscope.verbs.plan import plan as plan
    from npuscope.verbs.profile import profile as profile
    from npuscope.verbs.quantize import quantize as quantize
    from npuscope.verbs.rules import rules as rules
    from npuscope.verbs.run import run as run
    from npuscope.verbs.sensitivity import sensitivity as sensitivity
    from npuscope.verbs.serve import serve as serve
    from npuscope.verbs.sweep import sweep as sweep
    from npuscope.verbs.sweep_report import sweep_report as sweep_report
    from npuscope.verbs.triage import triage as triage
    from npuscope.verbs.tune import tune as tune
    from npuscope.verbs.validate import validate as validate
    from npuscope.verbs.what_if import what_if as what_if

# In the order of --help.
__all__ = [  # noqa: RUF022
    "demo",
    "estimate",
    "compile",
    "profile",
    "board_serve",
    "export",
    "explain",
    "lint",
    "fix",
    "serve",
    "quantize",
    "tune",
    "compare",
    "gate",
    "validate",
    "bisect",
    "triage",
    "inspect",
    "plan",
    "checklist",
    "package",
    "run",
    "deploy",
    "manycore_compile",
    "manycore_run",
    "manycore_setups",
    "manycore_tokens",
    "opstats",
    "disasm",
    "asm",
    "sweep",
    "sweep_report",
    "machines",
    "rules",
    "mcp",
    "completion",
    "doctor",
    "what_if",
    "sensitivity",
    "measure",
]
