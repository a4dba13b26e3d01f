"""A machine for images that are loaded at run time: external memories get their place then."""

from __future__ import annotations

from dataclasses import replace

from npuscope.machine.model import Machine


def with_relative_pools(machine: Machine) -> Machine:
    """External pools (those behind the NPU's cache) relative, all others where they are."""
    pools = tuple(replace(p, relative=p.relative or p.cacheable) for p in machine.pools)
    return machine.with_pools(pools)
