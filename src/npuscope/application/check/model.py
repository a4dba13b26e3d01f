"""Nouns of a check: ranges of memory with their owner, findings, the whole result."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from npuscope.loadable.boards import FLASH_START as FLASH_START
from npuscope.loadable.boards import PSRAM_START as PSRAM_START
from npuscope.loadable.boards import board_named
from npuscope.machine.model import secure_alias
from npuscope.shown import Rows, ShownRecord, counted

LINE = 32  # bytes of the CPU's data cache
CHIP_START, CHIP_END = 0x34000000, 0x34420000  # with the RAM of the NPU's cache and of the encoder
TCM = ((0x10000000, 0x10040000), (0x30000000, 0x30040000))
AHB = (0x38000000, 0x38008000)
APPLICATION_SLOT = 0x70100000


class AppSeverity(Enum):
    ERROR = "error"  # wrong as it is
    LATENT = "latent"  # right today, wrong when something grows
    NOTE = "note"  # looks like a fault and is none


class AddressRange(Struct, frozen=True):
    """A range under its secure name."""

    owner: str
    what: str
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        return self.end - self.start

    def shared(self, other: AddressRange) -> int:
        """Bytes that both have."""
        return max(0, min(self.end, other.end) - max(self.start, other.start))

    def __str__(self) -> str:
        return f"{self.what} {self.start:#010x} to {self.end:#010x}"


class CheckedNetwork(Struct, frozen=True):
    """Pools that a network was compiled for, and what it uses of them."""

    name: str
    file: str
    pools: tuple[AddressRange, ...]
    used: tuple[AddressRange, ...]
    flash: tuple[AddressRange, ...]  # used bytes that have to be written before it runs
    inputs: tuple[AddressRange, ...]
    outputs: tuple[AddressRange, ...]


class AppFinding(Struct, frozen=True):
    rule: str
    severity: AppSeverity
    board: str
    message: str
    places: tuple[str, ...] = ()
    hint: str = ""


class CheckedTarget(Struct, frozen=True):
    """One board of an application; `buffers_bytes` are bytes of arrays by linker section."""

    board: str
    build_file: str
    networks: tuple[CheckedNetwork, ...]
    regions: tuple[AddressRange, ...]
    buffers_bytes: dict[str, int]


class FolderCheck(ShownRecord, frozen=True):
    TEXT = "npuscope.report.plan_check:check_text"
    JSON = "npuscope.report.plan_check:check_json"

    folder: str
    targets: tuple[CheckedTarget, ...]
    findings: tuple[AppFinding, ...]
    not_checked: tuple[str, ...]

    def of(self, severity: AppSeverity) -> tuple[AppFinding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is severity)

    @property
    def fits(self) -> bool:
        return not self.of(AppSeverity.ERROR)

    def told(self) -> str:
        errors = len(self.of(AppSeverity.ERROR))
        return (
            f"{self.folder}: {counted(errors, 'error')}, {len(self.of(AppSeverity.LATENT))} latent"
        )

    def table(self) -> Rows:
        """One row per finding."""
        return [
            {"rule": f.rule, "severity": f.severity.value, "board": f.board, "message": f.message,
                "places": list(f.places), "hint": f.hint}
            for f in self.findings
        ]  # fmt: skip


def secure_range(owner: str, what: str, start: int, size: int) -> AddressRange:
    folded = secure_alias(start)
    return AddressRange(owner, what, folded, folded + size)


def chip_end(start: int, board: str) -> int | None:
    """Where the memory that an address lies in ends; None where the board has none there."""
    inside = ((CHIP_START, CHIP_END), *TCM, AHB)
    end = next((high for low, high in inside if low <= start < high), None)
    return end or board_named(board).external_end(start)
