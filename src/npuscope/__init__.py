"""npuscope: fit, speed, profile and reasons for networks on NPUs, without a board.

Here are the verbs as functions and the five nouns that they give. They load when first used, so
that `import npuscope` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from npuscope.version import __version__

if TYPE_CHECKING:
    from npuscope.api import (
        asm,
        bisect,
        board_serve,
        checklist,
        compare,
        compile,
        completion,
        demo,
        deploy,
        disasm,
        doctor,
        estimate,
        explain,
        export,
        fix,
        gate,
        inspect,
        lint,
        load,
        load_machine,
        load_model,
        machines,
        manycore_compile,
        manycore_run,
        measure,
        opstats,
        package,
        profile,
        quantize,
        rules,
        run,
        sensitivity,
        serve,
        sweep,
        sweep_report,
        validate,
        what_if,
    )
    from npuscope.graph.model import Graph
    from npuscope.machine.model import Machine
    from npuscope.profiling.model import Profile
    from npuscope.program.model import Program
    from npuscope.rulebook.finding import Finding

_NOUNS = {
    "Graph": "npuscope.graph.model",
    "Machine": "npuscope.machine.model",
    "Program": "npuscope.program.model",
    "Profile": "npuscope.profiling.model",
    "Finding": "npuscope.rulebook.finding",
}
__all__ = [
    "Finding",
    "Graph",
    "Machine",
    "Profile",
    "Program",
    "__version__",
    "asm",
    "bisect",
    "board_serve",
    "checklist",
    "compare",
    "compile",
    "completion",
    "demo",
    "deploy",
    "disasm",
    "doctor",
    "estimate",
    "explain",
    "export",
    "fix",
    "gate",
    "inspect",
    "lint",
    "load",
    "load_machine",
    "load_model",
    "machines",
    "manycore_compile",
    "manycore_run",
    "measure",
    "opstats",
    "package",
    "profile",
    "quantize",
    "rules",
    "run",
    "sensitivity",
    "serve",
    "sweep",
    "sweep_report",
    "validate",
    "what_if",
]


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    if name in _NOUNS:
        return getattr(import_module(_NOUNS[name]), name)
    if name not in __all__:
        raise AttributeError(f"module 'npuscope' has no attribute '{name}'")
    return getattr(import_module("npuscope.api"), name)
