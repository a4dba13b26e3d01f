"""A runtime-loadable image that was built, or could be, as text and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.loadable.build import Package
from npuscope.loadable.build_network import SourceNetwork
from npuscope.loadable.pack_pools import PoolPlan
from npuscope.report.loadable import boxed, image_text, pool_table, size_lines
from npuscope.shown import counted
from npuscope.text import safe_terminal

SCHEMA = "npuscope/package/1"
_BRIEF, _FULL = 0, 2


class Packaging(Struct, frozen=True):
    """An image, and the files that were written."""

    package: Package
    paths: tuple[Path, ...]
    cpu: str


class PackagePlan(Struct, frozen=True):
    """What would be packaged: `--parse-only`."""

    TEXT = LOG = "npuscope.report.package:plan_text"
    JSON = "npuscope.report.package:plan_json"

    network: SourceNetwork
    plan: PoolPlan


def packaging_text(packaging: Packaging, *, verbosity: int, unused: tuple[str, ...]) -> str:
    package, paths = packaging.package, packaging.paths
    image = package.image
    how = "runs in place (XIP) or from RAM" if not package.obstacle else "runs from RAM only"
    answer = f"{safe_terminal(str(paths[0]))}: {image.size_bytes:,} bytes, {how}"
    if verbosity == _BRIEF:
        return answer
    body = [*size_lines(image), "", *pool_table(image)]
    if verbosity == _FULL:
        body = image_text(safe_terminal(str(paths[0])), image).splitlines()
    file_lines = [
        f' creating "{safe_terminal(str(path))}" (size={len(package.files[path.name]):,})'
        for path in paths
    ]
    notes = [f"note     {safe_terminal(note)}" for note in (*unused, *package.notes)]
    if package.obstacle:
        notes.insert(0, f"no XIP   {package.obstacle}")
    # Indentation and words follow the output of the vendor's packager.
    indented = [f"   {line}".rstrip() for line in (*body, "", "Generating files...", *file_lines)]
    return "\n".join([answer, "", *indented, *([""] if notes else []), *notes])


def packaging_json(packaging: Packaging, *, split: bool, unused: tuple[str, ...]) -> dict[str, Any]:
    package, paths = packaging.package, packaging.paths
    image = package.image
    return {
        "schema": SCHEMA,
        "name": package.name,
        "files": [str(path) for path in paths],
        "file_bytes": {str(path): len(package.files[path.name]) for path in paths},
        "xip_bytes": image.xip_bytes,
        "copy_bytes": image.copy_bytes,
        "params_offset": image.header.params_offset,
        "params_bytes": image.context.params_bin_sz,
        "pools": [
            _pool(
                p.name,
                p.descriptor.flags,
                p.flags.text,
                p.descriptor.foff,
                p.descriptor.dst,
                p.descriptor.size,
            )
            for p in image.pools
        ],
        "xip": not package.obstacle,
        "xip_reason": package.obstacle,
        "external_ram_bytes": image.context.ext_ram_sz,
        "cpu": packaging.cpu,
        "toolchain": package.toolchain,
        "runtime": image.runtime,
        "secure": image.flags.secure,
        "split": split,
        "notes": [*unused, *package.notes],
    }


# --- What would be packaged ---


def plan_text(package_plan: PackagePlan) -> str:
    network, plan = package_plan.network, package_plan.plan
    answer = (
        f"{safe_terminal(network.name)} can be packaged: {counted(len(plan.pools), 'pool')}, "
        f"{len(plan.parameters):,} bytes of parameters"
    )
    rows: list[tuple[str, ...]] = [
        (
            safe_terminal(p["name"]),
            f"{p['flags']:08x} {p['flags_text']}",
            str(p["foff"]),
            f"{p['dst']:08x}",
            str(p["size"]),
        )
        for p in _planned_pools(plan)
    ]
    table = boxed(("name", "flags", "foff", "dst", "size"), rows) if rows else []
    return "\n".join([answer, "", *table])


def plan_json(plan: PackagePlan) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "name": plan.network.name,
        "parse_only": True,
        "files": [],
        "params_bytes": len(plan.plan.parameters),
        "pools": _planned_pools(plan.plan),
        "notes": list(plan.network.program.notes),
    }


def _planned_pools(plan: PoolPlan) -> list[dict[str, Any]]:
    return [
        _pool(p.name, p.flags.pack(), p.flags.text, p.foff, p.dst, p.size_bytes) for p in plan.pools
    ]


def _pool(name: str, flags: int, text: str, foff: int, dst: int, size: int) -> dict[str, Any]:
    return {
        "name": name,
        "flags": flags,
        "flags_text": text,
        "foff": foff,
        "dst": dst,
        "size": size,
    }
