"""Where the weights of a build lie: in files that the user names, beside the source, or where the
tools put them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from npuscope.bounded_file import POOL_IMAGE, is_pointer, read_bytes, read_head
from npuscope.errors import FileError, UsageError
from npuscope.program.model import Pool
from npuscope.program.network_c.read_head import is_network_c
from npuscope.program.weight_files import (
    AddressedBytes,
    PoolImages,
    is_elf,
    is_hex,
    overlaid,
    pool_image,
    read_c_arrays,
    read_elf,
    read_hex,
)
from npuscope.text import safe_terminal

log = logging.getLogger(__name__)
_PACKED = (".c", ".hex", ".o", ".elf")
_PLAIN = (".raw", ".bin")
# A project keeps its images above the folder of the source (Appli/X-CUBE-AI/App).
_LEVELS_UP = 4
_FLASHED = ("Binary", "Binaries")  # the images of the vendor's applications
_HEAD_BYTES = 4096
_PADDING = 64


class WeightSearch(Struct, frozen=True):
    """`files` lie beside the source and hold no other network's weights; `given` are words of the
    command line."""

    source: Path
    files: tuple[Path, ...]
    given: tuple[str, ...] = ()

    def find(self, pools: Sequence[Pool], ends: Mapping[str, int]) -> PoolImages:
        """`ends` are the bytes up to the last parameter of each pool that has any."""
        data: dict[str, bytes] = {}
        notes: list[str] = []
        segments = list(self._given(pools, ends))
        for pool in pools:
            image = overlaid(segments, pool.address, pool.size_bytes)
            if self.given and len(image) < ends.get(pool.name, 0):
                image = b""  # a part of them computes something, and nothing tells that it is wrong
            image = image or self._named(pool, ends.get(pool.name, 0))
            if not image and pool.name in ends:
                file = self._fitting(pool, ends[pool.name])
                if file is not None:
                    image = read_bytes(file, POOL_IMAGE)
                    size = f"{len(image):,} bytes"
                    name = safe_terminal(file.name)
                    notes.append(f"weights of {pool.name}: {name}, the file of {size}")
            if image:
                data[pool.name] = image
        return PoolImages(data, tuple(notes))

    def _given(self, pools: Sequence[Pool], ends: Mapping[str, int]) -> Iterator[AddressedBytes]:
        with_weights = [pool for pool in pools if pool.name in ends]
        for text in self.given:
            name, separator, place = text.rpartition("@")
            path = Path(name if separator else text)
            address = _address(text, place) if separator else None
            for segment in _segments(path, with_weights, address):
                ranges = [(p.address, p.address + ends[p.name]) for p in with_weights]
                if not any(segment.address < end and start < segment.end for start, end in ranges):
                    raise UsageError(
                        f"{len(segment.data):,} bytes at {segment.address:#x} are no weights of "
                        "this network",
                        where=f"--weights {safe_terminal(text)}",
                        hint=f"it has {_wanted(with_weights, ends) or 'none in a file'}",
                    )
                yield segment

    def _named(self, pool: Pool, size: int) -> bytes:
        """The image under the compiler's name, else what a build ships in its place. One that ends
        before the last parameter is another network's; one that ends with it goes before a longer
        one, which an older compile may have left."""
        if not pool.file_name:
            return b""
        ends = tuple(f".{pool.file_name}{suffix}" for suffix in _PLAIN)
        images = [f for f in self.files if f.name.endswith(ends) and _is_image(f)]
        images = [f for f in images if f.stat().st_size >= size]
        stem = self.source.stem
        images.sort(key=lambda f: (f.stat().st_size != size, not f.name.startswith(stem), f.name))
        if images:
            return read_bytes(images[0], POOL_IMAGE)
        packed = [f for f in self.files if _may_hold(f, pool)]
        packed.sort(key=lambda f: (_PACKED.index(f.suffix.lower()), not f.name.startswith(stem)))
        parts = (_unpacked(file, pool) for file in packed)
        return next((image for image in parts if image and len(image) >= size), b"")

    def holding(self, pool: Pool) -> Iterator[tuple[Path, bytes | FileError]]:
        """All files under the names of builds that hold an image of the pool, or are damaged."""
        ends = tuple(f".{pool.file_name}{suffix}" for suffix in _PLAIN)
        for file in self.files:
            if pool.file_name and file.name.endswith(ends) and _is_image(file):
                yield file, read_bytes(file, POOL_IMAGE)
            elif _may_hold(file, pool):
                try:
                    image = pool_image(file, pool.file_name, pool.address, pool.size_bytes)
                except FileError as error:
                    yield file, error
                else:
                    yield from [(file, image)] if image else []

    def _fitting(self, pool: Pool, size: int) -> Path | None:
        """A file that ends with the last parameter: to the byte under any name beside the source
        or among the images to be flashed, maybe padded under the compiler's own name above it. Of
        two different ones neither is taken."""
        folders = self.source.resolve().parents[1 : _LEVELS_UP + 1]
        flashed = (f for above in folders for name in _FLASHED for f in (above / name).glob("*"))
        beside = [f for f in (*self.files, *flashed) if f.suffix.lower() in _PLAIN]
        stem = f"{self.source.stem}_atonbuf.{pool.file_name}"
        above = [folder / f"{stem}{suffix}" for folder in folders for suffix in _PLAIN]
        for files, padding in ((beside, 1), (above, _PADDING)):
            sizes = range(size, size + padding)
            fitting = [f for f in files if _is_image(f) and f.stat().st_size in sizes]
            if len({read_bytes(f, POOL_IMAGE) for f in fitting}) == 1:
                return fitting[0]
        return None


def missing_note(pools: Sequence[Pool], ends: Mapping[str, int]) -> str:
    """What was looked for, in vain."""
    names = ", ".join(pool.name for pool in pools)
    files = " and ".join(f"*.{pool.file_name or pool.name}.raw" for pool in pools)
    return (
        f"the image of {names} is not in the folder: the program cannot be executed; looked for "
        f"{files} (.bin, .c), a .hex or .elf file with {_wanted(pools, ends)}, and a file of "
        "that size"
    )


def _wanted(pools: Sequence[Pool], ends: Mapping[str, int]) -> str:
    rows = (f"{ends.get(pool.name, 0):,} bytes at {pool.address:#x}" for pool in pools)
    return " and ".join(rows)


def _address(text: str, place: str) -> int:
    try:
        address = int(place, 0)
    except ValueError:
        address = -1
    if not 0 <= address < 1 << 32:
        raise UsageError(
            f"expected FILE or FILE@ADDRESS, found '{safe_terminal(text)}'",
            where="--weights",
            hint="such as network_data.bin@0x70380000",
        )
    return address


def _segments(path: Path, pools: Sequence[Pool], address: int | None) -> Iterable[AddressedBytes]:
    """What a file holds, where it belongs: as it says itself, as asked, or in the one pool."""
    if not path.is_file():
        raise FileError("no such file", where=safe_terminal(str(path)))
    if is_pointer(path):
        raise FileError(
            "this is a Git LFS pointer, not the file itself",
            where=safe_terminal(str(path)),
            hint="fetch the file: git lfs pull",
        )
    head = read_head(path, _HEAD_BYTES)
    if is_hex(head):
        return read_hex(path)
    if is_elf(head):
        return read_elf(path).sections
    if path.suffix.lower() == ".c":
        arrays = read_c_arrays(path)
        if address is not None and arrays:
            largest = max(arrays, key=lambda array: len(array.data))
            return [AddressedBytes(address, largest.data, largest.name)]
        images = ((pool, pool_image(path, pool.file_name, 0, 0)) for pool in pools)
        return [AddressedBytes(pool.address, data) for pool, data in images if data]
    if address is None and len(pools) != 1:
        names = ", ".join(f"{pool.name} {pool.address:#x}" for pool in pools)
        raise UsageError(
            f"{safe_terminal(path.name)} does not say where its bytes belong",
            where="--weights",
            hint=f"give FILE@ADDRESS; this network has weights in {names or 'no pool'}",
        )
    start = pools[0].address if address is None else address
    return [AddressedBytes(start, read_bytes(path, POOL_IMAGE))]


def _is_image(file: Path) -> bool:
    if not file.is_file() or not 0 < file.stat().st_size <= POOL_IMAGE.most_bytes:
        return False
    return not is_pointer(file)


def _may_hold(file: Path, pool: Pool) -> bool:
    suffix = file.suffix.lower()
    if suffix not in _PACKED or not file.stat().st_size:
        return False
    if suffix == ".c" and not file.stem.endswith(f"atonbuf.{pool.file_name}"):
        # Arrays of weights under another name; a network only declares them.
        start = f"_mem_pool_{pool.file_name}".encode()
        return start in read_head(file, _HEAD_BYTES) and not is_network_c(file)
    return suffix != ".o" or file.stem.endswith(f"atonbuf.{pool.file_name}")


def _unpacked(file: Path, pool: Pool) -> bytes:
    """A damaged file holds no weights; the network can be timed all the same."""
    try:
        return pool_image(file, pool.file_name, pool.address, pool.size_bytes)
    except FileError as error:
        log.warning("%s: %s; ignored", error.where, error.message)
        return b""
