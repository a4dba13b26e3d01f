"""C sources that every image is built from: in the wheel, or in the source tree beside src."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from npuscope.errors import InternalError

_INSTALLED = Path(__file__).resolve().parent.parent / "firmware"
_IN_TREE = Path(__file__).resolve().parents[3] / "firmware"
_SCALAR_FLOATS = "_float.c"


@dataclass(frozen=True, slots=True)
class ImageSource:
    """A file of ours that belongs into images, and the flags that only it needs."""

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
