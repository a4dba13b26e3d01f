"""What a profile says of its Program, however fast the machine is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from npuscope.compiler.place import place
from npuscope.errors import TargetError
from npuscope.graph.model import Graph, Tensor
from npuscope.machine.model import Machine, MemoryPool
from npuscope.ops.table import total_macs
from npuscope.ops.unknown import unknown_weights
from npuscope.profiling.model import Fit, MemoryUse, ModelInfo, PoolUse, TensorInfo
from npuscope.profiling.network_size import network_size
from npuscope.profiling.ranges import ranges
from npuscope.program.calls import unknown_ops
from npuscope.program.model import Buffer, Epoch, Pool, Program
from npuscope.program.network_c.writer_buffers import memory_shape
from npuscope.structs import replace

# --- Memory: use by pool, totals, lower bound, and whether the network fits ---


def memory_use(program: Program, machine: Machine) -> MemoryUse:
    """Bytes by pool. Internal RAM is the sum of the bank marks, as the vendor reports it."""
    external = {m.name for m in machine.pools if m.cacheable and m.writable}
    read_only = {m.name for m in machine.pools if not m.writable}
    real = [pool for pool in program.pools if not pool.virtual and pool.size_bytes]
    # Buffers that own memory, with their physical address.
    pool_map = program.pool_map()
    owners = (buffer for buffer in program.buffers if buffer.pool and not buffer.view_of)
    places = [(buffer, pool_map[buffer.pool].address + buffer.offset) for buffer in owners]
    pools = tuple(_pool_use(pool, places) for pool in real)
    internal = [p for p in pools if p.name not in external | read_only]
    return MemoryUse(
        sum(p.activations_bytes for p in internal),
        # Constants count too: a board needs that memory, whatever lies in it.
        sum(max(p.used_bytes, p.activations_bytes) for p in pools if p.name in external),
        sum(b.size_bytes for b in program.buffers if b.is_param and not b.coefficients),
        _peak((b.first, b.last, b.size_bytes) for b in _activations(program)),
        pools,
    )


_OWN_COMPILER = "open"


def size_kind(memory: MemoryUse) -> str:
    """Which sizes of published networks those of this one are like (profiling/ranges.json)."""
    return "internal RAM beside external RAM" if memory.external_ram_bytes else "internal RAM"


def _size_error(memory: MemoryUse, machine: Machine) -> str:
    if machine.generation.name == _OWN_COMPILER:
        return ""
    rows = (("internal RAM", size_kind(memory)), ("weights", "weights"))
    texts = []
    for name, kind in rows:
        known = ranges().sizes[kind]
        held = f"held for {known.held.held} of {known.held.rows} published sizes"
        texts.append(f"{name} -{known.less:.1%} to +{known.more:.1%}, {held}")
    return "; ".join(texts)


def _activations(program: Program) -> list[Buffer]:
    return [buffer for buffer in program.buffers if not (buffer.is_param or buffer.view_of)]


def _pool_use(pool: Pool, places: list[tuple[Buffer, int]]) -> PoolUse:
    """What of the buffers lies in one physical pool."""
    # By address, not by pool name: a buffer of a virtual pool may span several real ones.
    parts = [(b, start - pool.address, start - pool.address + b.size_bytes) for b, start in places]
    inside = [
        (buffer, max(0, low), min(pool.size_bytes, high))
        for buffer, low, high in parts
        if low < pool.size_bytes and high > 0
    ]
    return PoolUse(
        pool.name,
        pool.used_bytes,
        pool.size_bytes,
        sum(high - low for b, low, high in inside if b.is_param),
        max((high for b, _, high in inside if not b.is_param), default=0),
        _peak((b.first, b.last, high - low) for b, low, high in inside if not b.is_param),
    )


def _peak(spans: Iterable[tuple[int, int, int]]) -> int:
    """Most bytes alive at once: no placement can do with less."""
    events: dict[int, int] = {}
    for first, last, size in spans:
        events[first] = events.get(first, 0) + size
        # A buffer is alive up to and including its last epoch.
        events[last + 1] = events.get(last + 1, 0) - size
    alive = peak = 0
    for epoch in sorted(events):
        alive += events[epoch]
        peak = max(peak, alive)
    return peak


def fit(program: Program, machine: Machine) -> Fit:
    """Ever more memory: chip alone, with flash, with external RAM.

    The program was placed with all of it; only what it did not need has to be tried without.
    """
    chip = [m for m in machine.pools if not m.cacheable]
    # Cheap tests first: placing all buffers again takes longest.
    on_chip = sum(_needs(program)) <= sum(memory.size_bytes for memory in chip) and (
        _weights_fit_beside(program, chip) or _fits(program, machine, chip)
    )
    # The NPU cache serves external memories only; the writable one of them is RAM.
    outside = {m.name for m in machine.pools if m.cacheable and m.writable}
    spills = any(buffer.pool in outside for buffer in program.buffers)
    inner = [m for m in machine.pools if m.name not in outside]
    with_flash = not spills or _fits(program, machine, inner)
    reason = "" if on_chip else _shortage(program, chip)
    return Fit(on_chip, with_flash, True, reason, "" if spills else _unsure(program, machine))


def _unsure(program: Program, machine: Machine) -> str:
    """Why the vendor's compiler may need external RAM where we do not."""
    if machine.generation.name == _OWN_COMPILER:
        return ""
    memory = memory_use(program, machine)
    most = round(memory.internal_ram_bytes * (1 + ranges().sizes[size_kind(memory)].more))
    room = sum(m.size_bytes for m in machine.pools if m.writable and not m.cacheable)
    if most <= room:
        return ""
    return (
        f"internal RAM: {memory.internal_ram_bytes:,} bytes are predicted, but it may be up to "
        f"{most:,} of {room:,}; then the rest would be in external RAM"
    )


def _needs(program: Program) -> tuple[int, int]:
    """Bytes of weights, and the least bytes of RAM for activations."""
    weights = sum(b.size_bytes for b in program.buffers if b.is_param)
    live = _peak((b.first, b.last, b.size_bytes) for b in _activations(program))
    return weights, live


def _weights_fit_beside(program: Program, chip: list[MemoryPool]) -> bool:
    """Room for the weights above what activations use now; if so nothing has to be moved."""
    names = {memory.name for memory in chip} | {p.name for p in program.pools if p.virtual}
    inside = all(buffer.pool in names for buffer in _activations(program))
    marks = {pool.name: pool.used_bytes for pool in program.pools}
    # A build keeps its own pools, which the machine need not know by name.
    free = [memory.size_bytes - marks.get(memory.name, 0) for memory in chip]
    # Largest first: small weights fill the gaps that large ones leave.
    sizes = sorted((b.size_bytes for b in program.buffers if b.is_param), reverse=True)
    for size in sizes:
        # One place of 16 bytes is lost to alignment, one byte to the margin at the end.
        room = next((n for n, left in enumerate(free) if left > size + 16), None)
        if room is None:
            return False
        free[room] -= size + 16
    return inside


def _shortage(program: Program, chip: list[MemoryPool]) -> str:
    """What the chip alone would have to hold, against what it has."""
    weights, live = _needs(program)
    room = sum(memory.size_bytes for memory in chip)
    return (
        f"on chip alone: {weights:,} bytes of weights and at least {live:,} of activations "
        f"against {room:,} bytes of RAM"
    )


def _fits(program: Program, machine: Machine, pools: list[MemoryPool]) -> bool:
    """Does everything find a place in these pools?"""
    try:
        place(program, machine.with_pools(tuple(pools)))
    except TargetError:
        return False
    return True


class ProgramFacts(Struct, frozen=True):
    """Prepared once for a Program and the mapping keys of its machine."""

    program_hash: str
    model: ModelInfo
    memory: MemoryUse
    fit: Fit
    counts: dict[str, int]
    notes: tuple[str, ...]
    epochs: tuple[Epoch, ...]
    names: tuple[str, ...]
    units: tuple[dict[str, int], ...]  # by epoch
    unknown_ops: tuple[str, ...] = ()
    described: frozenset[int] = frozenset()  # epochs without registers whose streams are stated
    floats: frozenset[int] = frozenset()  # epochs whose call reads or writes floats


def program_facts(program: Program, machine: Machine, graph: Graph | None) -> ProgramFacts:
    epochs = program.executed
    memory = memory_use(program, machine)
    found = fit(program, machine)
    return ProgramFacts(
        program_hash(program),
        model_info(program, graph),
        # A program without its graph was built: its sizes are what they are.
        memory if graph is None else replace(memory, known_error=_size_error(memory, machine)),
        # A program without its graph was built: where its buffers are is no prediction.
        found if graph is not None else replace(found, unsure=""),
        program.tally | {"blobs": len({e.blob for e in program.epochs if e.blob is not None})},
        program.notes,
        epochs,
        tuple(epoch.name for epoch in epochs),
        tuple(program.unit_counts(epoch) for epoch in epochs),
        unknown_ops(program),
        frozenset(row.epoch for row in program.stated_units if row.is_whole),
        frozenset(_float_calls(program)),
    )


def _float_calls(program: Program) -> Iterator[int]:
    buffers = program.buffer_map()
    for epoch in program.executed:
        names = (*epoch.call.inputs, *epoch.call.outputs) if epoch.call else ()
        if any(name in buffers and buffers[name].is_float for name in names):
            yield epoch.number


def program_hash(program: Program) -> str:
    """Fingerprint of what is executed and where; names of files and models do not count."""
    places = [(b.name, b.pool, b.offset, b.size_bytes) for b in program.buffers]
    return hashlib.sha256(msgspec.json.encode((places, program.epochs))).hexdigest()


def model_info(program: Program, graph: Graph | None = None) -> ModelInfo:
    if graph is None:
        buffers = program.buffer_map()
        inputs = tuple(_buffer_info(buffers[name]) for name in program.inputs)
        outputs = tuple(_buffer_info(buffers[name]) for name in program.outputs)
        size = network_size(program)
        return ModelInfo(program.model_file, program.model_md5, inputs, outputs, *size)
    inside, outside = unknown_weights(graph)
    return ModelInfo(
        program.model_file,
        program.model_md5,
        tuple(_tensor_info(graph.tensor(name)) for name in graph.inputs),
        tuple(_tensor_info(graph.tensor(name)) for name in graph.outputs),
        total_macs(graph),
        graph.parameters() + outside,
        inside + outside,
    )


def _tensor_info(tensor: Tensor) -> TensorInfo:
    quant = tensor.quant
    scale = quant.scale if quant and not quant.per_channel else None
    zero = quant.zero_point if quant and not quant.per_channel else None
    return TensorInfo(tensor.name, tensor.shape, tensor.dtype.value, scale, zero, tensor.size_bytes)


def _buffer_info(buffer: Buffer) -> TensorInfo:
    """With the shape that a board reports: the order of the bytes."""
    kind = "float" if buffer.is_float else "int" if buffer.signed else "uint"
    quant = buffer.quant if buffer.quant and not buffer.quant.per_channel else None
    scale = quant.scale if quant else None
    zero = quant.zero_point if quant else None
    return TensorInfo(
        buffer.name,
        memory_shape(buffer),
        f"{kind}{buffer.nbits}",
        scale,
        zero,
        buffer.size_bytes,
    )
