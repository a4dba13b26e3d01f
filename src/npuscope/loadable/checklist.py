"""What a build needs on a board: files to write, memories to power and open, caches to keep."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from npuscope.bounded_file import POOL_IMAGE, read_bytes
from npuscope.loadable.checklist_memories import Agent, Traffic, UsedMemory, memories
from npuscope.program.ec_blob.tables import COEFFICIENT_POOL
from npuscope.program.model import Buffer, Epoch, EpochKind, Program
from npuscope.program.network_c.layout import dialect
from npuscope.program.sources import read_program
from npuscope.shown import Rows, ShownRecord

CACHE_LINE_BYTES = 32  # of the CPU's data cache
_BLOB_ALIGN_BYTES = 8
_MOST_FILES = 2000


class Initialiser(Struct, frozen=True):
    """Bytes that have to be in a pool before the first run; no `file` if it was not found."""

    pool: str
    file: str
    address: int
    relative: bool
    needed_bytes: int
    size_bytes: int = 0
    crc32: int | None = None

    @property
    def problem(self) -> str:
        if not self.file:
            return "its file is missing"
        short = self.size_bytes < self.needed_bytes
        return f"the file ends before byte {self.needed_bytes:,}" if short else ""


class CacheWork(Struct, frozen=True):
    """A buffer that CPU and NPU share. `generated`: network.c has the calls already."""

    buffer: str
    pool: str
    address: int
    size_bytes: int
    reason: str
    action: str
    npu_cache: bool
    generated: bool

    @property
    def aligned(self) -> bool:
        return not (self.address % CACHE_LINE_BYTES or self.size_bytes % CACHE_LINE_BYTES)


class Checklist(ShownRecord, frozen=True):
    network: str
    source: str
    initialisers: tuple[Initialiser, ...]
    memories: tuple[UsedMemory, ...]
    caches: tuple[CacheWork, ...]
    alignment: tuple[str, ...]
    notes: tuple[str, ...]

    def told(self) -> str:
        files, memories = len(self.initialisers), len(self.memories)
        return f"{self.network}: files to flash: {files}, memories: {memories}"

    def table(self) -> Rows:
        """One row per file."""
        return [asdict(row) for row in self.initialisers]


def make_checklist(path: str | Path) -> Checklist:
    """The list for a build folder, or for the network.c or c_info.json in one."""
    program = read_program(path)
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    caches = tuple(_caches(program))
    return Checklist(
        program.name,
        program.source,
        tuple(_initialisers(program, folder)),
        memories(program),
        caches,
        tuple(_alignment(program, caches)),
        tuple(_notes(program)),
    )


def _initialisers(program: Program, folder: Path) -> Iterator[Initialiser]:
    files = sorted(file for file in folder.iterdir() if file.is_file())[:_MOST_FILES]
    for pool in program.pools:
        # Bytes from the start of the pool to its last parameter.
        parameters = [
            b for b in program.buffers if b.pool == pool.name and b.is_param and not b.view_of
        ]
        needed = max((b.offset + b.size_bytes for b in parameters), default=0)
        if needed and pool.name != COEFFICIENT_POOL:
            bare = Initialiser(pool.name, "", pool.address, pool.relative, needed)
            # The vendor's name of a pool's image, else ours.
            names = [name for name in (pool.file_name, pool.name) if name]
            ends = tuple(f".{name}.{kind}" for name in names for kind in ("raw", "bin"))
            by_pool = [file for file in files if file.name.endswith(ends)]
            plain = [file for file in files if file.name == f"{pool.name}.raw"]
            image = next((file for file in (*by_pool, *plain) if file.stat().st_size), None)
            yield _measured(bare, image) if image else bare


def _measured(bare: Initialiser, file: Path) -> Initialiser:
    data = read_bytes(file, POOL_IMAGE)
    size, crc = len(data), zlib.crc32(data)
    return Initialiser(
        bare.pool, file.name, bare.address, bare.relative, bare.needed_bytes, size, crc
    )


def _caches(program: Program) -> Iterator[CacheWork]:
    traffic = Traffic(program)
    # Inputs that the application writes for the NPU, outputs that it reads from it.
    buffers = program.buffer_map()
    for name in program.inputs:
        if name in buffers and traffic.read_by_npu(traffic.span_of(buffers[name]), -1):
            action = "clean the data cache after writing it, before the run"
            yield _work(program, buffers[name], "network input", action)
    end = len(program.executed)
    for name in program.outputs:
        if name in buffers and _from_npu(traffic, buffers[name], end):
            action = "invalidate the data cache after the run, before reading it"
            yield _work(program, buffers[name], "network output", action)
    for position, epoch in enumerate(program.executed):
        if epoch.kind is not EpochKind.SW or epoch.call is None:
            continue
        call, reason = epoch.call, f"software epoch {epoch.number} ({epoch.call.kernel})"
        for name in dict.fromkeys(call.inputs):
            buffer = buffers.get(name)
            if buffer and _arrives(buffer, buffers, epoch) and _from_npu(traffic, buffer, position):
                yield _work(program, buffer, reason, "invalidate before the kernel reads it", True)
        for name in dict.fromkeys(call.outputs):
            buffer = buffers.get(name)
            if buffer and traffic.read_by_npu(traffic.span_of(buffer), position):
                yield _work(program, buffer, reason, "clean after the kernel wrote it", True)


def _arrives(buffer: Buffer, buffers: dict[str, Buffer], epoch: Epoch) -> bool:
    """A value that was made before; scratch memory is listed as an input too."""
    owner = buffers.get(buffer.view_of, buffer)
    return not buffer.is_param and owner.first < epoch.number


def _from_npu(traffic: Traffic, buffer: Buffer, before: int) -> bool:
    return traffic.writer(traffic.span_of(buffer), before) is Agent.NPU


def _work(
    program: Program, buffer: Buffer, reason: str, action: str, generated: bool = False
) -> CacheWork:
    pool = program.pool_map().get(buffer.pool)
    address = pool.address + buffer.offset if pool else buffer.offset
    cached = pool.cacheable if pool else False
    name = buffer.view_of or buffer.name
    return CacheWork(
        name, buffer.pool, address, buffer.size_bytes, reason, action, cached, generated
    )


def _alignment(program: Program, caches: tuple[CacheWork, ...]) -> Iterator[str]:
    line = CACHE_LINE_BYTES
    yield f"input and output buffers of the application: addresses in multiples of {line} bytes"
    for work in caches:
        if not work.aligned and not work.generated:
            yield (
                f"{work.buffer}: {work.size_bytes:,} bytes at {work.address:#010x} share a cache "
                f"line of {line} bytes with other data: the CPU must not write to that line"
            )
    if program.epoch_controller or any(epoch.blob is not None for epoch in program.epochs):
        yield f"blobs of the epoch controller: addresses in multiples of {_BLOB_ALIGN_BYTES} bytes"


def _notes(program: Program) -> Iterator[str]:
    """What is not about one memory or one buffer."""
    *version, dev = dialect(program.generation).runtime
    yield (
        f"runtime {'.'.join(map(str, version))}-{dev}: used with generation "
        f"{program.generation}; network.c does not compile with another one"
    )
    if any(epoch.blob is not None for epoch in program.epochs) or program.epoch_controller:
        yield (
            "epoch controller: blobs need the asynchronous runtime (LL_ATON_RT_ASYNC), its "
            "interrupt, and LL_ATON_RT_RuntimeInit before the first run; with polling they stall"
        )
    yield "clocks: enable those of the NPU, its RAMs and, if a pool is cached, CACHEAXI"
    used = {buffer.pool for buffer in program.buffers}
    if any(pool.cacheable and pool.name in used for pool in program.pools):
        yield "NPU cache (CACHEAXI): enable it, and invalidate it whenever external memory changed"
    traffic, buffers = Traffic(program), program.buffer_map()
    for name in program.inputs:
        if name in buffers and not traffic.read_by_npu(traffic.span_of(buffers[name]), -1):
            yield f"{name}: only the CPU reads this input; invalidate it if a DMA fills it"
    yield from program.notes
