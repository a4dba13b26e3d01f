"""The plan of an application as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from npuscope.application.memory import Place
from npuscope.application.plan import PlacedNetwork, Plan
from npuscope.application.request import Kind
from npuscope.application.schedule import FrameKind, Slot
from npuscope.report.figures import DASH, ms, shorten, size
from npuscope.shown import counted
from npuscope.text import safe_terminal

SCHEMA = "npuscope/plan/1"
_WIDTH = 48  # characters of the frame's time line
_MOST_ROWS = 24  # runs of steps shown one by one
_MEMORIES = {Kind.NPU: "npuRAM", Kind.CPU: "cpuRAM", Kind.PSRAM: "PSRAM"}


def answer(plan: Plan) -> str:
    """The verdict in one line."""
    name, board = safe_terminal(plan.application.name), plan.application.board
    frame = plan.frame
    times = (
        f"worst frame {ms(frame.latency_ms)} ms (predicted, at most {ms(frame.worst_ms)}), "
        f"{frame.fps:.3g} frames/s"
    )
    if plan.fits:
        return f"{name} fits on {board}: {times}"
    first = safe_terminal(plan.problems[0].message)
    more = f" and {counted(len(plan.problems) - 1, 'more problem')}" if plan.problems[1:] else ""
    return f"{name} does not work on {board}: {first}{more}"


def plan_text(plan: Plan) -> str:
    parts = [
        ("Problems", [f"  {safe_terminal(p.message)}" for p in plan.problems[1:]]),
        ("Networks", list(_network_lines(plan))),
        ("Memory", list(_memory_lines(plan))),
        (_frame_title(plan), list(_frame_lines(plan))),
        ("External RAM", list(_bandwidth_lines(plan))),
        ("Notes", [f"  {safe_terminal(note)}" for note in plan.notes]),
    ]
    lines = [line for title, rows in parts if rows for line in ("", title, *rows)]
    return "\n".join([answer(plan), *lines]) + "\n"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, wide, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def _network_lines(plan: Plan) -> Iterator[str]:
    heads = ("network", "ms", "at most", "alone", "runs", "RAM on chip", "PSRAM", "weights",
        "controller")  # fmt: skip
    rows = [heads]
    for one in plan.networks:
        use, grant = one.planned.use, one.variant.grant
        runs = plan.application.runs(use)
        often = f"{runs} a frame" if use.every == 1 else f"{runs} in {use.every} frames"
        fastest = min((variant.ms for variant in one.planned.variants), default=one.cost.ms)
        chip = grant.npu + grant.cpu
        weights = size(one.planned.weights_bytes)
        if grant.weights:
            weights += f" ({size(grant.weights)} on chip)"
        rows.append((
            shorten(safe_terminal(one.name), 30), ms(one.cost.ms), ms(one.cost.worst_ms),
            ms(fastest), often, size(chip) if chip else DASH,
            size(grant.psram) if grant.psram else DASH, weights,
            size(one.planned.blobs_bytes) if one.planned.blobs_bytes else DASH,
        ))  # fmt: skip
    yield from _aligned(rows)


def _memory_lines(plan: Plan) -> Iterator[str]:
    steps = plan.application.steps
    rows = [("from", "to", "bytes", "memory", "what", "while")]
    for place in sorted(plan.placement.places, key=lambda p: (p.address, p.block.first)):
        block = place.block
        whole = (block.first, block.last) == (0, len(steps) - 1)
        first, last = steps[block.first].name, steps[block.last].name
        lives = "always" if whole and len(steps) > 1 else first
        if not whole and first != last:
            lives = f"{first} to {last}"
        rows.append((
            f"{place.address:#010x}", f"{place.end:#010x}", f"{block.size_bytes:,}",
            block.region or _MEMORIES[_kind(plan, place)], shorten(safe_terminal(block.name), 40),
            shorten(safe_terminal(lives), 40),
        ))  # fmt: skip
    for one in plan.networks:
        if not one.planned.is_fixed and one.windows.flash_bytes:
            start, end = one.windows.flash, one.windows.flash + one.windows.flash_bytes
            rows.append((
                f"{start:#010x}", f"{end:#010x}",
                f"{one.planned.weights_bytes:,}", "flash",
                shorten(safe_terminal(f"{one.name} weights"), 40), "always",
            ))  # fmt: skip
    yield from _aligned(rows)
    shared, alone = _shared(plan)
    if alone > shared:
        yield f"  networks share {size(alone - shared)}: {size(alone)} one by one, {size(shared)}"
    yield f"  {_optimum(plan)}"


def _kind(plan: Plan, place: Place) -> Kind:
    rooms = (room for room in plan.rooms if room.address <= place.address < room.end)
    return next((room.kind for room in rooms), place.block.kind)


def _shared(plan: Plan) -> tuple[int, int]:
    """RAM of activations with each byte counted once, and as often as it is used."""
    own = [p for p in plan.placement.places if p.block.name.endswith(" activations")]
    once = reached = 0
    for place in sorted(own, key=lambda p: p.address):
        once += max(0, place.end - max(place.address, reached))
        reached = max(reached, place.end)
    return once, sum(place.block.size_bytes for place in own)


def _optimum(plan: Plan) -> str:
    placement = plan.placement
    if placement.bound_ms is None:
        return f"placed by {placement.solver}; how far from the optimum is not known"
    gap = placement.cost_ms - placement.bound_ms
    if gap < 1e-3:
        return f"placed by {placement.solver}: no other choice of these ranges is faster"
    return f"placed by {placement.solver}: at most {ms(gap)} ms a frame from the optimum"


def _frame_title(plan: Plan) -> str:
    frame = plan.frame
    return (
        f"Frame: {ms(frame.least_ms)} to {ms(frame.latency_ms)} ms, jitter "
        f"{ms(frame.jitter_ms)} ms, a frame every {ms(frame.interval_ms)} ms"
    )


def _frame_lines(plan: Plan) -> Iterator[str]:
    for kind in plan.frame.frames:
        if kind.mode:
            yield f"  {safe_terminal(kind.mode)}: {ms(kind.latency_ms)} ms"
        rows = [_slot_cells(slot, kind) for slot in kind.slots[:_MOST_ROWS]]
        if rows:
            yield from _aligned(rows)
        if len(kind.slots) > _MOST_ROWS:
            yield f"  and {len(kind.slots) - _MOST_ROWS} more runs until {ms(kind.latency_ms)} ms"
    loads = ", ".join(f"{unit} {ms(load)} ms" for unit, load in plan.frame.loads)
    yield f"  busy in the worst frame: {loads}"


def _slot_cells(slot: Slot, kind: FrameKind) -> tuple[str, ...]:
    whole = kind.latency_ms or 1.0
    before = round(slot.start_ms / whole * _WIDTH)
    inside = max(1, round(slot.end_ms / whole * _WIDTH) - before)
    turn = f" #{slot.run + 1}" if slot.run else ""
    return (
        shorten(safe_terminal(slot.step), 30) + turn,
        slot.unit,
        f"{ms(slot.start_ms)} to {ms(slot.end_ms)} ms",
        "." * before + "#" * inside,
    )


def _bandwidth_lines(plan: Plan) -> Iterator[str]:
    traffic = plan.bandwidth
    if traffic is None or not traffic.rows:
        return
    for name, rate in traffic.rows:
        yield f"  {shorten(safe_terminal(name), 40)}: {rate / 1e6:,.1f} MB/s"
    yield (
        f"  together {traffic.mean / 1e6:,.1f} MB/s, up to {traffic.peak / 1e6:,.1f} while the NPU "
        f"runs, of {traffic.limit / 1e6:,.0f} MB/s at most"
    )


# --- JSON ---


def plan_json(plan: Plan) -> dict[str, Any]:
    frame, placement = plan.frame, plan.placement
    return {
        "schema": SCHEMA,
        "application": plan.application.name,
        "board": plan.application.board,
        "fits": plan.fits,
        "answer": answer(plan),
        "problems": [
            {"kind": p.kind, "what": p.what, "message": p.message, "amount": round(p.amount, 6)}
            for p in plan.problems
        ],
        "networks": [_network_json(one) for one in plan.networks],
        "memory": plan.table(),
        "placement": {
            "solver": placement.solver,
            "cost_ms": round(placement.cost_ms, 6),
            "bound_ms": None if placement.bound_ms is None else round(placement.bound_ms, 6),
        },
        "frame": {
            "latency_ms": round(frame.latency_ms, 6),
            "worst_ms": round(frame.worst_ms, 6),
            "least_ms": round(frame.least_ms, 6),
            "jitter_ms": round(frame.jitter_ms, 6),
            "interval_ms": round(frame.interval_ms, 6),
            "fps": round(frame.fps, 6),
            "loads_ms": {unit: round(load, 6) for unit, load in frame.loads},
            "kinds": [_kind_json(kind) for kind in frame.frames],
        },
        "external_ram": _traffic_json(plan),
        "notes": list(plan.notes),
    }


def _network_json(one: PlacedNetwork) -> dict[str, Any]:
    grant = one.variant.grant
    return {
        "name": one.name,
        "source": one.planned.use.model or one.planned.use.build,
        "ms": round(one.cost.ms, 6),
        "worst_ms": round(one.cost.worst_ms, 6),
        "time_source": one.cost.source,
        "npu_ram_bytes": grant.npu,
        "cpu_ram_bytes": grant.cpu,
        "psram_bytes": grant.psram,
        "weights_on_chip_bytes": grant.weights,
        "weights_bytes": one.planned.weights_bytes,
        "blobs_bytes": one.planned.blobs_bytes,
        "flash_address": f"{one.windows.flash:#010x}",
        "pools": [
            {"name": p.name, "address": f"{p.address:#010x}", "size_bytes": p.size_bytes,
                "used_bytes": p.used_bytes}
            for p in one.program.pools
        ],
    }  # fmt: skip


def _kind_json(kind: FrameKind) -> dict[str, Any]:
    return {
        "mode": kind.mode,
        "latency_ms": round(kind.latency_ms, 6),
        "worst_ms": round(kind.worst_ms, 6),
        "bound_ms": round(kind.bound_ms, 6),
        "solver": kind.solver,
        "steps": [
            {"step": s.step, "unit": s.unit, "run": s.run, "start_ms": round(s.start_ms, 6),
                "end_ms": round(s.end_ms, 6)}
            for s in kind.slots
        ],
    }  # fmt: skip


def _traffic_json(plan: Plan) -> dict[str, Any] | None:
    traffic = plan.bandwidth
    if traffic is None:
        return None
    return {
        "mean_bytes_per_s": round(traffic.mean),
        "peak_bytes_per_s": round(traffic.peak),
        "limit_bytes_per_s": round(traffic.limit),
        "rows": {name: round(rate) for name, rate in traffic.rows},
    }
