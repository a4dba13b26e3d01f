"""npuscope: fit, speed, profile and reasons for networks on NPUs, without a board.

The functions of `npuscope.api` are reachable here; they load when first used, so that
`import npuscope` costs nothing.
"""

from __future__ import annotations

import types
from importlib import import_module
from typing import TYPE_CHECKING, Any

import npuscope.profile as _profile_package
from npuscope.version import __version__

if TYPE_CHECKING:
    from npuscope.api import (
        compare,
        compile,
        estimate,
        explain,
        fix,
        gate,
        lint,
        load_machine,
        load_model,
        package,
        run,
        sensitivity,
        sweep,
        validate,
        what_if,
    )

__all__ = [
    "__version__",
    "compare",
    "compile",
    "estimate",
    "explain",
    "fix",
    "gate",
    "lint",
    "load_machine",
    "load_model",
    "package",
    "profile",
    "run",
    "sensitivity",
    "sweep",
    "validate",
    "what_if",
]


class _ProfileVerb(types.ModuleType):
    """The package npuscope.profile, which is a verb too: npuscope.profile("model.tflite")."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return import_module("npuscope.api").profile(*args, **options)


_profile_package.__class__ = _ProfileVerb


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'npuscope' has no attribute '{name}'")
    return getattr(import_module("npuscope.api"), name)
