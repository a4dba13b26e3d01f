"""What makes two runs the same: the model's bytes, the machine, the options, the version."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from typing import Any

import orjson

from npuscope.machine.model import Machine
from npuscope.machine.schema import build as build_record
from npuscope.version import __version__


def run_key(model_sha256: str, machine_text: str, asked: Mapping[str, Any]) -> str:
    """The fingerprint of a run. Names of files and of choices do not count."""
    parts = (model_sha256, machine_text, canonical(asked), __version__)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def machine_text(machine: Machine) -> str:
    """The whole machine as JSON: what its TOML, a pool file and what-if values came to."""
    return orjson.dumps(machine, option=orjson.OPT_SORT_KEYS).decode()


def machine_from(text: str) -> Machine:
    return build_record(Machine, json.loads(text))


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def versions() -> dict[str, str]:
    """What driver and workers must have in common."""
    major, minor, _ = platform.python_version_tuple()
    return {"npuscope": __version__, "python": f"{major}.{minor}"}
