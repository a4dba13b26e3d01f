"""What makes two runs the same: the model's bytes, the machine, the options, the version."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from typing import Any

from npuscope.version import __version__


def run_key(model_sha256: str, machine_text: str, asked: Mapping[str, Any]) -> str:
    """The fingerprint of a run. Names of files and of choices do not count."""
    parts = (model_sha256, machine_text, canonical(asked), __version__)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def versions() -> dict[str, str]:
    """What driver and workers must have in common."""
    major, minor, _ = platform.python_version_tuple()
    return {"npuscope": __version__, "python": f"{major}.{minor}"}
