"""Stats buffers as text: the summary in the vendor's shape, and what the verb prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from npuscope.families.many_core.opstats.index import event_name
from npuscope.families.many_core.opstats.model import CoreTables, NodeRow, Opstats
from npuscope.report.figures import ms, percent, shorten
from npuscope.shown import significant
from npuscope.text import safe_terminal

# --- What `opstats` prints: one line per buffer, files written, what was missing ---


def opstats_text(buffers: Sequence[Opstats], files: Sequence[Path], notes: Sequence[str]) -> str:
    """The first line is the answer."""
    number = f"{len(buffers)} buffer{'s' * (len(buffers) != 1)}"
    levels = sorted({one.level for one in buffers})
    cores = len({core.core for one in buffers for core in one.cores})
    level = f"level {', '.join(map(str, levels))}, " if levels else ""
    rest = f": {len(files)} file{'s' * (len(files) != 1)}" if files else ""
    lines = [f"{number} ({level}{cores} core{'s' * (cores != 1)}){rest}", *map(_line, buffers)]
    lines += [f"wrote    {safe_terminal(str(path))}" for path in files]
    lines += [f"note     {safe_terminal(note)}" for note in notes]
    return "\n".join(lines)


def _line(tables: Opstats) -> str:
    totals = tables.totals
    line = (
        f"{shorten(safe_terminal(tables.name), 90)}: device {tables.device}, "
        f"{ms(totals.seconds * 1000)} ms, {significant(totals.inferences_per_s, 6)} inf/s"
    )
    rows = [(row, core) for core in tables.cores for row in core.ops if not row.label.is_wait]
    if not rows:
        return line
    row, core = max(rows, key=lambda pair: pair[0].ucycles)
    share = percent(row.ucycles, core.total_uc)
    return f"{line}, most on c{core.core}: {share} {shorten(safe_terminal(row.details), 60)}"


# --- The summary of a stats buffer, in the format of the vendor's tool ---

_MISSING = "N/A"
_HEADING = (
    "core  ucycles  ucycles(%)     pcycles  pcycles(%)  count      out KB"
    "  ucycles/KB  pcycles/KB  stddev(pc/KB)  opdetails"
)
_PORTS = {"host": "Host_IO_Port"}


def summary_text(opstats: Opstats, origin: str = "") -> str:
    """Blocks core by core, then the device; what was not collected is noted at the end, with the
    `origin` of the figures before it."""
    lines = [f"Specialization: {safe_terminal(opstats.specialization)}", ""]
    for core in opstats.cores:
        lines += ["", *_op_table(core), *_thread_block(core)]
        lines += _counter_block(opstats, core)
    lines += _totals(opstats)
    lines += [f"note: {safe_terminal(note)}" for note in (origin, *opstats.notes) if note]
    lines += [*_node_block(opstats), *_vtcm_block(opstats), *_advice_block(opstats)]
    return "\n".join(lines) + "\n"


# --- The end of a summary: nodes of the source network, VTCM, what bounds it, what to change ---

_SHOWN_MODULES = 40
_SHOWN_NODES = 60  # of a module
_NODE_HEADING = f"{'HVX pcycles':>14}{'HMX pcycles':>14}{'share':>9}{'DDR KB':>11}{'ops':>8}"


def _node_block(opstats: Opstats) -> Iterator[str]:
    """Where the cycles of all cores go in terms of the source network, module by module."""
    modules: dict[str, list[NodeRow]] = {}
    for row in opstats.nodes:
        modules.setdefault(row.module, []).append(row)
    total = sum(row.hvx_pcycles + row.hmx_pcycles for row in opstats.nodes)
    if modules:
        yield from ("", f"{_NODE_HEADING}  module, node")
    for name, rows in list(modules.items())[:_SHOWN_MODULES]:
        if name:
            yield _node_line(rows, total, safe_terminal(name))
        for row in rows[:_SHOWN_NODES]:
            yield _node_line([row], total, f"{'  ' if name else ''}{safe_terminal(row.node)}")
        if len(rows) > _SHOWN_NODES:
            yield f"  {len(rows) - _SHOWN_NODES} more nodes of this module"
    if len(modules) > _SHOWN_MODULES:
        yield f"{len(modules) - _SHOWN_MODULES} more modules"


def _node_line(rows: Sequence[NodeRow], total: int, name: str) -> str:
    hvx, hmx = sum(row.hvx_pcycles for row in rows), sum(row.hmx_pcycles for row in rows)
    moved, ops = sum(row.ddr_bytes for row in rows) / 1024, sum(row.ops for row in rows)
    return f"{hvx:>14}{hmx:>14}{_share(hvx + hmx, total):>9}{moved:>11.1f}{ops:>8}  {name}"


def _vtcm_block(opstats: Opstats) -> Iterator[str]:
    """A line per core: in each part of the inference, the tenths of VTCM that were in use."""
    if not opstats.vtcm or opstats.capacity is None:
        return
    room, parts = opstats.capacity.vtcm_bytes, len(opstats.vtcm[0].parts)
    step = opstats.totals.seconds * 1e6 / parts
    yield from ("", f"VTCM in use over time, in tenths of {room >> 10} KB, {step:.4g} us a column")
    for row in opstats.vtcm:
        tenths = "".join("." if not part else str(min(10 * part // room, 9)) for part in row.parts)
        yield f"c{row.core:<3}|{tenths}| most {row.most_bytes >> 10} KB"


def _advice_block(opstats: Opstats) -> Iterator[str]:
    yield ""
    if opstats.roofline is not None:
        yield f"roofline: {opstats.roofline.sentence}"
    if opstats.path:
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in opstats.path)
        yield f"critical path: {shares}"
    yield f"verdict: {opstats.verdict.sentence}"
    yield from (f"lever: {lever.sentence}" for lever in opstats.levers)
    if not opstats.levers:
        yield f"lever: {no_lever(opstats)}"


def no_lever(opstats: Opstats) -> str:
    """Why none is named."""
    if opstats.path:
        return "none helps by 2 % or more"
    return "none is predicted: that takes ops with their times and dependencies"


def _op_table(core: CoreTables) -> Iterator[str]:
    if not core.ops:
        return
    yield _HEADING
    for row in core.ops:
        cycles = _MISSING if row.pcycles is None else str(row.pcycles)
        yield (
            f"{f'c{row.core}':<4}{row.ucycles:>9}{_share(row.ucycles, core.total_uc):>12}"
            f"{cycles:>12}{_share(row.pcycles, core.total_pc):>12}{row.count:>7}"
            f"{_figure(row.out_kb):>12}{_figure(row.ucycles_per_kb):>12}"
            f"{_figure(row.pcycles_per_kb):>12}{_figure(row.pcycles_per_kb_stddev):>15}"
            f"  {safe_terminal(row.details)}"
        )
    yield ""


def _share(part: int | None, whole: int | None) -> str:
    return _MISSING if part is None or not whole else f"{100 * part / whole:.2f}%"


def _figure(value: float | None) -> str:
    return _MISSING if value is None else f"{value:.2f}"


def _thread_block(core: CoreTables) -> Iterator[str]:
    cycles = "" if core.total_pc is None else f"{core.total_pc:>16} pcycles"
    yield f"c{core.core} total:{core.total_uc:>16} ucycles{cycles} (thread max)"
    for row in core.threads:
        span = f"[{row.start_uc}, {row.end_uc}]"
        line = f"c{row.core}    t{row.thread} {row.engine:<8}{row.ucycles:>16} ucycles {span}"
        if row.pcycles is not None:
            line += f"{row.pcycles:>16} pcycles"
        if row.utilization is not None:
            line += f" {100 * row.utilization:>6.2f}% utilization"
        yield line
    yield from ("", "")
    for row in core.threads:
        line = f"c{row.core:02}t{row.thread} batch ucycles:{row.ucycles:>17} "
        line += f"[{row.start_uc},{row.end_uc}]"
        yield line if row.pcycles is None else f"{line}    pcycles:{row.pcycles:>16}"
    if core.inference_pc is not None:
        yield f"c{core.core}: Total inference pcycle is {core.inference_pc}"
    if core.effective_mhz is not None:
        yield f"c{core.core}: Effective frequency is {core.effective_mhz:.2f}MHz"
    for port in core.ports:
        kind = _PORTS.get(port.kind, "P2P_Port")
        yield f"c{port.core:02}t{port.thread}p{port.port} {kind} ucycles:{port.wait_uc:>17}"
    for activation in core.activations:
        thread = f"c{activation.core:02}t{activation.thread}"
        yield f"{thread} activate ucycles:{activation.ucycles:>18}"


def _counter_block(opstats: Opstats, core: CoreTables) -> Iterator[str]:
    """Events by thread, shares of the engines, events by op where they were counted, and bytes."""
    for row in core.pmu:
        for code, count in zip(opstats.pmu_events, row.counts, strict=False):
            yield f"c{row.core:02}t{row.thread} pmu {event_name(code) + ':':<28}{count:>17}"
    for name, share in core.active:
        yield f"c{core.core}: {name} is {share:.2f}"
    for op in core.ops:
        if op.counters:
            counts = zip(opstats.pmu_events, op.counters, strict=False)
            figures = "  ".join(f"0x{code:X} {count}" for code, count in counts)
            yield f"c{core.core} op pmu: {figures}  {safe_terminal(op.details)}"
    if core.ddr is not None:
        for name, size in (
            ("DDR read", core.ddr.read_bytes),
            ("DDR write", core.ddr.write_bytes),
            ("multicast read", core.ddr.multicast_read_bytes),
            ("multicast write", core.ddr.multicast_write_bytes),
        ):
            yield f"c{core.core}: {name} bytes:{size:>17}"


def _totals(opstats: Opstats) -> Iterator[str]:
    for row in opstats.peers:
        yield (
            f"P2P {row.source}->{row.target} p{row.port}: {row.transfers} transfers, "
            f"{row.bytes} bytes, {row.ucycles} ucycles"
        )
    totals, network = opstats.totals, safe_terminal(opstats.network)
    span = f"[{totals.start_uc}, {totals.end_uc}]"
    yield f"total batch ucycles:{totals.ucycles:>17} {span}"
    for what, amount, rate in (
        ("batch/s", 1, totals.batches_per_s),
        ("inf/s", totals.stats_batch, totals.inferences_per_s),
    ):
        yield f"[{network}] Device instance {what}: ({amount}/{totals.seconds:.6g}): {rate:.6g}"
    if totals.stats_batch > 1:
        own = f"({totals.ucycles}/{totals.stats_batch}): {totals.inference_ucycles:.6g}"
        yield f"[{network}] Device instance ucycles/inf: {own}"
    if opstats.ddr_bytes is not None:
        rate = opstats.ddr_bytes / totals.seconds / 1e9 if totals.ucycles else 0.0
        yield f"DDR traffic: {opstats.ddr_bytes / 1e6:.3f} MB, bandwidth: {rate:.3f} GB/s"
    if totals.max_input_wait_uc is not None:
        yield f"max input wait ucycles:{totals.max_input_wait_uc:>18}"
    if totals.max_output_wait_uc is not None:
        yield f"max output wait ucycles:{totals.max_output_wait_uc:>17}"
