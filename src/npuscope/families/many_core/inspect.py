"""What `identify` tells about program containers and stats buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from npuscope.bounded_file import CORE_BUFFER, CORE_PROGRAM, read_bytes
from npuscope.errors import FileError
from npuscope.families.many_core.buffer import read_sections
from npuscope.families.many_core.buffer_format import read_header, read_rows
from npuscope.families.many_core.container import (
    DEPENDENCIES,
    LAYOUT,
    PROGRAM,
    VTCM,
    is_own,
)
from npuscope.families.many_core.networkdesc import decode_networkdesc
from npuscope.families.many_core.qpc import (
    CONSTANTS,
    CONSTANTS_DESC,
    NETWORK_DESC,
    Qpc,
    placed,
    read_qpc,
)
from npuscope.families.many_core.specializations import SEGMENT, read_programs, sets_of_sizes
from npuscope.identify.binary import inspect_raw_image
from npuscope.identify.sample import FileFacts, Sample, plain
from npuscope.structs import replace

_RAW_SENTENCE = (
    "by its name a raw stats buffer of the vendor's runtime: its layout is not public, so nothing "
    "in it can be read here"
)
_IGNORED = {
    "network.elf": "the device's code",
    "opstatsdesc.bin": "the field numbers of this descriptor are not public",
    CONSTANTS: "the bytes of constants",
}
_READ = (NETWORK_DESC, CONSTANTS_DESC, LAYOUT, DEPENDENCIES, PROGRAM, VTCM)


def inspect_qpc(sample: Sample) -> FileFacts:
    data = read_bytes(sample.path, CORE_PROGRAM)
    try:
        qpc = read_qpc(data)
        facts = _own(data) if is_own(qpc) else _vendor(qpc)
    except FileError as error:
        raise placed(error, sample.path) from None
    segments = [f"{part.name} {part.size_bytes:,} bytes" for part in qpc.segments]
    summary = {**facts.summary, "segments": segments, "notes": [*facts.ignored, *qpc.notes]}
    values = {
        **facts.values,
        "base": qpc.base,
        "segments": [
            {
                "name": part.name,
                "bytes": part.size_bytes,
                "offset": part.offset,
                "start": part.start,
            }
            for part in qpc.segments
        ],
    }
    names = [name for name in qpc.names if name not in _READ and not name.startswith(SEGMENT)]
    return FileFacts(
        f"{qpc.major}.{qpc.minor}",
        summary,
        values,
        tuple(f"{name}: {_IGNORED[name]}" if name in _IGNORED else name for name in names),
    )


def _own(data: bytes) -> FileFacts:
    programs = read_programs(data)
    layout = programs[0].layout
    parts = layout.specializations
    kinds = (op.kind for part in parts for core in part.ops for group in core for op in group)
    summary = {
        "written_by": "npuscope",
        "network": layout.network,
        "program_uuid": layout.program_uuid,
        "level": layout.stats_level,
        "devices": len(parts),
        "cores": layout.cores,
        "threads": len(layout.threads),
        "dependencies": sum(len(part.dependencies) for part in parts),
        **_inventory(kinds),
    }
    if len(programs) > 1:
        rows = []
        for one in programs:
            inputs = (f"{b.name} {'x'.join(map(str, b.shape)) or '1'}" for b in one.inputs)
            rows.append(f"{one.layout.network}: {', '.join(inputs)}")
        summary["programs"] = rows
    # Ops are told by kind: a program may have 10^5 of them.
    return FileFacts("", summary, {"layout": plain(replace(layout, specializations=()))})


def _vendor(qpc: Qpc) -> FileFacts:
    summary: dict[str, Any] = {"written_by": "another compiler: no osb.layout"}
    data = qpc.get(NETWORK_DESC)
    if data is None:
        return FileFacts("", summary)
    try:
        desc = decode_networkdesc(data)
    except FileError as error:
        return FileFacts("", summary, ignored=(str(error),))
    summary |= {
        "network": desc.network_name,
        "cores": desc.num_cores,
        "threads": desc.num_threads,
        "inputs": [binding.name for binding in desc.inputs],
        "outputs": [binding.name for binding in desc.outputs],
    }
    if desc.stats is not None:
        kinds = (
            op.kind
            for core in desc.stats.core_op_name_kinds
            for group in core.tg_op_name_kinds
            for op in group.op_name_kinds
        )
        summary |= {"level": desc.stats.stats_level, **_inventory(kinds)}
        desc = replace(desc, stats=replace(desc.stats, core_op_name_kinds=()))
    return FileFacts("", summary, {"networkdesc": plain(desc)})


def _inventory(kinds: Iterable[str]) -> dict[str, Any]:
    counts = Counter(kinds)
    return {"ops": counts.total(), "op_kinds": dict(counts.most_common())}


def inspect_stats_buffer(sample: Sample) -> FileFacts:
    """Header, sections and their CRCs; records mean something only with their program."""
    data = read_bytes(sample.path, CORE_BUFFER)
    try:
        header = read_header(data)
        sections = read_sections(data, header)
        contents = read_rows(data, header)
    except FileError as error:
        raise placed(error, sample.path) from None
    summary = {
        "program_uuid": header.program_uuid,
        "level": header.level,
        "cores": header.cores,
        "threads": header.threads,
        "device": header.device,
        "inference": header.inference,
        "sections": header.sections,
        "records": {key.name: len(records) for key, records in sections.sections.items()},
        "notes": [*sections.lost.values(), *sections.notes],
    }
    rows = [dict(zip(contents.dtype.names or (), row, strict=True)) for row in contents.tolist()]
    values = {"header": plain(header), "contents": rows}
    ignored = ("the records: see `npuscope opstats`",)
    return FileFacts(f"1.{header.minor}", summary, values, ignored)


def inspect_vendor_buffer(sample: Sample) -> FileFacts:
    facts = inspect_raw_image(sample)
    return replace(facts, summary={**facts.summary, "notes": [_RAW_SENTENCE]})


def inspect_specializations(sample: Sample) -> FileFacts:
    """The sets of sizes that `manycore compile -network-specialization-config` takes."""
    sets = sets_of_sizes(sample.document, str(sample.path))
    texts = [", ".join(f"{name}={size}" for name, size in sizes.items()) for sizes in sets]
    return FileFacts("", {"sets": len(sets), "sizes": texts}, plain(list(sets)))


def inspect_opstats(sample: Sample) -> FileFacts:
    """Tables of stats buffers, as `npuscope opstats --json` writes them."""
    record = sample.document
    cores, buffers, totals = (record.get(key) for key in ("cores", "buffers", "totals"))
    rows = [row for row in buffers if isinstance(row, dict)] if isinstance(buffers, list) else []
    verdicts = [row["verdict"] for row in rows if isinstance(row.get("verdict"), dict)]
    means = totals if isinstance(totals, dict) else {}
    summary = {
        "networks": sorted({str(row.get("network", "")) for row in rows}),
        "buffers": len(rows),
        "cores": len(cores) if isinstance(cores, list) else 0,
        "level": record.get("level"),
        "ucycles_mean": means.get("ucycles_mean"),
        "inferences_per_s_mean": means.get("inferences_per_s_mean"),
        "bound_by": sorted({str(verdict.get("bound", "")) for verdict in verdicts}),
    }
    return FileFacts(str(record["schema"]).rpartition("/")[2], summary, plain(record))


def inspect_summary(sample: Sample) -> FileFacts:
    """The text of `opstats --summary`, of this tool or the vendor's."""
    from npuscope.families.many_core.adapters.registry import read_sheet
    from npuscope.families.many_core.adapters.tables import sheet_tables
    from npuscope.families.many_core.report.opstats_json import opstats_json

    record = opstats_json([sheet_tables(read_sheet(sample.path))])
    buffer = record["buffers"][0]
    kinds: Counter[str] = Counter()
    for row in record["ops"]:
        kinds[str(row["details"]).split()[0]] += int(row["count"] or 0)
    summary = {
        "networks": [buffer["network"]],
        "cores": len(record["cores"]),
        "ucycles": buffer["totals"]["ucycles"],
        "inferences_per_s": buffer["totals"]["inferences_per_s"],
        "bound_by": buffer["verdict"]["bound"],
        "ops": kinds.total(),
        "op_kinds": dict(kinds.most_common()),
        "notes": list(buffer["notes"]),
    }
    return FileFacts("", summary, plain(record))
