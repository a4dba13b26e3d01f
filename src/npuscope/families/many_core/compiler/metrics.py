"""What a program moves and counts, core by core: known when it is compiled, not measured."""

from __future__ import annotations

from msgspec import Struct

from npuscope.families.many_core.compiler.draft import INPUT_PORT, OUTPUT_PORT
from npuscope.families.many_core.compiler.kinds import END_STATS, GroupNumber
from npuscope.families.many_core.program import CoreProgram, DeviceProgram
from npuscope.text import safe_terminal

_KB = 1024


class CoreMetrics(Struct, frozen=True):
    """Of one core and inference; what the stats buffer itself costs is left out."""

    device: int
    core: int
    ops: int
    barriers: int
    ddr_read_bytes: int
    ddr_write_bytes: int
    multicast_read_bytes: int
    multicast_write_bytes: int
    vtcm_bytes: int
    macs: int


class PortMetrics(Struct, frozen=True):
    device: int
    port: int
    name: str
    bytes: int


class PerfMetrics(Struct, frozen=True):
    cores: tuple[CoreMetrics, ...]
    ports: tuple[PortMetrics, ...]
    constant_bytes: int
    stats_bytes: int  # of one device's buffer
    macs: int  # of the network, from its shapes


def perf_metrics(program: CoreProgram) -> PerfMetrics:
    cores = [
        _core(part, device, core)
        for device, part in enumerate(program.devices)
        for core in range(len(part.ops))
    ]
    ends = [op.info.out_bytes for op in program.devices[0].all_ops() if op.info.kind == END_STATS]
    # What passes every port of every device in one inference.
    host = {
        INPUT_PORT: sum(binding.bytes for binding in program.inputs),
        OUTPUT_PORT: sum(binding.bytes for binding in program.outputs),
    }
    ports = []
    for device, part in enumerate(program.devices):
        passed: dict[int, int] = {}
        for op in part.all_ops():
            if op.transfer is not None and op.transfer.port is not None:
                number = op.transfer.port
                passed[number] = passed.get(number, 0) + op.transfer.bytes
        for port in program.layout.ports:
            size = host.get(port.id, passed.get(port.id, 0))
            if port.id in host or size:
                ports.append(PortMetrics(device, port.id, port.name, size))
    return PerfMetrics(tuple(cores), tuple(ports), program.constant_bytes, max(ends), program.macs)


def _core(part: DeviceProgram, device: int, core: int) -> CoreMetrics:
    ops = [op for group in part.ops[core] for op in group if op.info.kind != END_STATS]
    # A barrier follows every op that several threads execute together, and one ends it all.
    barriers = 1 + sum(op.group == GroupNumber.HVX and not op.info.asynchronous for op in ops)
    return CoreMetrics(
        device,
        core,
        len(ops),
        barriers,
        sum(op.info.rd_bytes for op in ops),
        sum(op.info.wr_bytes for op in ops),
        sum(
            op.transfer.bytes
            for op in part.all_ops()
            if op.transfer and op.core != core and op.transfer.receivers >> core & 1
        ),
        sum(op.transfer.bytes for op in ops if op.transfer and op.transfer.receivers),
        part.vtcm_bytes[core],
        sum(op.info.macs for op in ops),
    )


def metrics_lines(metrics: PerfMetrics) -> list[str]:
    """As a table, KB where a memory or road is meant."""
    head = ("core", "ops", "barriers", "DDR rd KB", "DDR wr KB", "MC rd KB", "MC wr KB", "VTCM KB")
    rows: list[tuple[str, ...]] = [head]
    several = any(core.device for core in metrics.cores)
    for core in metrics.cores:
        name = f"{core.device}.{core.core}" if several else f"{core.core}"
        sizes = (
            core.ddr_read_bytes,
            core.ddr_write_bytes,
            core.multicast_read_bytes,
            core.multicast_write_bytes,
            core.vtcm_bytes,
        )
        counts = (name, f"{core.ops}", f"{core.barriers}")
        rows.append((*counts, *(f"{size / _KB:.2f}" for size in sizes)))
    lines = [" ".join(f"{cell:>10}" for cell in row) for row in rows]
    for port in metrics.ports:
        name, size = safe_terminal(port.name), f"{port.bytes / _KB:.2f} KB"
        lines.append(f"port {port.port} {name} of device {port.device}: {size}")
    products = sum(core.macs for core in metrics.cores)
    lines.append(f"constants {metrics.constant_bytes / _KB:.2f} KB")
    lines.append(f"stats buffer {metrics.stats_bytes / _KB:.2f} KB per device")
    lines.append(f"MACs {metrics.macs} in the network, {products} on HMX")
    return lines
