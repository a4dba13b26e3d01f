"""What an application wants of the memory: its image, its buffers, and each network in several
ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npuscope.application.memory import (
    ALIGN,
    Alternative,
    Block,
    Demand,
    FreeRange,
    kind_at,
    npu_start,
)
from npuscope.application.networks import PlannedNetwork, Variant
from npuscope.application.request import (
    Application,
    FrameBuffer,
    Home,
    Kind,
    NetworkUse,
    Step,
    UserWork,
)
from npuscope.errors import FileError
from npuscope.machine.model import Machine, secure_alias
from npuscope.text import safe_terminal

IMAGE = "application image"
_KINDS = (Kind.NPU, Kind.CPU, Kind.PSRAM)


def lifetime(application: Application, first: str, last: str) -> tuple[int, int]:
    """Steps as places in the frame; to the ends of a loop that only one of them is in."""
    steps = application.steps
    names = [step.name for step in steps]
    low = names.index(first) if first else 0
    high = names.index(last) if last else len(steps) - 1
    if application.threads:  # another frame may be anywhere else
        return 0, len(steps) - 1
    low, high = min(low, high), max(low, high)
    inside = steps[low].repeat, steps[high].repeat
    if inside[0] != inside[1]:
        while inside[0] and low and steps[low - 1].repeat == inside[0]:
            low -= 1
        while inside[1] and high + 1 < len(steps) and steps[high + 1].repeat == inside[1]:
            high += 1
    return low, high


def network_lifetime(application: Application, use: NetworkUse) -> tuple[int, int]:
    """Of its activations: while its input is filled, while it runs, while its output is read."""
    steps = application.steps
    place = [step.name for step in steps].index(use.name)
    if use.inputs is use.outputs is Home.APPLICATION:
        return place, place  # the NPU runs one network at a time, whatever the threads do
    first = use.input_from or _neighbour(steps, place, -1) or use.name
    last = use.output_until or _neighbour(steps, place, 1) or use.name
    if use.inputs is Home.APPLICATION:
        first = use.name
    if use.outputs is Home.APPLICATION:
        last = use.name
    return lifetime(application, first, last)


def _neighbour(steps: Sequence[Step], place: int, side: int) -> str:
    """Work right before a network fills its input, work right behind reads its output."""
    at = place + side
    if not 0 <= at < len(steps) or not isinstance(steps[at], UserWork):
        return ""
    return steps[at].name if steps[at].repeat == steps[place].repeat or side > 0 else ""


def demands_of(
    application: Application,
    networks: Sequence[PlannedNetwork],
    rooms: Sequence[FreeRange],
    machine: Machine,
) -> tuple[Demand, ...]:
    whole = (0, len(application.steps) - 1)
    demands = [_buffer(application, buffer, rooms, machine) for buffer in application.buffers]
    for network in networks:
        demands += _network(application, network, rooms, whole)
    size, region = image_bytes(application, networks), image_region(application, rooms)
    if not size or not region:
        return tuple(demands)
    start = next((room.address for room in rooms if room.region == region), None)
    if start is None:
        raise FileError(
            f"the image goes into region '{safe_terminal(region)}', which has no memory of the "
            "board in it",
            where="regions",
            hint="give the region an address inside a memory of the board",
        )
    block = Block(IMAGE, size, Kind.CPU, *whole, region, 32, start)
    return (Demand(IMAGE, (Alternative("", (block,)),)), *demands)


def image_bytes(application: Application, networks: Sequence[PlannedNetwork]) -> int:
    """Code, data, heap and stacks, and the programs of the NPU's controller."""
    layout = application.layout
    if layout.is_map:
        region = image_region(application)
        linked = next((r for r in layout.regions if r.name == region), None)
        if linked is not None:
            return layout.used_bytes(linked)
    own = application.image_bytes
    heap = application.heap_bytes or layout.heap_bytes
    stack = application.stack_bytes or layout.stack_bytes
    return own + heap + stack + sum(network.blobs_bytes for network in networks)


def image_region(application: Application, rooms: Sequence[FreeRange] = ()) -> str:
    if application.image_region:
        return application.image_region
    names = [room.region for room in rooms if room.region and room.kind is not Kind.PSRAM]
    own = [region.name for region in application.own_regions]
    return next(iter(names or own), "")


def _buffer(
    application: Application, buffer: FrameBuffer, rooms: Sequence[FreeRange], machine: Machine
) -> Demand:
    size = -(-buffer.one_bytes // buffer.align) * buffer.align * buffer.count
    alive = lifetime(application, buffer.from_, buffer.until)
    psram = next(pool for pool in machine.pools if pool.cacheable and pool.writable)
    road = machine.paths[psram.path]
    clock: float = getattr(machine.clocks, road.clock)
    slow_ms = buffer.one_bytes * buffer.passes / (clock * 1000 * road.bytes_per_cycle)
    choices = []
    for kind, region in _homes(buffer, rooms):
        block = Block(buffer.name, size, kind, *alive, region, buffer.align, buffer.address)
        cost = slow_ms if kind is Kind.PSRAM and buffer.memory == Kind.ANY.value else 0.0
        choices.append(Alternative(region or kind.value, (block,), cost))
    return Demand(buffer.name, tuple(choices))


def _homes(buffer: FrameBuffer, rooms: Sequence[FreeRange]) -> Iterator[tuple[Kind, str]]:
    """Kinds and regions that a buffer may lie in; the application's own regions come first."""
    kind = {kind.value: kind for kind in Kind}.get(buffer.memory)
    for room in rooms:
        on_chip = room.kind is not Kind.PSRAM
        if kind is None and room.region == buffer.memory:
            yield room.kind, room.region
        elif buffer.address is not None and not room.address <= buffer.address < room.end:
            continue
        elif kind in (Kind.ANY, room.kind) or (kind is Kind.SRAM and on_chip):
            yield room.kind, room.region


def _network(
    application: Application,
    network: PlannedNetwork,
    rooms: Sequence[FreeRange],
    whole: tuple[int, int],
) -> Iterator[Demand]:
    use = network.use
    alive = network_lifetime(application, use)
    runs = application.runs(use) / use.every
    if network.is_fixed:
        yield Demand(use.name, (Alternative("as built", tuple(_built(network, alive))),))
    else:
        ways = (_way(use.name, variant, alive, whole, runs) for variant in network.variants)
        yield Demand(use.name, tuple(ways))
    filling = lifetime(application, use.input_from or use.name, use.name)
    if use.input_buffers > 1:  # one of them is filled for the next run at any time
        filling = whole
    reading = lifetime(application, use.name, use.output_until or use.name)
    for side, home, size, lives in (
        ("input", use.inputs, network.input_bytes * use.input_buffers, filling),
        ("output", use.outputs, network.output_bytes, reading),
    ):
        if home is Home.APPLICATION and size:
            name = f"{use.name} {side}"
            like = FrameBuffer(name, bytes=size)
            blocks = (Block(name, size, k, *lives, r, 32) for k, r in _homes(like, rooms))
            yield Demand(name, tuple(Alternative(b.region or b.kind.value, (b,)) for b in blocks))
    if use.state_bytes:
        block = Block(f"{use.name} state", use.state_bytes, Kind.SRAM, *whole, align=32)
        yield Demand(block.name, (Alternative("kept", (block,)),))


def _way(
    name: str, variant: Variant, alive: tuple[int, int], whole: tuple[int, int], runs: float
) -> Alternative:
    grant = variant.grant
    parts = [(grant.of(kind), kind) for kind in _KINDS if grant.of(kind)]
    blocks = [Block(f"{name} activations", size, kind, *alive) for size, kind in parts]
    words = [f"{size // ALIGN} KiB {kind.value}" for size, kind in parts]
    if grant.weights:
        blocks.append(Block(f"{name} weights", grant.weights, grant.weights_kind, *whole))
        words.append(f"{grant.weights // ALIGN} KiB {grant.weights_kind.value} for weights")
    return Alternative(", ".join(words), tuple(blocks), variant.ms * runs)


def _built(network: PlannedNetwork, alive: tuple[int, int]) -> Iterator[Block]:
    """RAM that a build of others takes, at its own addresses, cut where the kind of RAM changes."""
    name, machine = f"{network.use.name} activations", network.build.machine
    for low, high in built_spans(network):
        start = low
        while start < high:
            kind = kind_at(start, machine)
            end = min(high, npu_start(machine)) if kind is Kind.CPU else high
            if kind is None:
                break
            yield Block(name, end - start, kind, *alive, align=1, address=start)
            start = end


def built_spans(network: PlannedNetwork) -> list[tuple[int, int]]:
    """Ranges that a build uses, under their secure names; those near each other are one."""
    program = network.build.program
    pools = program.pool_map()
    ranges = sorted(
        (secure_alias(pools[b.pool].address + b.offset), b.size_bytes)
        for b in program.buffers
        if b.pool in pools and b.size_bytes and not b.view_of and not pools[b.pool].relative
    )
    spans: list[tuple[int, int]] = []
    for start, size in ranges:
        if spans and start <= spans[-1][1] + ALIGN and start >> 28 == spans[-1][0] >> 28:
            spans[-1] = spans[-1][0], max(spans[-1][1], start + size)
        else:
            spans.append((start, start + size))
    return spans
