"""The plan: networks compiled, memory shared out, the frame over time, what does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from npuscope.application import solver
from npuscope.application.demands import IMAGE, built_spans, demands_of, image_bytes
from npuscope.application.first_fit import first_fit
from npuscope.application.memory import FreeRange, MemoryPlacement, rooms_of
from npuscope.application.networks import (
    FLASH,
    Grant,
    PlannedNetwork,
    Variant,
    Windows,
    external_names,
    machine_with,
    planned,
)
from npuscope.application.request import Application, Kind, default_application
from npuscope.application.schedule import Cost, Schedule, network_cost, schedule, work_cost
from npuscope.building import machine_for
from npuscope.compiler.place import place
from npuscope.errors import UsageError
from npuscope.loadable.boards import board_named
from npuscope.machine.model import Machine
from npuscope.profiling.model import Profile
from npuscope.profiling.run import estimate
from npuscope.program.claims import with_claims
from npuscope.program.model import Program
from npuscope.shown import Rows, ShownRecord, counted
from npuscope.structs import replace

_FLASH_STEP = 64 * 1024  # flash is erased in blocks
_CROWDED = 0.7  # of the peak rate of external RAM; a display begins to flicker


class PlacedNetwork(Struct, frozen=True):
    """A network in its part of the joint map."""

    planned: PlannedNetwork
    variant: Variant
    machine: Machine
    program: Program
    profile: Profile
    cost: Cost
    windows: Windows

    @property
    def name(self) -> str:
        return self.planned.use.name


class Problem(Struct, frozen=True):
    """What does not fit or comes too late; `amount` in bytes or milliseconds."""

    kind: str  # memory, flash, deadline, bandwidth
    what: str
    message: str
    amount: float


class Bandwidth(Struct, frozen=True):
    """Bytes a second through the external RAM, and at most while the NPU runs."""

    mean: float
    peak: float
    limit: float
    rows: tuple[tuple[str, float], ...]


class Plan(ShownRecord, frozen=True):
    TEXT = "npuscope.report.plan:plan_text"
    JSON = "npuscope.report.plan:plan_json"

    application: Application
    machine: Machine
    rooms: tuple[FreeRange, ...]
    networks: tuple[PlacedNetwork, ...]
    placement: MemoryPlacement
    frame: Schedule
    bandwidth: Bandwidth | None
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]

    @property
    def fits(self) -> bool:
        return not self.problems

    def told(self) -> str:
        verdict = "fits" if self.fits else counted(len(self.problems), "problem")
        return f"{self.application.name} on {self.application.board}: {verdict}"

    def table(self) -> Rows:
        """One row per range of the memory map."""
        rows: list[dict[str, Any]] = [
            {
                "what": place.block.name,
                "owner": place.demand,
                "address": f"{place.address:#010x}",
                "size_bytes": place.block.size_bytes,
                "memory": place.block.region or place.block.kind.value,
                "first_step": self.application.steps[place.block.first].name,
                "last_step": self.application.steps[place.block.last].name,
            }
            for place in sorted(self.placement.places, key=lambda place: place.address)
        ]
        return rows


def plan_together(sources: Sequence[str], options: Mapping[str, Any]) -> Plan:
    """Networks one after the other in every frame, on a board with nothing else to do."""
    options_of_plans = ("board", "generation", "machine")
    odd = [key for key, value in options.items() if value and key not in options_of_plans]
    if odd:
        flag = f"--{odd[0].replace('_', '-')}"
        raise UsageError("has no effect on a plan", where=flag, hint="write an application file")
    board = str(options.get("board") or "stm32n6570-dk")
    board_named(board)
    return make_plan(default_application(tuple(sources), board, options.get("generation") or ""))


def make_plan(application: Application) -> Plan:
    options: dict[str, Any] = {"board": application.board}
    if application.generation:
        options["generation"] = application.generation
    machine = machine_for(options)  # type: ignore[arg-type]
    rooms = rooms_of(application, machine)
    largest = {Kind.NPU: 0, Kind.CPU: 0, Kind.PSRAM: 0}
    for room in rooms:
        if room.kind in largest and not room.region:
            largest[room.kind] = max(largest[room.kind], room.size_bytes)
    free = Grant(largest[Kind.NPU], largest[Kind.CPU], largest[Kind.PSRAM])
    networks = tuple(planned(application, use, free, machine) for use in application.networks)
    demands = demands_of(application, networks, rooms, machine)
    possible = tuple(demand for demand in demands if demand.choices)
    find = solver.solved if solver.is_there() else first_fit
    placement = find(possible, rooms)
    lacking = tuple((d.name, _least(d.name, networks)) for d in demands if not d.choices)
    placement = replace(placement, missing=(*placement.missing, *lacking))
    homes, flash_problems = _in_flash(application, networks, machine)
    placed = tuple(_settled(one, placement, homes[one.use.name]) for one in networks)
    costs = {one.name: one.cost for one in placed}
    costs |= {work.name: work_cost(work) for work in application.work}
    frame = schedule(application, costs)
    traffic = _bandwidth(application, placed, placement, frame, machine)
    problems = tuple(_problems(application, placed, placement, frame, traffic, flash_problems))
    notes = tuple(_notes(application, placed, frame, traffic))
    return Plan(application, machine, rooms, placed, placement, frame, traffic, problems, notes)


def _least(name: str, networks: Sequence[PlannedNetwork]) -> int:
    """RAM that a network without a way to place it needs."""
    network = next((one for one in networks if one.use.name == name), None)
    if network is None:
        return 0
    pools = network.build.program.pools
    return sum(p.used_bytes for p in pools if p.writable and not p.virtual)


# --- Flash ---


def _in_flash(
    application: Application, networks: Sequence[PlannedNetwork], machine: Machine
) -> tuple[dict[str, tuple[int, int]], list[Problem]]:
    """Weights one network behind the other, in whole blocks of the flash."""
    board = board_named(application.board)
    start = machine.memory(FLASH).address
    end = start + board.flash_kib * 1024
    address = start if application.flash_address is None else application.flash_address
    builds = [span for one in networks if one.is_fixed for span in built_spans(one)]
    homes = {}
    for network in networks:
        size = 0 if network.is_fixed else _whole_blocks(network.weights_bytes + 1)
        for low, high in sorted(builds):  # to the first place that no build of others has
            if low < address + size and high > address:
                address = _whole_blocks(high)
        homes[network.use.name] = (address, size)
        address += size
    if address <= end:
        return homes, []
    over = address - end
    text = f"weights end {over:,} bytes behind the flash of {application.board}"
    return homes, [Problem("flash", "weights", text, over)]


def _whole_blocks(size: int) -> int:
    return -(-size // _FLASH_STEP) * _FLASH_STEP


# --- Networks in their windows ---


def _settled(
    network: PlannedNetwork, placement: MemoryPlacement, flash: tuple[int, int]
) -> PlacedNetwork:
    """The network placed and timed again where it will lie."""
    use = network.use
    choice = placement.choices.get(use.name)
    variants = network.variants
    if network.is_fixed or choice is None or not variants:
        profile = variants[0].profile if variants else estimate(
            network.build.program, network.build.machine, network.build.graph)  # fmt: skip
        variant = variants[0] if variants else Variant(Grant(), profile)
        cost = network_cost(use, profile)
        machine, program = network.build.machine, network.build.program
        return PlacedNetwork(network, variant, machine, program, profile, cost, Windows())
    variant = _variant_of(network, choice.blocks)
    at = {p.block.name + p.block.kind.value: p.address
        for p in placement.places if p.demand == use.name}  # fmt: skip
    grant, name = variant.grant, f"{use.name} activations"
    windows = Windows(
        at.get(f"{name}npu", 0),
        at.get(f"{name}cpu", 0),
        at.get(f"{name}psram", 0),
        at.get(f"{use.name} weights{grant.weights_kind.value}", 0),
        *flash,
    )
    machine = machine_with(network.build.machine, grant, windows)
    program = place(network.build.program, machine, external_names(use, network.build.program))
    program = with_claims(program, machine)
    profile = estimate(program, machine, network.build.graph)
    cost = network_cost(use, profile)
    return PlacedNetwork(network, variant, machine, program, profile, cost, windows)


def _variant_of(network: PlannedNetwork, blocks: Sequence[Any]) -> Variant:
    sizes = sorted((block.name, block.kind.value, block.size_bytes) for block in blocks)

    def same(variant: Variant) -> bool:
        grant, name = variant.grant, network.use.name
        rows = [(f"{name} activations", kind.value, grant.of(kind))
            for kind in (Kind.NPU, Kind.CPU, Kind.PSRAM) if grant.of(kind)]  # fmt: skip
        if grant.weights:
            rows.append((f"{name} weights", grant.weights_kind.value, grant.weights))
        return sorted(rows) == sizes

    return next(variant for variant in network.variants if same(variant))


# --- Bandwidth of the external RAM ---


def _bandwidth(
    application: Application,
    networks: Sequence[PlacedNetwork],
    placement: MemoryPlacement,
    frame: Schedule,
    machine: Machine,
) -> Bandwidth | None:
    if not board_named(application.board).psram_kib:
        return None
    psram = next(pool for pool in machine.pools if pool.cacheable and pool.writable)
    road = machine.paths[psram.path]
    limit = getattr(machine.clocks, road.clock) * 1e6 * road.bytes_per_cycle
    outside = {p.demand for p in placement.places if p.block.kind is Kind.PSRAM}
    rows: list[tuple[str, float]] = []
    for buffer in application.buffers:
        if buffer.name in outside:
            rate = buffer.one_bytes * (buffer.passes * frame.fps + buffer.hz)
            rows.append((buffer.name, rate))
    for work in application.work:
        if work.psram_bytes:
            runs = application.runs(work) / work.every
            rows.append((work.name, work.psram_bytes * runs * frame.fps))
    steady = sum(rate for _, rate in rows)
    burst = 0.0
    for network in networks:
        moved = sum(
            row.read_bytes + row.write_bytes
            for epoch in network.profile.epochs
            for row in epoch.counters.traffic
            if row.pool == psram.name
        )
        runs = application.runs(network.planned.use) / network.planned.use.every
        if moved:
            rows.append((network.name, moved * runs * frame.fps))
            burst = max(burst, moved / (network.cost.ms / 1000))
    mean = sum(rate for _, rate in rows)
    return Bandwidth(mean, steady + burst, limit, tuple(rows))


# --- What does not fit, and what a reader has to know ---


def _problems(
    application: Application,
    networks: Sequence[PlacedNetwork],
    placement: MemoryPlacement,
    frame: Schedule,
    traffic: Bandwidth | None,
    flash_problems: Sequence[Problem],
) -> Iterator[Problem]:
    fixed = {one.name for one in networks if one.planned.is_fixed}
    for name, lack in placement.missing:
        text = f"'{name}' finds no room: {lack:,} bytes are missing"
        if name in fixed:
            text = f"'{name}' was built for memory that is the application's or another network's"
        yield Problem("memory", name, text, lack)
    yield from flash_problems
    if application.deadline_ms is not None and frame.latency_ms > application.deadline_ms:
        over = frame.latency_ms - application.deadline_ms
        text = f"the worst frame takes {frame.latency_ms:.3g} ms, {over:.3g} ms too long"
        yield Problem("deadline", application.name, text, over)
    for use in application.networks:
        ends = [slot.end_ms for kind in frame.frames for slot in kind.slots
            if slot.step == use.name]  # fmt: skip
        if use.deadline_ms is not None and ends and max(ends) > use.deadline_ms:
            over = max(ends) - use.deadline_ms
            text = f"'{use.name}' ends {max(ends):.3g} ms into the frame, {over:.3g} ms too late"
            yield Problem("deadline", use.name, text, over)
    if traffic is not None and traffic.mean > traffic.limit:
        over = traffic.mean - traffic.limit
        text = (
            f"external RAM would have to move {traffic.mean / 1e6:,.0f} MB/s, "
            f"{over / 1e6:,.0f} MB/s more than its peak"
        )
        yield Problem("bandwidth", "PSRAM", text, over)


def _notes(
    application: Application,
    networks: Sequence[PlacedNetwork],
    frame: Schedule,
    traffic: Bandwidth | None,
) -> Iterator[str]:
    if not application.image_bytes and not application.layout.is_map:
        size = image_bytes(application, [one.planned for one in networks])
        if size:
            yield (
                f"the {IMAGE} counts {size:,} bytes of controller programs, heap and stacks "
                "alone: give image_bytes, or the linker's map"
            )
    limit = application.deadline_ms
    if limit is not None and frame.latency_ms <= limit < frame.worst_ms:
        yield (
            f"with every step at the upper end of its range the worst frame takes "
            f"{frame.worst_ms:.3g} ms, longer than its deadline of {limit:g} ms"
        )
    if traffic is not None and traffic.peak > _CROWDED * traffic.limit >= 0:
        share = traffic.peak / traffic.limit
        yield f"while the NPU runs, external RAM is asked for {share:.0%} of its peak rate"
    for one in networks:
        if one.variant.grant.weights:
            size = one.variant.grant.weights
            yield f"weights of '{one.name}' ({size:,} bytes) are copied to RAM at the start"
    if not solver.is_there():
        yield "placed by first fit; with the extra 'plan' (OR-tools) the optimum is searched for"
