"""What is to be packaged: a network.c with its folder, its program, and its pools' images."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from npuscope.bounded_file import POOL_IMAGE, read_bytes
from npuscope.errors import FileError, InternalError, UsageError
from npuscope.loadable.foreign_source import ForeignSource, read_source
from npuscope.loadable.pack_pools import RELOCATABLE_HINT
from npuscope.program.addresses import pool_symbol
from npuscope.program.code_files import DATA_ENDING
from npuscope.program.model import JSON_NAME, Pool, Program, images
from npuscope.program.serialize import load
from npuscope.program.sources import read_program
from npuscope.text import file_name, safe_terminal

# --- C sources of every image: in the wheel, or beside src in the source tree ---

_INSTALLED = Path(__file__).resolve().parent.parent / "firmware"
_IN_TREE = Path(__file__).resolve().parents[3] / "firmware"
_SCALAR_FLOATS = "_float.c"


class ImageSource(Struct, frozen=True):
    """A source of npuscope that goes into images, and the flags that only it needs."""

    path: Path
    flags: tuple[str, ...]


def firmware_folder() -> Path:
    for folder in (_INSTALLED, _IN_TREE):
        if (folder / "include").is_dir():
            return folder
    raise InternalError("the C sources of the firmware are missing from this installation")


def include_folders(firmware: Path) -> tuple[Path, ...]:
    """What a network.c may include, the most special first."""
    include = firmware / "include"
    return include, include / "freestanding", firmware / "kernels"


def own_headers(firmware: Path) -> frozenset[str]:
    folders = include_folders(firmware)
    return frozenset(file.name for folder in folders for file in folder.glob("*.h"))


def image_sources(firmware: Path) -> tuple[ImageSource, ...]:
    """Kernels and drivers; the linker leaves out what a network does not call."""
    kernels = [ImageSource(path, _kernel_flags(path)) for path in _files(firmware / "kernels")]
    drivers = [ImageSource(path, ("-Os",)) for path in _files(firmware / "npu")]
    own = [ImageSource(path, ("-Os",)) for path in _files(firmware / "image")]
    # The compiler must not turn a copying loop into a call of the function it stands in.
    memory = firmware / "runtime" / "memory.c"
    moves = [ImageSource(memory, ("-O2", "-fno-builtin"))] if memory.is_file() else []
    return (*kernels, *drivers, *own, *moves)


def all_headers(firmware: Path) -> tuple[Path, ...]:
    return tuple(sorted(firmware.rglob("*.h")))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.c"))


def _kernel_flags(path: Path) -> tuple[str, ...]:
    """Vectors of floats flush denormal numbers and single ones do not: all CPUs must agree."""
    if path.name.endswith(_SCALAR_FLOATS):
        return ("-O2", "-fno-tree-vectorize", "-fno-tree-slp-vectorize")
    return ("-O2",)


_SUFFIX = re.compile(r"\bLL_ATON_EpochBlockItems_([A-Za-z_]\w*)\s*\(\s*void\s*\)")
_OURS = re.compile(r"\A/\*\s*\*\s*Written by npuscope ")
_SYMBOL = re.compile(r"\bextern\s+(?:const\s+)?unsigned\s+char\s+(_mem_pool_\w+)\s*\[")
_DEFAULT = "network"
_HINT = f"give the folder of a compiled network: {RELOCATABLE_HINT}"


class SourceNetwork(Struct, frozen=True):
    """`suffix` ends the names of the source's functions; `symbols` are pools by identifier."""

    name: str
    suffix: str
    source: ForeignSource
    program: Program
    images: dict[str, bytes]
    symbols: dict[int, str]


def read_network(path: Path, name: str = "", program: Program | None = None) -> SourceNetwork:
    """`name` is what the image will be called; a folder's source of that name is taken first.
    `program` is what the source was written from, where that is known."""
    file = _find(path, name)
    source = read_source(file, own_headers(firmware_folder()))
    suffix_match = _SUFFIX.search(source.text)
    if suffix_match is None:
        raise FileError("is not a network.c: it has no epochs", where=str(file), hint=_HINT)
    # Our own folders hold the program itself; otherwise the source is read back.
    if program is None:
        own = _OURS.match(source.text) and (file.parent / JSON_NAME).is_file()
        program = load(file.parent) if own else read_program(file)
    # Symbols of the relative pools: by their name, else in the order of their declarations.
    suffix = suffix_match[1]
    declared = list(dict.fromkeys(_SYMBOL.findall(source.text)))
    pools = [pool for pool in program.pools if pool.relative and not pool.virtual]
    symbol_of = {pool.name: pool_symbol(pool, suffix) for pool in pools}
    if not set(symbol_of.values()) <= set(declared) and len(declared) == len(pools):
        symbol_of = dict(zip(symbol_of, declared, strict=True))
    symbols: dict[int, str] = {}
    for pool in pools:
        if symbol_of[pool.name] not in declared:
            continue
        if int(pool.writable) in symbols:
            raise UsageError("two relative pools of one kind", where=safe_terminal(pool.name))
        symbols[int(pool.writable)] = symbol_of[pool.name]
    return SourceNetwork(
        name=file_name(name or file.stem),
        suffix=suffix_match[1],
        source=source,
        program=program,
        images=_images(program, file),
        symbols=symbols,
    )


def _find(path: Path, name: str) -> Path:
    if path.is_file() and path.suffix == ".c":
        return path
    if not path.is_dir():
        raise FileError("no such folder, and no .c file", where=str(path), hint=_HINT)
    candidates = [path / f"{stem}.c" for stem in (name, _DEFAULT) if stem]
    present = [file for file in candidates if file.is_file()]
    if present:
        return present[0]
    others = sorted(file for file in path.glob("*.c") if not file.name.endswith(DATA_ENDING))
    if len(others) == 1:
        return others[0]
    what = "holds no network.c" if not others else "holds several .c files"
    hint = _HINT if not others else "name the one with -i"
    if not others and (path / JSON_NAME).is_file():
        hint = "`npuscope compile` names the epoch that cannot be written in C"
    raise FileError(what, where=str(path), hint=hint)


def _images(program: Program, file: Path) -> dict[str, bytes]:
    """Of a vendor's build, from whatever held its weights when it was read."""
    image_by_pool: dict[str, bytes] = {}
    read = {} if program.source == "npuscope" else images(program)
    for pool in program.pools:
        fixed = read.get(pool.name) if not pool.relative else None
        image = None if pool.virtual else fixed or _image(pool, file)
        if image is not None:
            image_by_pool[pool.name] = image
    return image_by_pool


def _image(pool: Pool, file: Path) -> bytes | None:
    """The initialiser of a pool: *.<file name>.raw, that of the same network first."""
    ending = f".{pool.file_name or pool.name}"
    files = [f for f in sorted(file.parent.iterdir()) if f.is_file() and f.stat().st_size]
    raw = [f for f in files if f.name.endswith(f"{ending}.raw")]
    if not raw and any(f.name.endswith(f"{ending}.hex") for f in files):
        raise FileError(
            f"the initialiser of {safe_terminal(pool.name)} is in Intel HEX, with fixed addresses",
            where=str(file.parent),
            hint='compile with "fformat": "FORMAT_RAW" in the .mpool file',
        )
    if not raw:
        return None
    file_of_pool = min(raw, key=lambda f: (not f.name.startswith(file.stem), f.name))
    return read_bytes(file_of_pool, POOL_IMAGE)
