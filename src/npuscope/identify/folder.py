"""A tool's output folder as a whole: what belongs together, and what is missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.errors import FileError
from npuscope.families.interface import function_at
from npuscope.identify.build_files import OtherFile
from npuscope.identify.folder_check import (
    FolderFile,
    contradictions,
    missing,
    relations_of_c,
    relations_of_json,
    relations_of_text,
    together,
)
from npuscope.identify.sample import FileFacts, Sample
from npuscope.identify.table import Identity, format_of

MAX_FILES = 2000
MAX_DEPTH = 6
# Models are only fingerprinted here, and images only measured: a folder may hold many.
_DIGESTED = ("tflite", "onnx")
_READ = (
    "c_info",
    "quant_json",
    "generate_report",
    "cpu_report",
    "report_json",
    "network_c",
    "ec_blob",
    "program",
)


class Folder(Struct, frozen=True):
    """`together` and `missing` are sentences, one a line."""

    path: str
    files: tuple[FolderFile, ...]
    others: tuple[str, ...]  # files of no kind that is known
    together: tuple[str, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def of_kind(self, kind: str) -> tuple[FolderFile, ...]:
        return tuple(file for file in self.files if file.kind == kind)

    @property
    def networks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(file.network for file in self.files if file.network))


def recognise(folder: str | Path) -> Folder:
    """Look at every file, then at how they fit."""
    root = Path(folder)
    paths, notes = _walk(root)
    files: list[FolderFile] = []
    others: list[str] = []
    for path in paths:
        below = path.relative_to(root).as_posix()
        try:
            files.append(_look(path, below))
        except FileError as error:
            others.append(below)
            if not isinstance(error, OtherFile):  # what is damaged is told
                notes.append(f"{below}: {error.message}")
    rows = tuple(files)
    notes += contradictions(rows)
    return Folder(str(folder), rows, tuple(others), together(rows), missing(rows), tuple(notes))


def identity_of(folder: Folder) -> Identity:
    kinds: dict[str, int] = {}
    for file in folder.files:
        kinds[file.kind] = kinds.get(file.kind, 0) + 1
    rows = [
        {
            "path": file.path,
            "kind": file.kind,
            "version": file.version,
            "bytes": file.size_bytes,
            "network": file.network,
            **{k: v for k, v in file.facts.items() if k in ("epochs", "sw_epochs", "model_md5")},
        }
        for file in folder.files
    ]
    summary = {
        "files": len(folder.files) + len(folder.others),
        "kinds": kinds,
        "networks": list(folder.networks),
        "together": list(folder.together),
        "missing": list(folder.missing),
        "notes": list(folder.notes),
        "values": {"files": rows},
    }
    return Identity("folder", "", summary, folder.others)


def _walk(root: Path) -> tuple[list[Path], list[str]]:
    """Regular files below the folder, in order, up to the limits."""
    paths: list[Path] = []
    notes: list[str] = []
    top = root.resolve()
    for place, folders, names in os.walk(root, followlinks=False):
        here = Path(place)
        folders.sort()
        if len(here.relative_to(root).parts) >= MAX_DEPTH and folders:
            notes.append(f"{here.relative_to(root).as_posix()}: folders below it are not searched")
            folders.clear()
        for path in (here / name for name in sorted(names)):
            if not _inside(path, top):
                continue
            if len(paths) == MAX_FILES:
                notes.append(f"only the first {MAX_FILES} files were searched")
                return paths, notes
            paths.append(path)
    return paths, notes


def _inside(path: Path, top: Path) -> bool:
    """A link out of the folder is somebody else's file."""
    try:
        return path.is_file() and (not path.is_symlink() or path.resolve().is_relative_to(top))
    except OSError:
        return False


def _look(path: Path, below: str) -> FolderFile:
    sample = Sample(path)
    row = format_of(sample)
    facts: dict[str, Any] = {}
    version = ""
    if row.kind in _DIGESTED:
        facts = {"model_md5": sample.digest()}
    elif row.kind in _READ:
        inspection: FileFacts = function_at(row.inspect)(sample)
        facts, version = inspection.summary, inspection.version
    facts = {**facts, **_relations(row.kind, sample)}
    return FolderFile(below, row.kind, version, sample.size, network_of(path.name, row.kind), facts)


def _relations(kind: str, sample: Sample) -> dict[str, Any]:
    """What a file says about others."""
    if kind in ("c_info", "quant_json"):
        return relations_of_json(sample.document)
    if kind in ("generate_report", "validate_report"):
        return relations_of_text(sample.text)
    return relations_of_c(sample.text) if kind == "network_c" else {}


# What tools put behind the network's name.
_ENDINGS = {
    "c_info": "_c_info.json",
    "generate_report": "_report.txt",
    "cpu_report": "_report.txt",
    "report_json": "_report",
    "weights_c": "_atonbuf.",
    "stai_api": ".",
    "network_h": ".h",
    "validate_report": "_validate_report.txt",
    "raw_image": "_atonbuf.",
    "ec_blob": "_ecblobs.h",
    "network_c": ".c",
}


def network_of(name: str, kind: str) -> str:
    """The network a file belongs to, as its name tells; nothing where it does not."""
    ending = _ENDINGS.get(kind)
    if ending is None or ending not in name:
        return ""
    stem = name.partition(ending)[0]
    stem = stem.removeprefix("stai_") if kind == "stai_api" else stem
    return stem.removesuffix("_generate").removesuffix("_analyze")
