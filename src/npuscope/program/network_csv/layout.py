"""network.csv, the compiler's table of epochs: its columns and rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class PoolTraffic:
    pool: str
    read_bytes: Number
    write_bytes: Number
    total_bytes: Number
    read_cycles: Number
    write_cycles: Number
    cycles: Number


@dataclass(frozen=True, slots=True)
class PortTraffic:
    port: int
    read_bytes: Number
    write_bytes: Number


@dataclass(frozen=True, slots=True)
class EpochRow:
    number: int
    pools: tuple[PoolTraffic, ...]
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


@dataclass(frozen=True, slots=True)
class PoolUse:
    """Used bytes in the file's unit ("MB", "KB", "B") and bytes a second; None if unused."""

    pool: str
    used: Number | None = None
    unit: str = ""
    bandwidth: Number | None = None


@dataclass(frozen=True, slots=True)
class NetworkCsv:
    """The whole file: epochs, sums of the pool columns, the same by second, use, key figures."""

    epochs: tuple[EpochRow, ...]
    totals: tuple[PoolTraffic, ...]
    bandwidths: tuple[PoolTraffic, ...]
    uses: tuple[PoolUse, ...]
    summary: tuple[tuple[str, Number | None], ...]


def header(pools: Sequence[str], ports: Sequence[int]) -> list[str]:
    """The first line's cells."""
    pool_cells = [pool + column for pool in pools for column in POOL_COLUMNS]
    port_cells = [f"bus port {port}{column}" for port in ports for column in PORT_COLUMNS]
    return [FIRST_COLUMN, *pool_cells, *port_cells, *EPOCH_COLUMNS]
