"""What is installed, as text and as JSON."""

from __future__ import annotations

import platform
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from npuscope.cache import MOST_BYTES, MOST_DAYS
from npuscope.installed import Installed, InstalledPackage
from npuscope.shown import counted
from npuscope.text import safe_terminal
from npuscope.version import __version__

_WIDTH = 100
_MIB = 1 << 20


def doctor_text(installed: Installed) -> str:
    return "\n".join(_lines(installed))


def _lines(installed: Installed) -> Iterator[str]:
    yield _verdict(installed)
    yield f"python    {platform.python_version()}, {safe_terminal(sys.executable)}"
    yield f"system    {safe_terminal(platform.platform())}"
    yield "packages"
    yield from (f"  {package.name:<16} {_state(package)}" for package in installed.required)
    yield "extras"
    for extra, packages in installed.extras:
        states = ", ".join(f"{package.name} {_state(package)}" for package in packages)
        yield f"  {extra.name:<16} {states}"
        yield from _wrapped(extra.gives)
        if _complete(packages) == "no":
            yield from _wrapped(f"get it: {extra.install}")
    yield "programs"
    for program, path in installed.programs:
        yield f"  {program.names[0]:<18} {safe_terminal(path) or 'not found'}"
        yield from _wrapped(f"for {program.good_for}")
    cache, amount = installed.kept, "empty"
    if cache.files:
        limit = f"at most {MOST_BYTES / _MIB:.0f} MiB and {MOST_DAYS} days are kept"
        size = f"{counted(cache.files, 'file')}, {cache.size_bytes / _MIB:.1f} MiB"
        amount = f"{size}; {limit}; it may be deleted at any time"
    yield f"cache     {safe_terminal(str(cache.folder))}: {amount}"


def _verdict(installed: Installed) -> str:
    """Whether the verbs work, and which groups of them need something more."""
    lacking = [package for package in installed.required if not package.is_fine]
    if lacking:
        names = " ".join(f"'{package.name}>={package.least}'" for package in lacking)
        return f"npuscope {__version__} is not ready: pip install {names}"
    states = (f"{extra.name} {_complete(packages)}" for extra, packages in installed.extras)
    return f"npuscope {__version__} is ready; extras: {', '.join(states)}"


def _complete(packages: tuple[InstalledPackage, ...]) -> str:
    return "yes" if all(package.is_fine for package in packages) else "no"


def _state(package: InstalledPackage) -> str:
    if not package.version:
        return f"missing ({package.least} or newer)"
    old = "" if package.is_fine else f", too old: {package.least} or newer is needed"
    return f"{safe_terminal(package.version)}{old}"


def _wrapped(text: str) -> list[str]:
    indent = " " * 4
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)


def doctor_json(installed: Installed) -> dict[str, Any]:
    return {
        "schema": "npuscope/doctor/1",
        "version": __version__,
        "ready": installed.ready,
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "system": platform.platform(),
        "packages": [_package(package) for package in installed.required],
        "extras": [
            {
                "name": extra.name,
                "complete": _complete(packages) == "yes",
                "gives": extra.gives,
                "install": extra.install,
                "packages": [_package(package) for package in packages],
            }
            for extra, packages in installed.extras
        ],
        "programs": [
            {"name": program.names[0], "path": path or None, "for": program.good_for}
            for program, path in installed.programs
        ],
        "cache": {
            "folder": str(installed.kept.folder),
            "files": installed.kept.files,
            "size_bytes": installed.kept.size_bytes,
            "most_bytes": MOST_BYTES,
        },
    }


def _package(package: InstalledPackage) -> dict[str, Any]:
    return {
        "name": package.name,
        "version": package.version or None,
        "least": package.least,
        "fine": package.is_fine,
    }
