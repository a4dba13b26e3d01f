"""Weights that are not what, or not where, the program expects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from msgspec import Struct

from npuscope.diagnosis.causes.registry import FaultPlace, cause
from npuscope.diagnosis.fault import BoardFault, ImageChange
from npuscope.diagnosis.scene import BoardScene
from npuscope.diagnosis.sights import Bytes
from npuscope.program.model import images

ERASED = 0xFF
_FLASH_START, _FLASH_END, _EXTERNAL_END = 0x70000000, 0x90000000, 0xA0000000
# Headers, alignments and slots by which an image lands beside its place.
_SHIFTS = (16, 32, 64, 128, 256, 512, 0x400, 0x1000, 0x2000, 0x10000, 0x20000)
_SHIFTS_BEFORE = (16, 32, 0x400, 0x1000)  # those that are left out where they are expected
_SHIFT_STEP, _MOST_SHIFT = 16, 0x1000  # others, tried where nothing else fits
SECTORS = (0x1000, 0x10000, 0x20000)
MOST_SECTORS = 48  # of which ranges are tried too
_MOST_SINGLE_SECTORS = 4096
# (dummy cycles of the chip - those of the host) * 2 bytes in octal DTR, that of a public case
# first, and lengths of a burst.
_LATE_BYTES = (28, 4, 8, 12, 16, 20, 24)
_BURSTS = (32, 64, 128)


def _by_pool(scene: BoardScene) -> Iterator[tuple[str, tuple[str, ...]]]:
    """All weights at once, then those of each pool: one file is written for each."""
    pools = tuple(scene.images)
    if pools:
        yield "all weights", pools
    if len(pools) > 1:
        for pool in pools:
            yield f"the weights in {pool}", (pool,)


def _pools_between(scene: BoardScene, start: int, end: int) -> tuple[str, ...]:
    """Pools with weights at these addresses."""
    return tuple(p for p in scene.images if start <= scene.program.pool(p).address < end)


def _in_pools(pools: tuple[str, ...], edit: Callable[[Bytes], Bytes]) -> ImageChange:
    return lambda pool, image: edit(image) if pool in pools else image


def _constant(pools: tuple[str, ...], value: int) -> ImageChange:
    return _in_pools(pools, lambda image: np.full_like(image, value))


def _shifted(image: Bytes, count: int) -> Bytes:
    """The NPU reads `count` bytes behind (or, if negative, before) the place that it should."""
    result = np.full_like(image, ERASED)
    if abs(count) < image.size:
        source, target = (slice(count, None), slice(None, -count))
        if count < 0:
            source, target = slice(None, count), slice(-count, None)
        result[target] = image[source]
    return result


def _replaced(image: Bytes, start: int, end: int, value: int) -> Bytes:
    result = image.copy()
    result[start:end] = value
    return result


class _Constant(Struct, frozen=True):
    """Weights that read as one byte: for all, or for the NPU alone."""

    id: str
    title: str
    remedy: str
    often: int
    value: int
    only_npu: bool = False

    def faults(self, scene: BoardScene) -> Iterator[BoardFault]:
        for words, pools in _by_pool(scene):
            change = _constant(pools, self.value)
            if self.only_npu:
                text = f"the NPU reads {words} as 0x{self.value:02X}"
                yield BoardFault(text, image_read=change)
            else:
                yield BoardFault(f"{words} are 0x{self.value:02X}", image=change)


for _row in (
    _Constant(
        "weights-zero",
        "The weights read as zero: never loaded into RAM, or in a RAM that lost them",
        "load the weights' file to the address in the network's file before the first run (a file "
        "for internal RAM has to be copied there at every boot)",
        5,
        0,
    ),
    _Constant(
        "weights-erased",
        "The weights were never flashed: the flash is erased (0xFF)",
        "flash the weights' file too: the application's image does not hold it",
        6,
        ERASED,
    ),
    _Constant(
        "weights-blocked",
        "The NPU may not read the weights and gets zeros, while the CPU may",
        "give the NPU's master and the memory's region the same security attributes (RIF, RISAF) "
        "before the first run; the CPU reads the weights well meanwhile",
        3,
        0,
        only_npu=True,
    ),
):
    cause(_row.id, FaultPlace.WEIGHTS, _row.remedy, _row.often, title=_row.title)(_row.faults)


@cause(
    "weights-shifted",
    FaultPlace.WEIGHTS,
    "flash the image at the address of its pool, without a header in front of it",
    often=4,
)
def shifted(scene: BoardScene) -> Iterator[BoardFault]:
    """The weights lie beside their address."""
    for words, pools in _by_pool(scene):
        largest = max(scene.images[pool].size for pool in pools)
        steps = range(_SHIFT_STEP, _MOST_SHIFT + 1, _SHIFT_STEP)
        for count in dict.fromkeys((*_SHIFTS, *steps)):
            for signed in (count, -count):
                if count < largest:
                    place = "behind" if signed < 0 else "before"
                    change = _in_pools(pools, partial(_shifted, count=signed))
                    text = f"{words} lie {count} bytes {place} their address"
                    is_rare = count not in (_SHIFTS if signed < 0 else _SHIFTS_BEFORE)
                    yield BoardFault(text, image=change, rare=is_rare)


@cause(
    "weights-other-build",
    FaultPlace.WEIGHTS,
    "flash the weights that were written together with this network.c",
    often=4,
)
def other_build(scene: BoardScene) -> Iterator[BoardFault]:
    """The weights are those of another build."""
    for words, change in _others(scene):
        yield BoardFault(f"{words} are in flash", image=change)


@cause(
    "weights-stale-cache",
    FaultPlace.WEIGHTS,
    "invalidate the NPU cache after writing weights to external memory, or reset the board",
    often=1,
)
def stale_cache(scene: BoardScene) -> Iterator[BoardFault]:
    """The NPU's cache still holds the weights of the build before."""
    for words, change in _others(scene):
        yield BoardFault(f"the NPU reads {words}", image_read=change)


def _others(scene: BoardScene) -> Iterator[tuple[str, ImageChange]]:
    """The weights of the other build, where there is one."""
    if scene.other is None:
        return
    theirs = {pool: np.frombuffer(data, np.uint8) for pool, data in images(scene.other).items()}

    def change(pool: str, image: Bytes) -> Bytes:
        if pool not in theirs:
            return image
        result = np.full_like(image, ERASED)
        count = min(image.size, theirs[pool].size)
        result[:count] = theirs[pool][:count]
        return result

    yield f"weights of {scene.other.model_file or scene.other.name}", change


@cause(
    "weights-part-lost",
    FaultPlace.WEIGHTS,
    "read the flash back and compare it with the file; keep the application's slot, which may "
    "have grown over it, and other writers away from the weights",
    often=3,
)
def part_lost(scene: BoardScene) -> Iterator[BoardFault]:
    """A part of the weights is erased or overwritten."""
    for pool, image in scene.images.items():
        fitting = [s for s in SECTORS if 1 < -(-image.size // s) <= MOST_SECTORS]
        usual = max(fitting[:2], default=0)
        for value, what in ((ERASED, "0xFF"), (0, "0x00")):
            for sector in fitting:
                for number in range(-(-image.size // sector)):
                    start, end = number * sector, min((number + 1) * sector, image.size)
                    for first, last, words in (
                        (start, end, f"bytes {start:#x} to {end:#x}"),
                        (start, image.size, f"everything from byte {start:#x} on"),
                        (0, end, f"everything up to byte {end:#x}"),
                    ):
                        if last - first < image.size:
                            edit = partial(_replaced, start=first, end=last, value=value)
                            change = _in_pools((pool,), edit)
                            text = f"{words} of {pool} are {what}"
                            is_rare = value != ERASED or first < start or sector != usual
                            yield BoardFault(text, image=change, rare=is_rare)
    # Single sectors of an image of many: an erase that went to a wrong address.
    for pool, image in scene.images.items():
        for sector in SECTORS:
            for start in range(0, image.size, sector):
                if MOST_SECTORS < -(-image.size // sector) <= _MOST_SINGLE_SECTORS:
                    end = min(start + sector, image.size)
                    edit = partial(_replaced, start=start, end=end, value=ERASED)
                    text = f"bytes {start:#x} to {end:#x} of {pool} are 0xFF"
                    yield BoardFault(text, image=_in_pools((pool,), edit), rare=True)


@cause(
    "flash-dummy-cycles",
    FaultPlace.WEIGHTS,
    "set the same number of dummy cycles in the flash and in its controller",
    often=2,
)
def dummy_cycles(scene: BoardScene) -> Iterator[BoardFault]:
    """The flash is read with too few dummy cycles: each burst comes late."""
    flash = _pools_between(scene, _FLASH_START, _FLASH_END)
    for late in _LATE_BYTES if flash else ():
        for burst in _BURSTS:
            if late < burst:
                change = _in_pools(flash, partial(_late, late=late, burst=burst))
                text = f"bursts of {burst} bytes come {late} bytes late"
                yield BoardFault(text, image=change, rare=late != _LATE_BYTES[0])


def _late(image: Bytes, late: int, burst: int) -> Bytes:
    padded = np.full(-(-image.size // burst) * burst, ERASED, np.uint8)
    padded[: image.size] = image
    rows = padded.reshape(-1, burst)
    result = np.full_like(rows, ERASED)
    result[:, late:] = rows[:, :-late]
    return result.reshape(-1)[: image.size]


@cause(
    "flash-unmapped",
    FaultPlace.WEIGHTS,
    "switch flash and PSRAM to memory-mapped mode before the NPU is initialised",
    often=3,
)
def unmapped(scene: BoardScene) -> Iterator[BoardFault]:
    """The external memory of the weights is not mapped: every word reads the same."""
    outside = _pools_between(scene, _FLASH_START, _EXTERNAL_END)
    for value in (0x00, ERASED) if outside else ():
        change = _constant(outside, value)
        words = f"{' and '.join(outside)} read as 0x{value:02X}"
        yield BoardFault(words, image=change, unmapped=True)
