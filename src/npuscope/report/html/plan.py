"""What the page of a plan shows: the frame over time, the memory over the frame."""

from __future__ import annotations

from npuscope.application.plan import Plan
from npuscope.application.request import Kind
from npuscope.report.figures import DASH, ms, size
from npuscope.report.html.page import page
from npuscope.report.plan import answer
from npuscope.version import __version__

_MOST_SLOTS = 2_000
_TITLES = {Kind.NPU: "banks of the NPU", Kind.CPU: "RAM on chip", Kind.PSRAM: "external RAM"}


def plan_page(plan: Plan) -> str:
    frame, application = plan.frame, plan.application
    networks = {one.name for one in plan.networks}
    return page(
        {
            "view": "plan",
            "version": __version__,
            "title": application.name,
            "answer": answer(plan),
            "machine": _machine(plan),
            "said": f"{len(plan.networks)} networks on {application.board}",
            "figures": _figures(plan),
            "problems": [problem.message for problem in plan.problems],
            "steps": [step.name for step in application.steps],
            "frames": [
                {
                    "title": kind.mode or "every frame",
                    "ms": kind.latency_ms,
                    "slots": [
                        [slot.step, unit, start, end, slot.run]
                        for slot in kind.slots[:_MOST_SLOTS]
                        for unit, start, end in slot.busy
                    ],
                }
                for kind in frame.frames
            ],
            "memories": [
                {
                    "title": f"{room.region or _TITLES[room.kind]}, {room.address:#010x}",
                    "bytes": room.size_bytes,
                    "pieces": [
                        [p.block.name, p.address - room.address, p.block.size_bytes, p.block.first,
                            p.block.last, int(p.demand in networks), f"{p.address:#010x}"]
                        for p in plan.placement.places
                        if room.address <= p.address < room.end
                    ],
                }
                for room in plan.rooms
            ],
            "networks": [
                [
                    one.name,
                    ms(one.cost.ms),
                    ms(one.cost.worst_ms),
                    size(one.variant.grant.npu + one.variant.grant.cpu),
                    size(one.variant.grant.psram) if one.variant.grant.psram else DASH,
                    size(one.planned.weights_bytes),
                    size(one.variant.grant.weights) if one.variant.grant.weights else DASH,
                    one.cost.source,
                ]
                for one in plan.networks
            ],
            "facts": _facts(plan),
            "notes": list(plan.notes),
        }
    )  # fmt: skip


def _machine(plan: Plan) -> str:
    machine = plan.machine
    chip = f"{machine.name} ({machine.chip})" if machine.chip else machine.name
    generation = machine.generation
    return (
        f"{chip}, board {plan.application.board}, generation {generation.name}: {generation.title}"
    )


def _figures(plan: Plan) -> list[dict[str, str]]:
    frame, traffic = plan.frame, plan.bandwidth
    rows = [
        ("Worst frame", f"{ms(frame.latency_ms)} ms", f"at most {ms(frame.worst_ms)} ms"),
        ("Frames", f"{frame.fps:.3g} /s", f"one every {ms(frame.interval_ms)} ms"),
        ("Jitter", f"{ms(frame.jitter_ms)} ms", f"the shortest takes {ms(frame.least_ms)} ms"),
    ]
    if traffic is not None:
        share = traffic.mean / traffic.limit
        peak = f"up to {traffic.peak / traffic.limit:.0%} while the NPU runs"
        rows.append(("External RAM", f"{share:.0%} of its rate", peak))
    names = ("name", "value", "detail", "source")
    return [dict(zip(names, (*row, "predicted"), strict=True)) for row in rows]


def _facts(plan: Plan) -> list[list[str]]:
    bound = plan.placement.bound_ms
    gap = "" if bound is None else f", {ms(max(0.0, plan.placement.cost_ms - bound))} ms a frame"
    clocks = plan.machine.clocks
    return [
        ["Times", "networks predicted or measured as stated, other work as the file states it"],
        ["Placement", f"by {plan.placement.solver}{gap} from the optimum at most"],
        ["Clocks", f"MCU {clocks.mcu_mhz:g} MHz, NPU {clocks.npu_mhz:g} MHz"],
        ["Order", "threads: steps overlap" if plan.application.threads else "one step at a time"],
    ]
