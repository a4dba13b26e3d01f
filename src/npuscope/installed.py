"""What npuscope can use on this computer, what is installed, and what each part is for."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from msgspec import Struct

from npuscope.cache import cache_path, kept
from npuscope.errors import UsageError
from npuscope.shown import Rows, ShownRecord

# As in pyproject.toml; a test compares them.
REQUIRED = {
    "numpy": "2.1",
    "onnx": "1.20",
    "tflite": "2.18",
    "flatbuffers": "24.3.25",
    "msgspec": "0.20",
    "orjson": "3.9",
    "pyserial": "3.5",
    "rich": "13",
}


class Extra(Struct, frozen=True):
    """A group of packages that `pip install 'npuscope[NAME]'` brings."""

    name: str
    gives: str
    packages: dict[str, str]

    @property
    def install(self) -> str:
        return f"pip install 'npuscope[{self.name}]'"


EXTRAS = (
    Extra(
        "board",
        "`package` builds loadable images, `run` and `profile --connect emulated` execute them on "
        "an emulated Cortex-M",
        {"ziglang": "0.15.1", "unicorn": "2.1.4", "pyelftools": "0.31"},
    ),
    Extra(
        "reference",
        "`validate` compares with LiteRT (.tflite) and onnxruntime (.onnx) too",
        {"ai-edge-litert": "2.1", "onnxruntime": "1.24.1"},
    ),
    Extra(
        "sweep",
        "`sweep --scheduler` and `--local-cluster` run on dask clusters, `sweep --parquet` writes "
        "tables",
        {"distributed": "2024.1", "cryptography": "42", "pyarrow": "18.1"},
    ),
    Extra(
        "notebook",
        "`to_dataframe()` of profiles, findings, comparisons and sweeps, in Python",
        {"pandas": "2.2.3"},
    ),
    Extra(
        "data",
        "`validate --data` and `fix --data` read pictures",
        {"pillow": "11"},
    ),
    Extra(
        "tune",
        "`tune` searches spaces that are too large to try all of their points",
        {"optuna": "4.2"},
    ),
    Extra(
        "plan",
        "`plan` searches for the optimum with OR-tools, and bounds how far it is",
        {"ortools": "9.12"},
    ),
    Extra("mcp", "`mcp` offers the verbs to an assistant as tools", {"mcp": "2.0"}),
    Extra(
        "ethos-u",
        "networks are compiled for Arm Ethos-U machines (files that Vela wrote need nothing)",
        {"ethos-u-vela": "5.0"},
    ),
    Extra(
        "quantize",
        "`quantize` makes int8 models from float ones; images as calibration data",
        {"onnxruntime": "1.24.1", "ai-edge-quantizer": "0.10", "pillow": "11"},
    ),
)


def needs(package: str, module: str, extra: str) -> None:
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise UsageError(
            f"{package} is not installed",
            hint=f"pip install 'npuscope[{extra}]'",
        )


class HelperProgram(Struct, frozen=True):
    """A program outside Python; any of `names` will do."""

    names: tuple[str, ...]
    good_for: str


PROGRAMS = (
    HelperProgram(("arm-none-eabi-gcc",), "`package --toolchain gcc`; without it ziglang compiles"),
    HelperProgram(("qemu-system-arm",), "a second opinion on the C code, in npuscope's own tests"),
    HelperProgram(
        ("chromium", "chromium-browser", "google-chrome"),
        "HTML reports looked at in a browser, in npuscope's own tests",
    ),
    HelperProgram(
        ("node", "nodejs"), "traces checked by Perfetto's processor, in npuscope's own tests"
    ),
)


class InstalledPackage(Struct, frozen=True):
    """`version` is empty where it is not installed."""

    name: str
    version: str
    least: str

    @property
    def is_fine(self) -> bool:
        return bool(self.version) and _numbers(self.version) >= _numbers(self.least)


class CacheUse(Struct, frozen=True):
    folder: Path
    files: int
    size_bytes: int


def look(packages: dict[str, str]) -> tuple[InstalledPackage, ...]:
    return tuple(InstalledPackage(name, _version(name), least) for name, least in packages.items())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers: 2.0.0rc1 counts as 2.0.0."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()


def find(program: HelperProgram) -> str:
    """Its path, empty where none is found."""
    return next((path for name in program.names if (path := shutil.which(name))), "")


def cache() -> CacheUse:
    """Only looked at: a folder that is not there is not made."""
    folder = cache_path()
    entries = list(kept(folder))
    files = sum(entry.files for entry in entries)
    return CacheUse(folder, files, sum(entry.size_bytes for entry in entries))


class Installed(ShownRecord, frozen=True):
    """This installation: what is there, and which parts are complete."""

    required: tuple[InstalledPackage, ...]
    extras: tuple[tuple[Extra, tuple[InstalledPackage, ...]], ...]
    programs: tuple[tuple[HelperProgram, str], ...]  # with their paths, empty where not found
    kept: CacheUse

    @property
    def ready(self) -> bool:
        return all(package.is_fine for package in self.required)

    def told(self) -> str:
        return "ready" if self.ready else "not ready"

    def table(self) -> Rows:
        """One row per package."""
        rows = [*self.required, *(package for _, packages in self.extras for package in packages)]
        return [{"package": row.name, "version": row.version, "fine": row.is_fine} for row in rows]


def installed() -> Installed:
    return Installed(
        look(REQUIRED),
        tuple((extra, look(extra.packages)) for extra in EXTRAS),
        tuple((program, find(program)) for program in PROGRAMS),
        cache(),
    )
