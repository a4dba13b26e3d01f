"""npuscope: fit, speed, profile and reasons for networks on NPUs, without a board.

Here are the verbs as functions and the five nouns that they give. They load when first used, so
that `import npuscope` costs nothing.
"""

from __future__ import annotations

import sys
import types
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
        demo,
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
        rules,
        run,
        sensitivity,
        sweep,
        sweep_report,
        validate,
        what_if,
    )
    from npuscope.graph.model import Graph
    from npuscope.machine.model import Machine
    from npuscope.profile.model import Profile
    from npuscope.program.model import Program
    from npuscope.rules.finding import Finding

_NOUNS = {
    "Graph": "npuscope.graph.model",
    "Machine": "npuscope.machine.model",
    "Program": "npuscope.program.model",
    "Profile": "npuscope.profile.model",
    "Finding": "npuscope.rules.finding",
}
# Packages and modules with a verb's name; they are callable.
_PACKAGES = ("demo", "profile", "rules")
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
    "demo",
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
    "rules",
    "run",
    "sensitivity",
    "sweep",
    "sweep_report",
    "validate",
    "what_if",
]


class _Verb(types.ModuleType):
    """A package with a verb's name, such as npuscope.profile: both, until it is renamed."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        function = getattr(import_module("npuscope.api"), self.__name__.rpartition(".")[2])
        return function(*args, **options)


class _House(types.ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        """The import system names a loaded submodule here, over the verb of that name."""
        if isinstance(value, types.ModuleType) and name in __all__:
            value.__class__ = _Verb
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return list(__all__)


def __getattr__(name: str) -> Any:
    if name in _NOUNS:
        return getattr(import_module(_NOUNS[name]), name)
    if name in _PACKAGES:
        return import_module(f"npuscope.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'npuscope' has no attribute '{name}'")
    return getattr(import_module("npuscope.api"), name)


sys.modules[__name__].__class__ = _House
