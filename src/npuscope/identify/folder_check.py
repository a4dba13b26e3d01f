"""How the files of a folder fit: fingerprints of models, images of pools, blobs of sources."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from npuscope.identify.documents import model_md5
from npuscope.structs import Apart
from npuscope.text import safe_terminal

_MODELS = ("tflite", "onnx")
_DATA_HEX = re.compile(r"_data\b|_data[-_.]", re.IGNORECASE)
_MODEL_HASH = re.compile(r"model_hash {0,40}: {0,10}0x([0-9A-Fa-f]{32})\b")
# A used pool that only the tool may write has its constants in an image.
_C_POOL = re.compile(
    r"global pool \d{1,6} is (\S{1,20})[^\n]{0,200}\n[^\n]{0,40}index=\d{1,6} +"
    r"file postfix=(\S{1,80}) +name=(\S{1,200}) [^\n]{0,400}READ_ONLY"
)


class FolderFile(Apart, frozen=True):
    """A file that was recognised; `facts` is the summary of its inspector."""

    apart = ("facts",)

    path: str  # below the folder, with /
    kind: str
    version: str
    size_bytes: int
    network: str
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


Files = tuple[FolderFile, ...]


class PoolImage(Struct, frozen=True):
    """The image that a pool needs, and its size if that is told."""

    pool: str
    file: str
    size_bytes: int | None = None


def relations_of_json(record: dict[str, Any]) -> dict[str, Any]:
    """Model file, the tool's own copy of it, and images of pools that hold parameters."""
    environment = record.get("environment")
    tools = environment.get("tools") if isinstance(environment, dict) else None
    inputs = [tool.get("input_model") for tool in _dicts(tools)]
    names = [_first_name(model) for model in inputs]
    # Of every pool with a parameter in it.
    params = [b for b in _dicts(record.get("buffers")) if b.get("is_param") is True]
    used = {b.get("mpool_id") for b in params if isinstance(b.get("mpool_id"), int)}
    pools = [p for p in _dicts(record.get("memory_pools")) if p.get("id") in tuple(used)]
    return {
        "model_md5": model_md5(record),
        "model_file": next((name for name in names if name), ""),
        "copy_md5": _copy_md5(record),
        "images": [
            PoolImage(str(pool.get("name")), pool["fname"], pool.get("used_size_bytes"))
            for pool in pools
            if isinstance(pool.get("fname"), str)
        ],
    }


def _dicts(value: object) -> list[dict[str, Any]]:
    rows = value if isinstance(value, list) else []
    return [row for row in rows if isinstance(row, dict)]


def _first_name(model: object) -> str:
    files = _dicts(model.get("model_files")) if isinstance(model, dict) else []
    names = [file.get("name") for file in files]
    return next((name for name in names if isinstance(name, str)), "")


def _copy_md5(record: dict[str, Any]) -> str:
    """Fingerprint of the model that the front-end wrote for the compiler."""
    environment = record.get("environment")
    model = environment.get("generated_model") if isinstance(environment, dict) else None
    files = _dicts(model.get("model_files")) if isinstance(model, dict) else []
    signs = [file.get("signature") for file in files]
    return next((s.removeprefix("0x") for s in signs if isinstance(s, str) and len(s) == 34), "")


def relations_of_c(text: str) -> dict[str, Any]:
    pools = _C_POOL.findall(text)
    return {
        "images": [
            PoolImage(name, f"atonbuf.{file}.raw") for used, file, name in pools if used != "?"
        ]
    }


def relations_of_text(text: str) -> dict[str, Any]:
    """Console output names the model by its fingerprint."""
    match = _MODEL_HASH.search(text)
    return {"model_md5": match[1].lower()} if match else {}


def together(files: Files) -> tuple[str, ...]:
    """Files of one network, and which model each description was made from."""
    lines = []
    for network in dict.fromkeys(file.network for file in files):
        names = [_shown(file) for file in files if file.network == network]
        if network and len(names) > 1:
            lines.append(f"network '{safe_terminal(network)}': {', '.join(names)}")
    models = {f.facts["model_md5"]: f for f in files if f.kind in _MODELS}
    for file in _described(files):
        model = models.get(file.facts["model_md5"])
        copy = models.get(file.facts.get("copy_md5", ""))
        if model:
            lines.append(f"{_shown(file)} was made from {_shown(model)}: same MD5")
        if copy:
            lines.append(f"{_shown(file)} belongs to {_shown(copy)}: same MD5")
    carried = []
    for file, image in _images(files):
        pool, candidates = safe_terminal(image.pool), images_for(image, file, files)
        match = next((f for f in candidates if f.size_bytes == image.size_bytes), None)
        packed = () if candidates else packed_for(image, file, files)
        if match:
            lines.append(f"{_shown(match)} is the image of {pool} in {_shown(file)}: same size")
        if packed:
            holder = _shown(packed[0])
            carried.append(f"{holder} carries the image of {pool} in {_shown(file)}: same name")
    return (*lines, *carried)


def _images(files: Files) -> Iterable[tuple[FolderFile, PoolImage]]:
    return ((file, image) for file in files for image in file.facts.get("images", ()))


def contradictions(files: Files) -> tuple[str, ...]:
    """Descriptions of one network in one folder that name different models."""
    lines = []
    statements: dict[tuple[str, str], FolderFile] = {}
    for file in (f for f in _described(files) if f.network):
        first = statements.setdefault((file.folder, file.network), file)
        if first.facts["model_md5"] != file.facts["model_md5"]:
            names = f"{_shown(first)} and {_shown(file)}"
            lines.append(f"{names} contradict each other: they were made from different models")
    return tuple(lines)


def _described(files: Files) -> Files:
    """Files that name a model by its fingerprint."""
    return tuple(f for f in files if f.kind not in _MODELS and f.facts.get("model_md5"))


def missing(files: Files) -> tuple[str, ...]:
    """What a file names and the folder does not have."""
    lines = []
    models = {f.facts["model_md5"] for f in files if f.kind in _MODELS}
    absent: dict[str, list[FolderFile]] = {}
    for file in _described(files):
        if file.facts["model_md5"] not in models:
            absent.setdefault(file.facts["model_md5"], []).append(file)
    for digits, holders in absent.items():
        names = [name for file in holders if (name := file.facts.get("model_file"))]
        model = f" {safe_terminal(names[0])}" if names else ""
        whose = f"{', '.join(map(_shown, holders))}: {'its' if len(holders) == 1 else 'their'}"
        lines.append(f"{whose} model{model} (MD5 {digits}) is missing")
    for file, image in _images(files):
        candidates = images_for(image, file, files)
        sizes = [f.size_bytes for f in candidates]
        what = f"{_shown(file)}: the image of {safe_terminal(image.pool)}"
        if not candidates and not packed_for(image, file, files):
            lines.append(f"{what} ({safe_terminal(image.file)}) is missing")
        elif candidates and image.size_bytes and image.size_bytes not in sizes:
            words = " or ".join(f"{size:,}" for size in sizes)
            lines.append(f"{what} should have {image.size_bytes:,} bytes, found {words}")
    have = {file.network for file in files if file.kind == "ec_blob"}
    for file in files:
        if file.kind == "network_c" and file.facts.get("blobs") and file.network not in have:
            header = f"{file.network}_ecblobs.h"
            lines.append(f"{_shown(file)}: its blobs ({safe_terminal(header)}) are missing")
    return tuple(dict.fromkeys(lines))


def images_for(image: PoolImage, file: FolderFile, files: Files) -> Files:
    """Images by name, those beside the file first.

    The front-end puts the network's name before the compiler's own, applications ship the same
    bytes as `network_data.<memory>.bin`.
    """
    memory = image.file.removeprefix("atonbuf.").removesuffix(".raw")
    shipped = f"network_data.{memory}.bin"
    renamed = f"atonbuf.{memory}.bin"
    raw = (other for other in files if other.kind == "raw_image" and other.size_bytes)
    candidates = [
        f
        for f in raw
        if f.name in (image.file, shipped) or f.name.endswith((f"_{image.file}", renamed))
    ]
    return tuple(sorted(candidates, key=lambda other: other.folder != file.folder))


def packed_for(image: PoolImage, file: FolderFile, files: Files) -> Files:
    """Arrays in C, HEX files and object files in the same folder that ship an image by name."""
    memory = image.file.removeprefix("atonbuf.").removesuffix(".raw")
    beside = [f for f in files if f.folder == file.folder]
    arrays = [
        f for f in beside if f.kind in ("weights_c", "elf") and f"atonbuf.{memory}." in f.name
    ]
    hexes = [f for f in beside if f.kind == "intel_hex" and _DATA_HEX.search(f.name)]
    return tuple(arrays + hexes)


def _shown(file: FolderFile) -> str:
    return safe_terminal(file.path)
