"""The vendor's report in the vendor's layout."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.boards.device import BoardClocks, NetworkDesc
from npuscope.boards.wire.statistics import NodePlace, block_type, config_lines, node_lines
from npuscope.profiling.measure import Measurement
from npuscope.profiling.model import PrintedTotals
from npuscope.profiling.recorded import Recorded
from npuscope.program.model import Claims
from npuscope.report.device_values import said_values
from npuscope.report.vendor_figures import (
    Cycles,
    VendorEngine,
    VendorEpoch,
    VendorReport,
    per,
)
from npuscope.sim.counters import BusTraffic
from npuscope.text import safe_terminal
from npuscope.version import __version__

_NO_COUNTS = (0, 0, 0, 0)
_NO_OPS = "<no ops available>"
_EPOCH_SPEED = "{:.1f} GOPS (core only: {:.1f})"
_MODEL_SPEED = "{:.1f} GOPS / including SW epochs (core only = {:.1f})"


def vendor_report_text(
    report: VendorReport,
    measured: Measurement | None = None,
    numbers: frozenset[int] | None = None,
) -> str:
    """What the device said, blocks by epoch (those that cover one of the numbers), then the whole
    model, in the vendor's layout."""
    lines = _initial_part(measured) if measured else []
    shown = [e for e in report.epochs if numbers is None or _covers(e, numbers)]
    lines += [line for epoch in shown for line in (*_block(epoch, report), "")]
    lines += ["", *_title("Summary"), ""]
    if report.printed is not None:
        lines += _printed_total(report.printed)
    else:
        lines += [*_compiler_total(report), *_measured_total(report), "", *_memory_total(report)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _covers(epoch: VendorEpoch, numbers: frozenset[int]) -> bool:
    return any(epoch.first <= number <= epoch.last for number in numbers)


_INITIAL_RULER = "-" * 108
_OF_NETWORK = 3  # rows that tell of the network; the rest are the device's


def _initial_part(measured: Measurement) -> list[str]:
    info, network = measured.info, measured.network
    name = safe_terminal(network.name)
    device = measured.profile.device
    said = _entries(said_values(device))
    banner = f"npuscope - NPU profiler (version {__version__})"
    opening = [banner]
    if device is not None:
        opening = [device.banner or banner]
        opening += [f"Creating date : {device.created}"] if device.created else []
        if device.session:
            opening.append(f"Creating session with `{device.session}` descriptor")
        opening += [f"{info.protocol} {[safe_terminal(n.name) for n in info.networks]}", ""]
    return [
        *map(safe_terminal, opening),
        f"Summary '{name}' - {[safe_terminal(n.name) for n in info.networks]}",
        _INITIAL_RULER,
        *_tensor_lines(network),
        *said[:_OF_NETWORK],
        _INITIAL_RULER,
        *said[_OF_NETWORK:],
        _INITIAL_RULER,
        "",
        "Per epoch",
    ]


def _title(text: str) -> list[str]:
    return ["-" * 60, f"  {text}", "-" * 60]


def _row(name: str, value: str) -> str:
    return f"  {safe_terminal(name):<22} : {value}"


def _block(epoch: VendorEpoch, report: VendorReport) -> list[str]:
    span = f"c_idx={epoch.index}, num={epoch.first}:{epoch.last}"
    title = f"{epoch.name} ({span}, c_type={epoch.kind}, extra={epoch.extra})"
    lines = [*_title(title), "[compiler]", *_compiler(epoch, report.clocks), "[target]"]
    mcu_hz = report.clocks.mcu_hz
    total = sum(epoch.mcu_cycles) * 1000 / mcu_hz
    share = 100 * per(total, report.total_ms)
    parts = [("mcu cycles", epoch.own_mcu_cycles)]
    if epoch.extra:
        parts += [("extra mcu", epoch.extra_mcu_cycles), ("total mcu", epoch.mcu_cycles)]
    lines += [
        _row("duration", f"{total:.3f}ms ({share:.1f}%) total={report.total_ms:.3f}ms"),
        *(_row(name, _phases(cycles, mcu_hz)) for name, cycles in parts),
    ]
    if not epoch.read_bytes + epoch.write_bytes:
        return [*lines, _row("npu cycles", "n.a.")]
    accesses, core = epoch.claims.accesses, epoch.npu_cycles[1]
    rows = [(a.pool, a.reads, a.writes) for a in accesses]
    rows.append(("total", sum(a.reads for a in accesses), sum(a.writes for a in accesses)))
    return [
        *lines,
        *_core(epoch, report.clocks),
        *[_row(f" {name}", _moved(r, w, report.clocks.npu_hz, core)) for name, r, w in rows],
    ]


def _compiler(epoch: VendorEpoch, clocks: BoardClocks) -> list[str]:
    compiled, claims = epoch.compiled, epoch.claims
    if compiled is None:
        return [_row("operations", "<no-info available from the compiler>")]
    moved = (f"[{safe_terminal(a.pool)}: r={a.reads}, w={a.writes}]" for a in claims.accesses)
    speed = _gops(claims.ops, claims.max_cycles, clocks)
    ideal = _gops(claims.ops, claims.compute_cycles, clocks)
    return [
        _row("epoch type", f"EpochType.{compiled.type}"),
        _row("operations", safe_terminal(str(compiled.operations))),
        _row("processor units", str(compiled.units)),
        _row("ops", str(claims.ops)),
        _row("compute cycles", f"{claims.compute_cycles} (max_cycles={claims.max_cycles})"),
        _row("ops/cycle", f"{speed:.1f} GOPS (ideal={ideal:.1f})" if claims.ops else _NO_OPS),
        _row("mem accesses", " ".join(moved)),
    ]


def _phases(cycles: Cycles, mcu_hz: int) -> str:
    ms = [value * 1000 / mcu_hz for value in cycles]
    split = ",".join(f"{value:.3f}" for value in ms)
    return f"{list(cycles)} -> {split} ms (mcu_freq={mcu_hz / 1e6:g}MHz), {sum(ms):.3f}ms"


def _core(epoch: VendorEpoch, clocks: BoardClocks) -> list[str]:
    core, total, claims = epoch.npu_cycles[1], sum(epoch.npu_cycles), epoch.claims
    ms = core * 1000 / clocks.npu_hz
    gap = core - claims.max_cycles
    against = (
        f"diff. vs max_cycles from compiler: {'+' * (gap > 0)}{gap} ({100 * per(gap, core):.2f}%)"
    )
    names = (("hit", "miss", "alloc-miss", last) for last in ("evict", "through"))
    rows = (row or _NO_COUNTS for row in (epoch.cache_read, epoch.cache_write))
    parts = (
        ", ".join(f"{name}={value}" for name, value in zip(keys, row, strict=True))
        for keys, row in zip(names, rows, strict=True)
    )
    return [
        _row(
            "core npu cycles",
            f"{core} -> {ms:.3f} ms (npu_freq={clocks.npu_hz / 1e6:g}MHz) "
            f"{against if claims.max_cycles else ''}",
        ),
        _row("compute cycles ratio", _ratio(claims, total, core)),
        *(_row(f"busif {bus.id}", _bus(bus, core, clocks)) for bus in epoch.buses),
        _row("busif (total)", _moved(epoch.read_bytes, epoch.write_bytes, clocks.npu_hz, core)),
        _row("ops/cycle", _speed(claims, total, core, clocks, _EPOCH_SPEED)),
        *_engine_rows(epoch),
        _row("NPU cache cnts", "R[{}], W[{}]".format(*parts)),
    ]


def _ratio(claims: Claims, total: int, core: int) -> str:
    if not claims.compute_cycles:
        return "<no compute cycles available>"
    whole, part = (100 * per(claims.compute_cycles, cycles) for cycles in (total, core))
    return f"{whole:.2f}% (core only: {part:.2f}%)"


def _speed(claims: Claims, total: int, core: int, clocks: BoardClocks, form: str) -> str:
    if not claims.ops:
        return _NO_OPS
    return form.format(*(_gops(claims.ops, cycles, clocks) for cycles in (total, core)))


def _gops(ops: int, cycles: int, clocks: BoardClocks) -> float:
    return per(ops * clocks.npu_hz, cycles) / 1e9


def _bus(bus: BusTraffic, core: int, clocks: BoardClocks) -> str:
    reads, writes = (",".join(map(str, row)) for row in (bus.read_bursts, bus.write_bursts))
    bandwidth = _rate(bus.read_bytes + bus.write_bytes, clocks.npu_hz, core)
    return (
        f"r={bus.read_bytes:<8} w={bus.write_bytes:<8} rburst[1,2,4,8]x8=({reads}) "
        f"wburst[1,2,4,8]x8=({writes}) -> {bandwidth}"
    )


def _moved(reads: int, writes: int, clock_hz: int, cycles: int) -> str:
    return f"r={reads:<10} w={writes:<10} -> {_rate(reads + writes, clock_hz, cycles)}"


def _rate(moved_bytes: int, clock_hz: int, cycles: int) -> str:
    value = per(moved_bytes * clock_hz, cycles)
    for limit, unit in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "KB/s")):
        if value >= limit:
            return f"{value / limit:.2f} {unit}"
    return f"{int(value)} B/s"


def _engine_rows(epoch: VendorEpoch) -> list[str]:
    busiest, core = epoch.busiest, epoch.npu_cycles[1]
    if busiest is None:
        return []
    most = 100 * per(busiest.active_cycles, core)
    return [
        _row("strg engines", f"{most:.2f}% (id={busiest.id})"),
        *(_row(" active", _engine(engine, core)) for engine in epoch.engines),
    ]


def _engine(engine: VendorEngine, core: int) -> str:
    data = ", ".join(f"{safe_terminal(pool)}:{size}" for pool, size in engine.data)
    return (
        f"STRENG.{engine.id}.{engine.direction}: busif={engine.busif}, "
        f"{engine.active_cycles} cycles, {f'[{data}]' if data else '<no-data-size info>'}, "
        f"{100 * per(engine.active_cycles, core):.0f}%"
    )


def _printed_total(totals: PrintedTotals) -> list[str]:
    """As the report that was read has it."""
    parts = (
        ("Compiler", totals.compiler),
        ("Measured", totals.measured),
        ("Memory bandwidth / inference", totals.bandwidth),
    )
    lines: list[str] = []
    for title, rows in parts:
        lines += [f"  {title}", *(_row(f" {name}", safe_terminal(v)) for name, v in rows), ""]
    return lines[:-1]


def _compiler_total(report: VendorReport) -> list[str]:
    claims, npu_hz = report.claims, report.clocks.npu_hz
    if not claims.max_cycles:
        return []
    speed = per(npu_hz, claims.max_cycles)
    return [
        "  Compiler",
        _row(" cycles", f"{claims.max_cycles} (total max_cycles)"),
        _row(" ideal cycles", f"{claims.compute_cycles} (total compute_cycles)"),
        _row(" ops", str(claims.ops)),
        _row(" ops/cycle", str(int(per(claims.ops, claims.max_cycles)))),
        _row(" inf/s", f"{speed:.1f} (based on estimated total max_cycles)"),
        _row(" ideal ops/cycle", str(int(per(claims.ops, claims.compute_cycles)))),
        _row(" ideal inf/s", f"{per(npu_hz, claims.compute_cycles):.1f}"),
        "",
    ]


def _measured_total(report: VendorReport) -> list[str]:
    mcu, npu, claims = report.mcu_cycles, report.npu_cycles, report.claims
    share = 100 * per(report.npu_core_ms, report.total_ms)
    shares = ", ".join(f"{100 * per(value, sum(mcu)):.2f}" for value in mcu)
    speed = f"{report.inferences_per_s:.1f} ({report.total_ms:.3f}ms)"
    core = f"npu_core:{report.npu_core_ms:.3f}ms ({share:.2f}%)"
    return [
        "  Measured",
        _row(" total duration", f"{report.total_ms:.3f}ms, {core}, mcu_cycles=[{shares}]%"),
        _row(" mcu cycles", f"{sum(mcu)} (core only = {mcu[1]})"),
        _row(" npu cycles", f"{sum(npu)} (core only = {npu[1]})"),
        _row(" ops/cycle", _speed(claims, sum(npu), npu[1], report.clocks, _MODEL_SPEED)),
        _row(" inf/s", speed),
        _row(" compute cycles ratio", _ratio(claims, sum(npu), npu[1])),
    ]


def _memory_total(report: VendorReport) -> list[str]:
    accesses = report.claims.accesses
    if not accesses:
        missing = _row(" <mempool name>", "<no mempool info available>")
        return ["  Memory bandwidth / inference", missing]
    rows = [(a.pool, a.reads, a.writes) for a in accesses]
    rows.append(("total r/w", sum(a.reads for a in accesses), sum(a.writes for a in accesses)))
    lines = ["  Memory bandwidth / inference"]
    for name, reads, writes in rows:
        # Peak while the NPU works, average over the whole inference.
        peak = _moved(reads, writes, report.clocks.npu_hz, report.npu_cycles[1])
        average = _rate(reads + writes, report.clocks.mcu_hz, sum(report.mcu_cycles))
        lines.append(_row(f" {name}", f"{peak} (peak), {average} (average)"))
    return lines


# --- A device's answers as the log of the vendor's profiler, for `profile --log` ---
# `--connect log:FILE` reads it again. The device's own words go with it, so that the counters of a
# simulated board stay simulated ones.


def counter_log_text(measured: Measurement) -> str:
    info = measured.info
    lines = [
        *_tensor_lines(measured.network),
        *_entries(said_values(measured.profile.device)),
        *config_lines(info.device_id, info.clocks, npu_cache=info.npu_cache),
    ]
    for row in measured.recorded:
        lines += _inference(row)
    return "\n".join(lines) + "\n"


def _tensor_lines(network: NetworkDesc) -> Iterator[str]:
    for side, tensors in (("I", network.inputs), ("O", network.outputs)):
        for number, tensor in enumerate(tensors, 1):
            shape = ",".join(map(str, tensor.shape))
            text = f"{tensor.dtype}[{shape}], {tensor.size_bytes} Bytes"
            if tensor.scale:
                text += f", QLinear({tensor.scale:.9f},{tensor.zero_point},{tensor.dtype})"
            if tensor.memory:
                text += f", {tensor.memory}"
            place = f"{side}[{number}/{len(tensors)}]"
            yield f"{place} '{safe_terminal(tensor.name)}' : {text}"


def _entries(values: dict[str, str]) -> list[str]:
    return [f"{name:<20}: {value}" for name, value in values.items()]


def _inference(row: Recorded) -> Iterator[str]:
    mode = "PERF_ONLY|PER_LAYER" if row.per_layer else "PERF_ONLY"
    yield f"-> Requested RUN mode: Mode.{mode} (param=0b0, option={int(row.options) << 8:#x})"
    current = 0
    for index, node in enumerate(row.inference.nodes):
        current = current if node.extra else node.number
        yield from node_lines(node, NodePlace(index, current), row.options)
        place = f"id={node.number}.{node.last} type=0x1000000/INTERNAL"
        yield _end("", [*node.mcu_cycles], 0.0, f'{place},"epoch ({block_type(node).name})"')
    cycles = [*row.inference.mcu_cycles, sum(row.inference.mcu_cycles), 0]
    yield _end(row.network, cycles, row.inference.duration_ms, 'id=0.0 type=0x0/NONE,"epoch"')


def _end(name: str, cycles: list[int], duration_ms: float, place: str) -> str:
    time = f"dur={duration_ms:.3f}ms"
    return f'name="{safe_terminal(name)}" counters="CPU cycles"{cycles} {time} {place}'
