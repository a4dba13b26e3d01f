"""network.csv, the compiler's table of epochs: records, reader, and writer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from npuscope.bounded_file import REPORT, read_text
from npuscope.errors import FileError
from npuscope.machine.model import Machine
from npuscope.program.c_info.from_epochs import memory_energy, memory_power_mw
from npuscope.program.model import Access, Epoch, Program
from npuscope.program.units import Streng
from npuscope.text import csv_cell, safe_terminal

# --- Columns and rows ---


POOL_COLUMNS = (" (r)", " (w)", " (r+w)", " (r cycles)", " (w cycles)", " (cycles)")
PORT_COLUMNS = (" (r)", " (w)")
# One for each field of EpochRow behind its ports; the "%" are fractions of one.
UNIT_POWER = "epoch average ATON power (mW)"
EPOCH_COLUMNS = (
    "epoch OPS",
    "epoch OPS vs total %",
    "epoch compute (cyles)",  # the vendor's spelling
    "epoch compute (cyles) vs Tot %",
    "max (cycles)",
    "max (cycles) vs Tot %",
    UNIT_POWER,
    "epoch average ATON power vs Tot %",
    "epoch average memory power (mW)",
    "epoch average memory power vs Tot %",
)
FIRST_COLUMN = "epochs"
TOTAL, BANDWIDTH = "Total", "BW"
BANDWIDTH_LABEL = "total bytes r/w BW"
UNUSED = "?"
PORT = re.compile(r"bus port (\d{1,4})")
NUMBER = re.compile(r"-?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,3})?")

Number = int | float


class StatedPoolTraffic(Struct, frozen=True):
    pool: str
    read_bytes: Number
    write_bytes: Number
    total_bytes: Number
    read_cycles: Number
    write_cycles: Number
    cycles: Number


class PortTraffic(Struct, frozen=True):
    port: int
    read_bytes: Number
    write_bytes: Number


class EpochRow(Struct, frozen=True):
    number: int
    pools: tuple[StatedPoolTraffic, ...]
    ports: tuple[PortTraffic, ...]
    ops: Number
    ops_share: Number
    compute_cycles: Number
    compute_share: Number
    max_cycles: Number
    max_share: Number
    unit_power_mw: Number | None  # blank where it is not known
    unit_power_share: Number | None
    memory_power_mw: Number
    memory_power_share: Number


class StatedPoolUse(Struct, frozen=True):
    """Used bytes in the file's unit ("MB", "KB", "B") and bytes per second; None if unused."""

    pool: str
    used: Number | None = None
    unit: str = ""
    bandwidth: Number | None = None


class NetworkCsv(Struct, frozen=True):
    """The whole file: epochs, sums of the pool columns, the same by second, use, key figures."""

    epochs: tuple[EpochRow, ...]
    totals: tuple[StatedPoolTraffic, ...]
    bandwidths: tuple[StatedPoolTraffic, ...]
    uses: tuple[StatedPoolUse, ...]
    summary: tuple[tuple[str, Number | None], ...]


def header(pools: Sequence[str], ports: Sequence[int]) -> list[str]:
    """The first line's cells."""
    pool_cells = [pool + column for pool in pools for column in POOL_COLUMNS]
    port_cells = [f"bus port {port}{column}" for port in ports for column in PORT_COLUMNS]
    return [FIRST_COLUMN, *pool_cells, *port_cells, *EPOCH_COLUMNS]


# --- Reader: a cell that does not fit its column is an error with the line ---


def read_network_csv(path: str | Path) -> NetworkCsv:
    lines = _Lines(str(path), read_text(path, REPORT, encoding="utf-8-sig").splitlines())
    pools, ports = _columns(lines)
    rows = [_epoch_row(lines, cells, pools, ports) for cells in lines.section()]
    sums = {cells[0]: _sums(lines, cells, pools) for cells in lines.section()}
    if set(sums) != {TOTAL, BANDWIDTH}:
        raise lines.error(f"expected the rows '{TOTAL}' and '{BANDWIDTH}' after the epochs")
    uses = tuple(_use(lines, cells) for cells in lines.section())
    summary = tuple(_figure(lines, cells) for cells in lines.section())
    return NetworkCsv(tuple(rows), sums[TOTAL], sums[BANDWIDTH], uses, summary)


class _Lines:
    """The lines of a file, with the number of the one being read."""

    def __init__(self, file: str, lines: list[str]) -> None:
        self.file = file
        self.lines = lines
        self.number = 0

    def next(self) -> list[str]:
        """The cells of the next line; none at the end of the file."""
        if self.number >= len(self.lines):
            return []
        self.number += 1
        return [cell.strip() for cell in self.lines[self.number - 1].split(",")]

    def section(self) -> Iterator[list[str]]:
        """Lines up to a blank one or the end."""
        while any(cells := self.next()):
            yield cells

    def number_of(self, text: str) -> Number:
        if not NUMBER.fullmatch(text):
            raise self.error(f"expected a number, found '{safe_terminal(text[:40])}'")
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise self.error(f"{text[:40]} is not a finite number")
        return int(text) if text.lstrip("-").isdigit() else value

    def maybe(self, text: str) -> Number | None:
        """A blank cell means that the figure is unknown."""
        return self.number_of(text) if text else None

    def error(self, message: str) -> FileError:
        return FileError(message, where=f"{self.file}:{max(self.number, 1)}")


def _columns(lines: _Lines) -> tuple[list[str], list[int]]:
    """Pools and bus ports of the table, in the order of their columns."""
    cells = lines.next()
    firsts = [cell.removesuffix(POOL_COLUMNS[0]) for cell in cells if cell.endswith(" (r)")]
    ports = [int(match[1]) for match in map(PORT.fullmatch, firsts) if match]
    pools = [name for name in firsts if not PORT.fullmatch(name)]
    expected = header(pools, ports)
    if cells == expected:
        return pools, ports
    pairs = zip([*cells, "nothing"], [*expected, "no more"], strict=False)
    place, (actual, column) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    text = safe_terminal(actual[:40])
    raise lines.error(f"column {place + 1}: expected '{safe_terminal(column)}', found '{text}'")


def _epoch_row(lines: _Lines, cells: list[str], pools: list[str], ports: list[int]) -> EpochRow:
    expected = len(header(pools, ports))
    if len(cells) != expected:
        raise lines.error(f"expected {expected} cells, found {len(cells)}")
    split = 1 + len(pools) * len(POOL_COLUMNS)
    rest = split + len(ports) * len(PORT_COLUMNS)
    power = rest + EPOCH_COLUMNS.index(UNIT_POWER)
    values = [lines.number_of(cell) for cell in (*cells[:power], *cells[power + 2 :])]
    if values[0] != int(values[0]) or values[0] < 0:
        raise lines.error(f"expected an epoch number, found '{cells[0][:40]}'")
    traffic = values[split:rest]
    width = len(PORT_COLUMNS)
    pairs = enumerate(ports)
    return EpochRow(
        int(values[0]),
        _traffic(values[1:split], pools),
        tuple(PortTraffic(port, *traffic[i * width : (i + 1) * width]) for i, port in pairs),
        *values[rest:power],
        *(lines.maybe(cell) for cell in cells[power : power + 2]),
        *values[power:],
    )


def _traffic(values: list[Number], pools: list[str]) -> tuple[StatedPoolTraffic, ...]:
    width = len(POOL_COLUMNS)
    pairs = enumerate(pools)
    return tuple(StatedPoolTraffic(pool, *values[i * width : (i + 1) * width]) for i, pool in pairs)


def _sums(lines: _Lines, cells: list[str], pools: list[str]) -> tuple[StatedPoolTraffic, ...]:
    """The pool columns of a row that ends in a comma."""
    values = [lines.number_of(cell) for cell in cells[1:] if cell]
    expected = len(pools) * len(POOL_COLUMNS)
    if len(values) != expected:
        raise lines.error(f"expected {expected} numbers, found {len(values)}")
    return _traffic(values, pools)


def _use(lines: _Lines, cells: list[str]) -> StatedPoolUse:
    if len(cells) == 2 and cells[1] == UNUSED:
        return StatedPoolUse(cells[0])
    used = cells[1].split() if len(cells) == 4 else []
    if len(used) != 2 or cells[2] != BANDWIDTH_LABEL:
        raise lines.error("expected a pool, its used bytes and its bandwidth")
    return StatedPoolUse(cells[0], lines.number_of(used[0]), used[1], lines.number_of(cells[3]))


def _figure(lines: _Lines, cells: list[str]) -> tuple[str, Number | None]:
    if len(cells) != 2:
        raise lines.error(f"expected a name and a number, found {len(cells)} cells")
    return cells[0], lines.maybe(cells[1])


def network_csv_text(program: Program, machine: Machine) -> str:
    """The program's claims as the compiler's table. The power of units is not
    known: its cells are blank."""
    moving = {access.pool for epoch in program.epochs for access in epoch.claims.accesses}
    pools = [pool.name for pool in program.pools if not pool.virtual or pool.name in moving]
    ports = range(machine.stream.busif(machine.units["STRENG"] - 1), -1, -1)
    totals = _Totals.of(program, machine)
    rows = [_row(epoch, pools, ports, totals, program, machine) for epoch in program.epochs]
    idle = ["0"] * (len(header(pools, ports)) - 1)
    closing = max((epoch.last_number for epoch in program.epochs), default=0) + 1
    cells = header([csv_cell(pool) for pool in pools], ports)
    lines = [cells, ["0 ", *idle], *rows, [f"{closing} ", *idle], []]
    sums = [n for pool in pools for n in _access_numbers(_summed(program, pool))]
    lines += [
        [TOTAL, *map(_text, sums), ""],
        [BANDWIDTH, *(totals.by_second(number) for number in sums), ""],
        [],
    ]
    used = {pool.name: pool.used_bytes for pool in program.pools}
    rows = []
    for pool in pools:
        total = _summed(program, pool)
        rate = totals.by_second(total.reads + total.writes)
        tail = [f" {_size(used[pool])} ", f" {BANDWIDTH_LABEL}", rate]
        rows.append([f"{csv_cell(pool)} ", *(tail if used[pool] else [f" {UNUSED}"])])
    lines += [*rows, []]
    return "".join(",".join(line) + "\n" for line in [*lines, *_figures(totals)])


class _Totals(Struct, frozen=True):
    ops: int
    compute: int
    cycles: int
    energy: float  # of memories, milliwatts times cycles
    clock_hz: float

    @staticmethod
    def of(program: Program, machine: Machine) -> _Totals:
        claims = [epoch.claims for epoch in program.epochs]
        return _Totals(
            sum(claim.ops for claim in claims),
            sum(claim.compute_cycles for claim in claims),
            sum(claim.max_cycles for claim in claims),
            sum(memory_energy(epoch, program, machine) for epoch in program.epochs),
            machine.clocks.npu_mhz * 1e6,
        )

    def by_second(self, amount: float) -> str:
        return _rate(amount * self.clock_hz, self.cycles)


def _row(
    epoch: Epoch,
    pools: list[str],
    ports: range,
    totals: _Totals,
    program: Program,
    machine: Machine,
) -> list[str]:
    claims = epoch.claims
    accesses = {access.pool: access for access in claims.accesses}
    traffic = [n for pool in pools for n in _access_numbers(accesses.get(pool, Access(pool)))]
    power, energy = (f(epoch, program, machine) for f in (memory_power_mw, memory_energy))
    stated = (claims.ops, claims.compute_cycles, claims.max_cycles)
    sums = (totals.ops, totals.compute, totals.cycles)
    pairs = [(str(n), _rate(n, total)) for n, total in zip(stated, sums, strict=True)]
    pairs += [("", ""), (f"{power:g}", _rate(energy, totals.energy))]
    ported = [str(n) for port in ports for n in _port_bytes(epoch, port, machine)]
    cells = [f"{epoch.number} ", *map(_text, traffic), *ported]
    return [*cells, *(text for pair in pairs for text in pair)]


def _access_numbers(access: Access) -> tuple[float, ...]:
    moved, cycles = (access.reads, access.writes), (access.read_cycles, access.write_cycles)
    return (*moved, sum(moved), *cycles, sum(cycles))


def _port_bytes(epoch: Epoch, port: int, machine: Machine) -> tuple[int, int]:
    engines = [unit for unit in epoch.units if isinstance(unit, Streng)]
    here = [engine for engine in engines if machine.stream.busif(engine.id) == port]
    read, stored = (sum(e.total_bytes for e in here if e.dir == way) for way in (0, 1))
    return read, stored


def _summed(program: Program, pool: str) -> Access:
    accesses = [a for epoch in program.epochs for a in epoch.claims.accesses if a.pool == pool]
    fields = ("reads", "writes", "read_cycles", "write_cycles")
    return Access(pool, *(sum(getattr(access, field) for access in accesses) for field in fields))


def _figures(totals: _Totals) -> list[list[str]]:
    clock = f"({totals.clock_hz / 1e6:g} MHz)"
    power = _rate(totals.energy, totals.cycles)
    return [
        ["Total cycles", str(totals.cycles)],
        ["Total ideal cycles", str(totals.compute)],
        ["Total OPS", str(totals.ops)],
        ["Total ops/cycle", str(totals.ops // totals.cycles if totals.cycles else 0)],
        ["Total ideal ops/cycle", str(totals.ops // totals.compute if totals.compute else 0)],
        [f"Frames/sec{clock}", _rate(totals.clock_hz, totals.cycles)],
        [f"Ideal Frames/sec{clock}", _rate(totals.clock_hz, totals.compute)],
        [f"Average ATON power mW{clock}", ""],
        ["Average memory power mW", power],
        ["Average Total power mW", ""],
        ["TOPS/W", ""],
    ]


def _rate(part: float, whole: float) -> str:
    return f"{part / whole:g}" if whole else "0"


def _text(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(float(number))


def _size(size_bytes: int) -> str:
    for unit, scale in (("MB", 1 << 20), ("KB", 1 << 10)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.2f} {unit}"
    return f"{size_bytes:.2f} B"
