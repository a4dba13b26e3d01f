"""Whether an image loads on a firmware: what it asks for against what is offered."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from npuscope.errors import TargetError
from npuscope.loadable.boards import PSRAM_START, board_named
from npuscope.loadable.checklist_memories import memories
from npuscope.loadable.codes import Cpu, cpu_name
from npuscope.loadable.firmware_map import (
    FirmwareMap,
    FirmwareRegion,
    known_maps,
    load_firmware_map,
)
from npuscope.loadable.image import Image, ImagePool
from npuscope.loadable.image_model import version_text
from npuscope.program.model import Program

# The NPU's cache lies in front of external memories only.
EXTERNAL_FROM = 0x60000000
_NOT_STATED = "not stated"


class FitCheck(Struct, frozen=True):
    """`passed` is None where the firmware's file does not say."""

    name: str
    asked: str
    offered: str
    passed: bool | None


class Fitting(Struct, frozen=True):
    """Checks that hold for both ways of loading, and those of each."""

    firmware: str
    common: tuple[FitCheck, ...]
    xip: tuple[FitCheck, ...]
    copy: tuple[FitCheck, ...]

    @property
    def xip_loads(self) -> bool:
        return _passed((*self.common, *self.xip))

    @property
    def copy_loads(self) -> bool:
        return _passed((*self.common, *self.copy))

    @property
    def loads(self) -> bool:
        return self.xip_loads or self.copy_loads


def fit(image: Image, firmware: FirmwareMap) -> Fitting:
    damaged = FitCheck("checksums", "right", "wrong: the file is damaged", False)
    common = (
        *_built_as(image, firmware),
        *(() if image.whole else (damaged,)),
        *_places(image, firmware),
        *(_fixed(pool, firmware) for pool in image.fixed_pools),
    )
    count = len(image.relocations.flash)
    in_place = FitCheck("code as it is", "no relocation in it", f"{count} in it", not count)
    return Fitting(
        firmware.name,
        common,
        (in_place, _exec_ram(image, firmware, image.xip_bytes)),
        (_exec_ram(image, firmware, image.copy_bytes),),
    )


def refuse_misfit(image: Image, board: str) -> None:
    """An image that a board would not load, by its firmware's map or by its memories."""
    known = board in known_maps()
    fitting = fit(image, load_firmware_map(board) if known else _memories_of(board))
    if fitting.loads:
        return
    checks = (*fitting.common, *fitting.copy)
    wrong = next(check for check in checks if check.passed is False)
    fixes = {
        "CPU": f"`npuscope package DIR` with --cpu {wrong.offered.lower()}",
        "secure": "`npuscope package DIR` with the other of --no-secure and none",
        "external RAM": f"`npuscope compile MODEL --relocatable --board {board}` does without",
    }
    raise TargetError(
        f"{board} would not load it: {wrong.name} {wrong.asked}, the board's is {wrong.offered}",
        hint=fixes.get(wrong.name, ""),
    )


def _memories_of(board: str) -> FirmwareMap:
    """What the table of boards says of a firmware; the rest is not stated."""
    row = board_named(board)
    flash = FirmwareRegion("flash", row.image_address, row.params_address - row.image_address)
    params = FirmwareRegion("params", row.params_address, row.flash_end - row.params_address)
    psram = FirmwareRegion("ext_ram", PSRAM_START, row.psram_kib * 1024)
    return FirmwareMap(
        board,
        cpu=Cpu[row.cpu.upper().replace("-", "_")],
        flash=flash,
        params=params,
        ext_ram=psram if row.psram_kib else None,
    )


def refuse_missing_memory(program: Program, board: str, added_psram: bool = False) -> None:
    """A build that uses external memory which the board does not have."""
    row = board_named(board)
    for memory in memories(program):
        if memory.address < EXTERNAL_FROM:
            continue
        end = row.external_end(memory.address, added_psram)
        if end is None or memory.address + memory.used_bytes > end:
            free = "none there" if end is None else f"memory up to {end:#010x}"
            raise TargetError(
                f"the build needs {memory.used_bytes:,} bytes of {memory.name} at "
                f"{memory.address:#010x}, and {board} has {free}",
                hint=f"compile the model for it: `npuscope compile MODEL --board {board}`; if "
                "external RAM was added, say how it is driven: --psram NAME",
            )


def _passed(checks: tuple[FitCheck, ...]) -> bool:
    # What the map does not state cannot refuse an image; the answer says that it was not checked.
    return all(check.passed is not False for check in checks)


def _built_as(image: Image, firmware: FirmwareMap) -> Iterator[FitCheck]:
    flags, context = image.flags, image.context
    yield _same("CPU", cpu_name(flags.cpu), firmware.cpu and cpu_name(firmware.cpu))
    # An image without FPU code also runs on a firmware that has the FPU.
    if flags.fpu:
        yield _same("FPU", "yes", _yes(firmware.fpu))
    yield _same("secure", _yes(flags.secure), _yes(firmware.secure))
    yield _same("debug info", _yes(flags.debug_info), _yes(firmware.debug_info))
    yield _same("asynchronous", _yes(flags.asynchronous), _yes(firmware.asynchronous))
    runtime = ".".join(map(str, firmware.runtime)) if firmware.runtime else None
    yield _same("runtime", version_text(image), runtime)
    yield _same("epoch item bytes", context.epoch_item_bytes, firmware.epoch_item_bytes)
    yield _same("buffer info bytes", context.buffer_info_bytes, firmware.buffer_info_bytes)


def _same(name: str, need: object, offered: object) -> FitCheck:
    if offered is None:
        return FitCheck(name, str(need), _NOT_STATED, None)
    return FitCheck(name, str(need), str(offered), need == offered)


def _yes(value: bool | None) -> str | None:
    return None if value is None else "yes" if value else "no"


def _places(image: Image, firmware: FirmwareMap) -> Iterator[FitCheck]:
    """The file, its parameters, and the external RAM that the loader gives a base."""
    # One file may reach over the border of the two regions if nothing lies between them.
    second = None if image.split else firmware.params
    if firmware.flash is None or second is None or second.address != firmware.flash.end:
        room = firmware.flash
    else:
        room = FirmwareRegion(
            firmware.flash.name,
            firmware.flash.address,
            firmware.flash.size_bytes + second.size_bytes,
        )
    yield _room("image in flash", image.size_bytes, room)
    if image.split:
        yield _room("parameters in flash", image.context.params_bin_sz, firmware.params)
    if image.ext_ram_bytes:
        yield _room("external RAM", image.ext_ram_bytes, firmware.ext_ram, needed=True)
    offset = image.header.params_offset
    params_base = _base(firmware.params) if image.split else _base(firmware.flash, offset)
    bases = (params_base, _base(firmware.ext_ram))
    for identifier, base in enumerate(bases):
        for pool in image.relocated(identifier):
            # The NPU cache serves external memory only, so a cached pool must not move on chip.
            if pool.flags.cached:
                yield _external(pool, base)


def _base(region: FirmwareRegion | None, offset: int = 0) -> int | None:
    return None if region is None else region.address + offset


def _room(name: str, size: int, region: FirmwareRegion | None, needed: bool = False) -> FitCheck:
    need = f"{size:,} bytes"
    if region is None:
        return FitCheck(name, need, "none" if needed else _NOT_STATED, False if needed else None)
    return FitCheck(name, need, _shown(region), size <= region.size_bytes)


def _external(pool: ImagePool, base: int | None) -> FitCheck:
    """Streams keep their cache attributes when a pool moves."""
    need = f"above {EXTERNAL_FROM:#x}: its streams are cached"
    if base is None:
        return FitCheck(f"place of {pool.name}", need, _NOT_STATED, None)
    return FitCheck(f"place of {pool.name}", need, f"{base:#010x}", base > EXTERNAL_FROM)


def _fixed(pool: ImagePool, firmware: FirmwareMap) -> FitCheck:
    """An absolute range may span pools that lie side by side."""
    start, size = pool.descriptor.dst, pool.descriptor.size
    need = f"{start:#010x} + {size:,} bytes"
    if not firmware.pools:
        return FitCheck(f"pool {pool.name}", need, _NOT_STATED, None)
    spans: list[FirmwareRegion] = []
    for region in sorted(firmware.pools, key=lambda region: region.address):
        if spans and region.address <= spans[-1].end:
            end = max(spans[-1].end, region.end)
            spans[-1] = FirmwareRegion(spans[-1].name, spans[-1].address, end - spans[-1].address)
        else:
            spans.append(region)
    near = [r for r in firmware.pools if r.address < start + max(size, 1) and r.end > start]
    offered = ", ".join(f"{region.name} {_shown(region)}" for region in near) or "no memory there"
    return FitCheck(f"pool {pool.name}", need, offered, any(s.holds(start, size) for s in spans))


def _exec_ram(image: Image, firmware: FirmwareMap, size: int) -> FitCheck:
    """RAM for code and data, apart from the pools at fixed addresses."""
    need = f"{size:,} bytes"
    if not firmware.exec_ram:
        return FitCheck("exec RAM", need, _NOT_STATED, None)
    fitting = [region for region in firmware.exec_ram if region.size_bytes >= size]
    free = [region for region in fitting if not _taken(region.address, size, image)]
    if free:
        return FitCheck("exec RAM", need, _shown(free[0]), True)
    if fitting:
        name = _taken(fitting[0].address, size, image)
        return FitCheck("exec RAM", need, f"{_shown(fitting[0])}, used by pool {name}", False)
    largest = max(firmware.exec_ram, key=lambda region: region.size_bytes)
    return FitCheck("exec RAM", need, _shown(largest), False)


def _taken(address: int, size: int, image: Image) -> str:
    """The fixed pool that lies in a range, if one does."""
    rows = [(pool.name, pool.descriptor) for pool in image.fixed_pools]
    return next((n for n, d in rows if d.dst < address + size and address < d.dst + d.size), "")


def _shown(region: FirmwareRegion) -> str:
    return f"{region.size_bytes:,} bytes at {region.address:#010x}"
