"""What a generate or analyze report says, in its own terms."""

from __future__ import annotations

from msgspec import Struct

from npuscope.program.generate_report.lines import KeyValue
from npuscope.program.model import EpochKind

UNITS = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
# Reports of 2.1 have no term for an epoch that is partly software and mark it so.
_KINDS = {
    "SW": EpochKind.SW,
    "-SW-": EpochKind.SW,
    "HYBRID": EpochKind.HYBRID,
    "??": EpochKind.HYBRID,
}


class Amount(Struct, frozen=True):
    """Bytes as the report prints them: three decimals of kB or MB, or whole bytes."""

    value: float
    unit: str

    @property
    def bytes(self) -> int:
        """As near as the decimals tell."""
        return round(self.value * UNITS[self.unit])


class Use(Struct, frozen=True):
    amount: Amount
    percent: float | None = None


class PoolLine(Struct, frozen=True):
    name: str
    start: int
    end: int
    used: Use
    size: Amount
    weights: Use
    activations: Use


class TotalLine(Struct, frozen=True):
    used: Amount
    weights: Amount
    activations: Amount


class RangeLine(Struct, frozen=True):
    """Addresses in use in one pool; an end is the first byte after."""

    name: str
    start: int
    end: int
    ranges: tuple[tuple[int, int], ...]


class EpochLine(Struct, frozen=True):
    """An epoch, or the epochs first to last of one epoch-controller blob."""

    first: int
    last: int
    mark: str  # HW, EC, -SW-, SW, Hybrid, ??
    details: str = ""

    @property
    def kind(self) -> EpochKind:
        return _KINDS.get(self.mark.upper(), EpochKind.HW)


class Counts(Struct, frozen=True):
    """Epochs by kind. Reports of 2.x count hybrids neither as software nor apart."""

    total: int
    software: int
    hybrid: int | None = None
    hardware: int | None = None
    blobs: int | None = None


class LayerLine(Struct, frozen=True):
    """A layer of the model; m_id is shared by the layers that came from one operator."""

    m_id: int
    name: str
    original: str
    shape: str
    params: int | None = None
    size_bytes: int | None = None
    macc: int | None = None
    inputs: tuple[str, ...] = ()


class SectionLine(Struct, frozen=True):
    """Bytes of one module of the linked program."""

    module: str
    text: int
    rodata: int
    data: int
    bss: int


class SummaryLine(Struct, frozen=True):
    name: str
    flash_bytes: int
    ram_bytes: int
    flash_percent: float | None = None
    ram_percent: float | None = None


class ToolLine(Struct, frozen=True):
    name: str
    version: str
    build: str = ""


class GenerateReport(Struct, frozen=True):
    """All of a report. `entries` are its `key : value` lines, `titles` the quoted headings."""

    tools: tuple[ToolLine, ...]
    model_name: str
    layers: tuple[LayerLine, ...]
    model_totals: tuple[tuple[str, int | None], ...]
    pools: tuple[PoolLine, ...]
    total: TotalLine | None
    used_ranges: tuple[RangeLine, ...]
    counts: Counts | None
    epochs: tuple[EpochLine, ...]
    sections: tuple[SectionLine, ...]
    summary: tuple[SummaryLine, ...]
    titles: tuple[str, ...]
    entries: tuple[KeyValue, ...]
    ignored: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        return self.tools[0].version if self.tools else ""

    @property
    def created(self) -> str:
        return self.entry("Created date")

    @property
    def parameters(self) -> str:
        return self.entry("Parameters")

    @property
    def compiler_version(self) -> str:
        return self.entry("Compiler version")

    @property
    def compiler_arguments(self) -> str:
        return self.entry("Compiler arguments")

    @property
    def model_hash(self) -> str:
        """MD5 of the model file, 0x before it; only in console output."""
        return self.entry("model_hash")

    def entry(self, key: str) -> str:
        """The value of the first line with this key, or nothing."""
        return next((entry.value for entry in self.entries if entry.key == key), "")

    def count(self, kind: EpochKind) -> int:
        """Rows of the epoch table of one kind; a range counts as many as it spans."""
        return sum(row.last - row.first + 1 for row in self.epochs if row.kind is kind)
