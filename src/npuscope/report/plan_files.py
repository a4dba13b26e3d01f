"""Files of a plan: pools and profiles for the compiler, a fragment and addresses for the linker, a
trace, a page."""

from __future__ import annotations

import json
from pathlib import Path

from npuscope.application.plan import PlacedNetwork, Plan
from npuscope.machine.mpool import mpool_text
from npuscope.report.html.plan import plan_page
from npuscope.report.plan import plan_json
from npuscope.report.plan_trace import plan_trace
from npuscope.report.trace.files import TRACE_WRITERS, write_trace
from npuscope.text import c_comment, c_identifier, file_name
from npuscope.whole_file import new_folder, together, write_whole

PROFILES = "neural_art.json"
FRAGMENT = "npuscope_plan.ld"
HEADER = "npuscope_plan.h"
_OPTIONS = "--optimization 3 --all-buffers-info --Oauto-sched --Omax-ca-pipe 4 --Ocache-opt --Os"


def write_plan(
    plan: Plan, folder: str | Path | None, html: str | Path | None, trace: str | Path | None
) -> None:
    """What was asked for: all of it, or nothing."""
    if folder is not None:
        with new_folder(folder) as new:
            new.path.mkdir(parents=True, exist_ok=True)
            for name, data in plan_files(plan).items():
                (new.path / name).write_bytes(data)
    with together():
        if html is not None:
            write_whole(html, plan_page(plan).encode())
        if trace is not None:
            ending = "trace.json" if str(trace).endswith(".json") else "perfetto-trace"
            assert ending in TRACE_WRITERS
            write_trace(Path(trace), ending, plan_trace(plan))


def plan_files(plan: Plan) -> dict[str, bytes]:
    """By name; a network that was built elsewhere keeps its own pools."""
    own = [one for one in plan.networks if not one.planned.is_fixed]
    files = {f"{stem(one)}.mpool": mpool_text(one.machine) for one in own}
    files[PROFILES] = json.dumps({"Profiles": {stem(one): _profile(one) for one in own}}, indent=2)
    files[FRAGMENT] = linker_fragment(plan)
    files[HEADER] = header(plan)
    files["plan.json"] = json.dumps(plan_json(plan), indent=1) + "\n"
    return {name: text.encode() for name, text in files.items()}


def stem(one: PlacedNetwork) -> str:
    return file_name(one.name)


def _profile(one: PlacedNetwork) -> dict[str, str]:
    # Without virtual pools: nothing may lie between two windows of a network.
    controller = " --enable-epoch-controller" if one.machine.epoch_controller else ""
    return {"memory_pool": f"{stem(one)}.mpool", "options": f"{_OPTIONS}{controller}"}


def linker_fragment(plan: Plan) -> str:
    """Output sections for buffers that have a place, and symbols for what networks use.

    The application includes it behind its own sections, and marks a buffer with its section.
    """
    networks = {one.name for one in plan.networks}
    lines = [
        "/* Written by npuscope plan: addresses of the joint memory map. INCLUDE it at the end",
        '   the linker script; a buffer goes there with __attribute__((section(".plan.NAME"))). */',
    ]
    for place in sorted(plan.placement.places, key=lambda p: p.address):
        name = c_identifier(place.block.name)
        lines.append(f"plan_{name}_{place.block.kind.value}_start = {place.address:#010x};")
        lines.append(f"plan_{name}_{place.block.kind.value}_end = {place.end:#010x};")
    lines.append("SECTIONS\n{")
    for place in plan.placement.places:
        buffer = place.demand in {b.name for b in plan.application.buffers}
        if buffer and place.demand not in networks:
            name = c_identifier(place.block.name)
            lines.append(
                f"  .plan.{name} {place.address:#010x} (NOLOAD) : {{ KEEP(*(.plan.{name})) }}"
            )
    return "\n".join([*lines, "}", ""])


def header(plan: Plan) -> str:
    """The same addresses for C."""
    lines = [
        f"/* Written by npuscope plan for {c_comment(plan.application.name)}. */",
        "#ifndef NPUSCOPE_PLAN_H",
        "#define NPUSCOPE_PLAN_H",
    ]
    for place in sorted(plan.placement.places, key=lambda p: p.address):
        name = f"PLAN_{c_identifier(place.block.name)}_{place.block.kind.value}".upper()
        lines.append(f"#define {name}_ADDRESS {place.address:#010x}u")
        lines.append(f"#define {name}_BYTES {place.block.size_bytes}u")
    for one in plan.networks:
        if one.windows.flash_bytes:
            name = f"PLAN_{c_identifier(one.name)}_WEIGHTS_FLASH".upper()
            lines.append(f"#define {name}_ADDRESS {one.windows.flash:#010x}u")
            lines.append(f"#define {name}_BYTES {one.planned.weights_bytes}u")
    return "\n".join([*lines, "#endif", ""])
