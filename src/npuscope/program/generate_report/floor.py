"""What a generate report alone says of time: no less than this."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npuscope.errors import FileError
from npuscope.machine.load import set_up_of
from npuscope.machine.model import Machine
from npuscope.program.generate_report.model import GenerateReport
from npuscope.program.generate_report.reader import read_generate_report

_PRODUCTS = 72  # products a cycle of one convolution unit, 8-bit features and weights


def refuse_report(path: Path, machine: Machine) -> None:
    """It has sizes and epochs; a time only as a floor of what they need."""
    report = read_generate_report(path)
    if report.counts is None or report.total is None:
        return
    floor = max(0.0, *_ways(report, machine)) / machine.clocks.npu_mhz / 1000
    assumed = f" with flash {set_up_of(machine, 'flash')}" if "flash" in machine.assumed else ""
    raise FileError(
        f"is a generate report, which states no times: {report.counts.total} epochs and "
        f"{report.total.weights.bytes:,} bytes of weights take {floor:.3g} ms at least{assumed}",
        where=str(path),
        hint="`npuscope inspect` shows its figures; network.csv, c_info.json and network.c of the "
        "same build can be timed",
    )


def _ways(report: GenerateReport, machine: Machine) -> Iterator[float]:
    """Cycles to start the epochs, to fetch the weights and to multiply: each is needed."""
    assert report.counts is not None
    yield (report.counts.total - report.counts.software) * (
        machine.generation.control.controller_cycles
    )
    paths = {memory.name: memory.path for memory in machine.pools}
    for pool in report.pools:
        if pool.name in paths:
            yield pool.weights.amount.bytes * machine.cycles_per_byte(paths[pool.name])
    products = sum(layer.macc or 0 for layer in report.layers)
    yield products / (machine.units["CONVACC"] * _PRODUCTS)
