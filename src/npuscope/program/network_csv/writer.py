"""Writes network.csv from what a program claims."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.machine.model import Machine
from npuscope.program.c_info.from_epochs import memory_energy, memory_power_mw
from npuscope.program.model import Access, Epoch, Program
from npuscope.program.network_csv.reader import BANDWIDTH, BANDWIDTH_LABEL, TOTAL, UNUSED, header
from npuscope.program.units import Streng
from npuscope.text import csv_cell


def network_csv_text(program: Program, machine: Machine) -> str:
    """The program's claims as the compiler's table. The power of units is not
    known: its cells are blank."""
    pools = [pool.name for pool in program.pools if not pool.virtual or _moves(program, pool.name)]
    ports = range(machine.stream.busif(machine.units["STRENG"] - 1), -1, -1)
    totals = _Totals.of(program, machine)
    rows = [_row(epoch, pools, ports, totals, program, machine) for epoch in program.epochs]
    idle = ["0"] * (len(header(pools, ports)) - 1)
    closing = max((epoch.last_number for epoch in program.epochs), default=0) + 1
    cells = header([csv_cell(pool) for pool in pools], ports)
    lines = [cells, ["0 ", *idle], *rows, [f"{closing} ", *idle], []]
    lines += [*_sum_rows(program, pools, totals), []]
    lines += [*_use_rows(program, pools, totals), []]
    return "".join(",".join(line) + "\n" for line in [*lines, *_figures(totals)])


@dataclass(frozen=True, slots=True)
class _Totals:
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


def _moves(program: Program, pool: str) -> bool:
    return any(access.pool == pool for e in program.epochs for access in e.claims.accesses)


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
    read, written = (sum(e.total_bytes for e in here if e.dir == way) for way in (0, 1))
    return read, written


def _sum_rows(program: Program, pools: list[str], totals: _Totals) -> list[list[str]]:
    sums = [n for pool in pools for n in _access_numbers(_summed(program, pool))]
    return [
        [TOTAL, *map(_text, sums), ""],
        [BANDWIDTH, *(totals.by_second(number) for number in sums), ""],
    ]


def _summed(program: Program, pool: str) -> Access:
    found = [a for epoch in program.epochs for a in epoch.claims.accesses if a.pool == pool]
    fields = ("reads", "writes", "read_cycles", "write_cycles")
    return Access(pool, *(sum(getattr(access, field) for access in found) for field in fields))


def _use_rows(program: Program, pools: list[str], totals: _Totals) -> list[list[str]]:
    used = {pool.name: pool.used_bytes for pool in program.pools}
    rows = []
    for pool in pools:
        total = _summed(program, pool)
        rate = totals.by_second(total.reads + total.writes)
        tail = [f" {_size(used[pool])} ", f" {BANDWIDTH_LABEL}", rate]
        rows.append([f"{csv_cell(pool)} ", *(tail if used[pool] else [f" {UNUSED}"])])
    return rows


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
