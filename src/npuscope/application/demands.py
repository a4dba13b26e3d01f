"""What an application wants of the memory: its image, its buffers, and each network in several
ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npuscope.application.memory import ALIGN, Block, Choice, Demand, Room
from npuscope.application.networks import Grant, PlannedNetwork, Variant
from npuscope.application.request import (
    Application,
    FrameBuffer,
    Home,
    Kind,
    NetworkUse,
    Step,
    Work,
)
from npuscope.machine.model import Machine

IMAGE = "application image"
_KINDS = (Kind.NPU, Kind.CPU, Kind.PSRAM)


def lifetime(application: Application, first: str, last: str) -> tuple[int, int]:
    """Steps as places in the frame; to the ends of a loop that only one of them is in."""
    steps = application.steps
    names = [step.name for step in steps]
    low = names.index(first) if first else 0
    high = names.index(last) if last else len(steps) - 1
    if application.threads and (low, high) != (low, low):
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
    if not 0 <= at < len(steps) or not isinstance(steps[at], Work):
        return ""
    return steps[at].name if steps[at].repeat == steps[place].repeat or side > 0 else ""


def demands_of(
    application: Application,
    networks: Sequence[PlannedNetwork],
    rooms: Sequence[Room],
    machine: Machine,
) -> tuple[Demand, ...]:
    whole = (0, len(application.steps) - 1)
    image = _image(application, networks, rooms, whole)
    buffers = (_buffer(application, buffer, rooms, machine) for buffer in application.buffers)
    rows = (row for network in networks for row in _network(application, network, rooms, whole))
    return (*image, *buffers, *rows)


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


def image_region(application: Application, rooms: Sequence[Room] = ()) -> str:
    if application.image_region:
        return application.image_region
    names = [room.region for room in rooms if room.region and room.kind is not Kind.PSRAM]
    own = [region.name for region in application.own_regions]
    return next(iter(names or own), "")


def _image(
    application: Application,
    networks: Sequence[PlannedNetwork],
    rooms: Sequence[Room],
    whole: tuple[int, int],
) -> Iterator[Demand]:
    size, region = image_bytes(application, networks), image_region(application, rooms)
    if size and region:
        block = Block(IMAGE, size, Kind.CPU, *whole, region=region, align=32)
        yield Demand(IMAGE, (Choice("", (block,)),))


def _buffer(
    application: Application, buffer: FrameBuffer, rooms: Sequence[Room], machine: Machine
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
        choices.append(Choice(region or kind.value, (block,), cost))
    return Demand(buffer.name, tuple(choices))


def _homes(buffer: FrameBuffer, rooms: Sequence[Room]) -> Iterator[tuple[Kind, str]]:
    """Kinds and regions that a buffer may lie in; the application's own regions come first."""
    wanted = {kind.value: kind for kind in Kind}.get(buffer.memory)
    for room in rooms:
        on_chip = room.kind is not Kind.PSRAM
        if wanted is None and room.region == buffer.memory:
            yield room.kind, room.region
        elif buffer.address is not None and not room.address <= buffer.address < room.end:
            continue
        elif wanted in (Kind.ANY, room.kind) or (wanted is Kind.SRAM and on_chip):
            yield room.kind, room.region


def _network(
    application: Application,
    network: PlannedNetwork,
    rooms: Sequence[Room],
    whole: tuple[int, int],
) -> Iterator[Demand]:
    use = network.use
    alive = network_lifetime(application, use)
    runs = application.runs(use) / use.every
    if network.is_fixed:
        yield Demand(use.name, (Choice("as built", tuple(_built(network, alive))),))
    else:
        ways = (_way(use.name, variant, alive, whole, runs) for variant in network.variants)
        yield Demand(use.name, tuple(ways))
    for side, home, size in (
        ("input", use.inputs, network.input_bytes * use.input_buffers),
        ("output", use.outputs, network.output_bytes),
    ):
        if home is Home.APPLICATION and size:
            ends = (use.input_from or use.name, use.name)
            if side == "output":
                ends = (use.name, use.output_until or use.name)
            lives = lifetime(application, *ends)
            name = f"{use.name} {side}"
            like = FrameBuffer(name, bytes=size)
            blocks = (Block(name, size, k, *lives, r, 32) for k, r in _homes(like, rooms))
            yield Demand(name, tuple(Choice(b.region or b.kind.value, (b,)) for b in blocks))
    if use.state_bytes:
        block = Block(f"{use.name} state", use.state_bytes, Kind.SRAM, *whole, align=32)
        yield Demand(block.name, (Choice("kept", (block,)),))


def _way(
    name: str, variant: Variant, alive: tuple[int, int], whole: tuple[int, int], runs: float
) -> Choice:
    grant = variant.grant
    blocks = [Block(f"{name} activations", grant.of(k), k, *alive) for k in _KINDS if grant.of(k)]
    if grant.weights:
        blocks.append(Block(f"{name} weights", grant.weights, grant.weights_kind, *whole))
    return Choice(_words(grant), tuple(blocks), variant.ms * runs)


def _words(grant: Grant) -> str:
    sizes = [(grant.of(kind), kind.value) for kind in _KINDS if grant.of(kind)]
    if grant.weights:
        sizes.append((grant.weights, f"{grant.weights_kind.value} for weights"))
    return ", ".join(f"{size // ALIGN} KiB {where}" for size, where in sizes)


def _built(network: PlannedNetwork, alive: tuple[int, int]) -> Iterator[Block]:
    """RAM that a build of others takes, at its own addresses."""
    from npuscope.application.memory import kind_at
    from npuscope.machine.model import secure_alias

    program = network.build.program
    pools = program.pool_map()
    spans: dict[Kind, tuple[int, int]] = {}
    for buffer in program.buffers:
        pool = pools.get(buffer.pool)
        if buffer.view_of or pool is None or not buffer.size_bytes:
            continue
        start = secure_alias(pool.address + buffer.offset)
        kind = kind_at(start, network.build.machine)
        if kind is not None:
            low, high = spans.get(kind, (start, start))
            spans[kind] = min(low, start), max(high, start + buffer.size_bytes)
    for kind, (low, high) in spans.items():
        name = f"{network.use.name} activations"
        yield Block(name, high - low, kind, *alive, align=1, address=low)
