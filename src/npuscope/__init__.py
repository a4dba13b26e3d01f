"""npuscope: fit, speed, profile and reasons for networks on NPUs, without a board.

Here are the verbs as functions, the five nouns that they give and the root of their errors. They
load when first used, so that `import npuscope` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from npuscope.verbs import __all__ as _VERBS
from npuscope.version import __version__ as __version__

if TYPE_CHECKING:
    from npuscope.errors import NpuscopeError as NpuscopeError
    from npuscope.graph.model import Graph as Graph
    from npuscope.loading import load as load
    from npuscope.loading import load_machine as load_machine
    from npuscope.loading import load_model as load_model
    from npuscope.machine.model import Machine as Machine
    from npuscope.profiling.model import Profile as Profile
    from npuscope.program.model import Program as Program
    from npuscope.rulebook.finding import Finding as Finding
    from npuscope.verbs import *  # noqa: F403

_PLACES = {
    "Finding": "npuscope.rulebook.finding",
    "Graph": "npuscope.graph.model",
    "Machine": "npuscope.machine.model",
    "NpuscopeError": "npuscope.errors",
    "Profile": "npuscope.profiling.model",
    "Program": "npuscope.program.model",
    "load": "npuscope.loading",
    "load_machine": "npuscope.loading",
    "load_model": "npuscope.loading",
}
__all__ = [*sorted((*_PLACES, "__version__", *_VERBS))]


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    if name not in _VERBS:
        raise AttributeError(f"module 'npuscope' has no attribute '{name}'")
    from npuscope.verbs.table import module_of

    return getattr(module_of(name), name)
