"""Boards by name: what they have and how a network gets onto them, from one table."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from msgspec import Struct

from npuscope.errors import UsageError
from npuscope.records import decode
from npuscope.text import safe_terminal

# Windows in which flash and PSRAM are mapped, 256 MiB each.
FLASH_START, PSRAM_START, _WINDOW = 0x70000000, 0x90000000, 0x10000000


class Board(Struct, frozen=True):
    loader: str
    chip: str
    cpu: str
    tools: tuple[str, ...]  # beside the vendor's own, those that may know its flash
    fsbl_address: int
    application_address: int
    image_address: int
    params_address: int
    dev_mode: str
    flash_boot: str
    flash: str  # set-ups of the machine's roads
    flash_kib: int  # behind the application
    psram: str  # empty: it has none
    psram_kib: int
    clock_mode: str  # empty: the machine's own clocks

    @property
    def settings(self) -> dict[str, object]:
        """Clocks and roads, as values of the machine."""
        names = {"clock_mode": self.clock_mode, "flash": self.flash, "psram": self.psram}
        return {key: value for key, value in names.items() if value}

    @property
    def pools(self) -> dict[str, object]:
        return {
            "pools.octoFlash.size_kib": self.flash_kib,
            "pools.hyperRAM.size_kib": self.psram_kib,
        }

    @property
    def flash_end(self) -> int:
        return self.image_address + self.flash_kib * 1024

    def external_end(self, address: int, added: bool = False) -> int | None:
        """Where the external memory at an address ends; None if the board has none there. `added`:
        somebody gave it PSRAM, of whatever size."""
        if FLASH_START <= address < FLASH_START + _WINDOW:
            return self.flash_end
        if PSRAM_START <= address < PSRAM_START + _WINDOW and (self.psram_kib or added):
            return PSRAM_START + (self.psram_kib * 1024 or _WINDOW)
        return None


@cache
def boards() -> dict[str, Board]:
    text = (files("npuscope.loadable") / "boards.toml").read_text(encoding="utf-8")
    return {name: decode(row, Board) for name, row in tomllib.loads(text).items()}


def board_named(name: str) -> Board:
    by_name = boards()
    if name not in by_name:
        hint = f"known: {', '.join(by_name)}"
        raise UsageError(f"unknown board '{safe_terminal(name)}'", where="--board", hint=hint)
    return by_name[name]
