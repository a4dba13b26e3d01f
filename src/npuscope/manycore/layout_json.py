"""A Layout as JSON, segment `osb.layout`: what makes a stats buffer readable by itself."""

from __future__ import annotations

from typing import Any

import orjson

from npuscope.manycore.container_json import valid_text
from npuscope.manycore.layout import CoreOpInfo, Layout, Specialization
from npuscope.manycore.layout_json_read import layout_of
from npuscope.manycore.records import SECTIONS, UTIMER_HZ, Section

FORMAT = "osb"
VERSION = (1, 0)
PMU_WIDTH = 32  # bits of a counter; differences are meant modulo this


def layout_json(layout: Layout, *, dependencies: bool = True) -> bytes:
    """The layout with keys in a fixed order. A container has the dependencies in their segment."""
    core_clock = {"name": "core", "hz": layout.core_hz}
    record = {
        "format": FORMAT,
        "version": VERSION,
        "program_uuid": layout.program_uuid,
        "network": valid_text(layout.network),
        "stats_level": layout.stats_level,
        "stats_batch": layout.stats_batch,
        "ddr_stats": layout.ddr_stats,
        "clocks": [{"name": "utimer", "hz": UTIMER_HZ}, core_clock],
        "cores": layout.cores,
        "threads": [
            {"id": thread.id, "engine": thread.engine.value, "group": thread.group}
            for thread in layout.threads
        ],
        "groups": [{"name": group.name, "threads": group.threads} for group in layout.groups],
        "ports": _ports(layout),
        "pmu": {
            "recipe": layout.pmu.recipe,
            "events": layout.pmu.events,
            "width": PMU_WIDTH,
        },
        "specializations": [_specialization(part) for part in layout.specializations],
        "sections": [_section(section) for section in SECTIONS.values()],
        "deps": _dependencies(layout) if dependencies else [],
        "notes": [valid_text(note) for note in layout.notes],
    }
    return orjson.dumps(record, option=orjson.OPT_SERIALIZE_NUMPY)


def layout_from_json(data: bytes) -> Layout:
    """Read a layout; every number is checked before anything relies on it."""
    return layout_of(data, FORMAT, VERSION[0])


def _ports(layout: Layout) -> list[dict[str, Any]]:
    return [
        {
            "id": port.id,
            "dir": "in" if port.incoming else "out",
            "type": port.kind,
            "name": valid_text(port.name),
            "peer": port.peer,
        }
        for port in layout.ports
    ]


def _specialization(part: Specialization) -> dict[str, Any]:
    ops = [[[_op(op) for op in group] for group in groups] for groups in part.ops]
    return {"name": valid_text(part.name), "ops": ops}


def _op(op: CoreOpInfo) -> dict[str, Any]:
    return {
        "oc": op.oc,
        "name": valid_text(op.name),
        "kind": valid_text(op.kind),
        "memory": op.memory.value,
        "dtypes": op.dtypes,
        "shape": op.shape,
        "out_bytes": op.out_bytes,
        "attrs": valid_text(op.attributes),
        "operands": [valid_text(operand) for operand in op.operands],
        "macs": op.macs,
        "rd_bytes": op.rd_bytes,
        "wr_bytes": op.wr_bytes,
        "async": op.asynchronous,
        "origin": [valid_text(name) for name in op.origin],
    }


def _section(section: Section) -> dict[str, Any]:
    names = ("name", "type", "unit", "meaning")
    return {
        "id": int(section.id),
        "name": section.id.name,
        "min_level": section.min_level,
        "needs": section.needs.name.lower(),
        "record": [dict(zip(names, field, strict=True)) for field in section.fields],
        "index": _index(section),
    }


def _index(section: Section) -> str:
    """The fields that tell one record from another."""
    keys = ("core", "thread", "oc", "sample", "port", "seq", "src_dev", "dst_dev", "txn")
    own = {field[0] for field in section.fields}
    return ",".join(key for key in keys if key in own)


def _dependencies(layout: Layout) -> list[dict[str, Any]]:
    return [
        {"specialization": index, "src": edge.source, "dst": edge.target, "true": edge.data}
        for index, part in enumerate(layout.specializations)
        for edge in part.dependencies
    ]
