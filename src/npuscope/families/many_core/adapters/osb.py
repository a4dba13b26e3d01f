"""Our own stats buffers, read with the layout of the program that they belong to."""

from __future__ import annotations

from npuscope.bounded_file import CORE_BUFFER, CORE_PROGRAM, read_bytes
from npuscope.errors import FileError
from npuscope.families.many_core.adapters.model import (
    Companions,
    PortWait,
    ProfileFile,
    Sheet,
    SheetOp,
    SheetTotals,
    ThreadSpan,
)
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.opstats import model as opstats
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.profiling.model import Provenance

MAGIC = b"OSBSTAT1"
PROGRAM = "programqpc.bin"
_PER_US = UTIMER_HZ / 1e6


def probe(source: ProfileFile) -> int:
    return 100 if source.head.startswith(MAGIC) else 0


def read(source: ProfileFile, companions: Companions) -> Sheet:
    from npuscope.families.many_core.buffer import read_buffer
    from npuscope.families.many_core.buffer_format import read_header
    from npuscope.families.many_core.specializations import read_layouts

    beside = source.path.parent / PROGRAM
    program = companions.qpc or (beside if beside.is_file() else None)
    if program is None:
        raise FileError(
            "a stats buffer is read with the program that wrote it",
            where=source.place,
            hint=f"name it with --qpc, or put {PROGRAM} beside the buffer",
        )
    layouts = read_layouts(read_bytes(program, CORE_PROGRAM))
    data = source.read(CORE_BUFFER)
    uuid = read_header(data).program_uuid if len(layouts) > 1 else ""
    layout = next((one for one in layouts if one.program_uuid == uuid), layouts[0])
    stats = read_buffer(data, layout, source.path.stem, ignore_uuid=companions.ignore_uuid)
    return sheet_of_stats(stats, source.path.name)


def sheet_of_stats(
    stats: Stats,
    file: str,
    *,
    adapter: str = "osb",
    provenance: Provenance = Provenance.SIMULATION,
) -> Sheet:
    """The tables of a decoded buffer as a sheet."""
    from npuscope.families.many_core.opstats.tables import opstats_of

    tables = opstats_of(stats)
    cores = tables.cores
    totals = tables.totals
    return Sheet(
        adapter=adapter,
        file=file,
        network=tables.specialization or tables.network,
        provenance=provenance,
        ops=tuple(_op(row) for core in cores for row in core.ops),
        threads=tuple(span for core in cores for span in _threads(core)),
        port_waits=tuple(
            PortWait(row.core, row.thread, row.port, row.wait_uc)
            for core in cores
            for row in core.ports
        ),
        totals=SheetTotals(
            totals.ucycles / _PER_US,
            totals.ucycles,
            totals.start_uc,
            totals.end_uc,
            totals.stats_batch,
        ),
        frequencies_mhz=tuple(
            (core.core, core.effective_mhz) for core in cores if core.effective_mhz is not None
        ),
        inference_pcycles=tuple(
            (core.core, core.inference_pc) for core in cores if core.inference_pc is not None
        ),
        notes=tables.notes,
    )


def _op(row: opstats.OpRow) -> SheetOp:
    label = row.label
    return SheetOp(
        core=row.core,
        engine=label.engine,
        kind=label.kind,
        memory=label.memory,
        dtypes=label.dtypes,
        name="",
        count=row.count,
        us=row.ucycles / _PER_US,
        ucycles=row.ucycles,
        pcycles=row.pcycles,
        out_bytes=row.out_bytes,
        stddev_pcycles_per_kb=row.pcycles_per_kb_stddev,
    )


def _threads(core: opstats.CoreTables) -> list[ThreadSpan]:
    activation = {row.thread: row.ucycles for row in core.activations}
    return [
        ThreadSpan(
            row.core,
            row.thread,
            row.engine,
            row.start_uc,
            row.end_uc,
            row.pcycles,
            row.utilization,
            activation.get(row.thread),
        )
        for row in core.threads
    ]
