"""Code of a device, taken apart and put together: as text and as JSON."""

from __future__ import annotations

from typing import Any

from npuscope.families.interface import Assembled, CodePart
from npuscope.shown import Rows, ShownRecord, counted
from npuscope.text import safe_terminal


class Disassembly(ShownRecord, frozen=True):
    """Parts of a file by name, and their text."""

    blobs: dict[str, CodePart]
    text: str

    @property
    def words(self) -> int:
        return sum(part.words for part in self.blobs.values())

    def told(self) -> str:
        return f"{counted(len(self.blobs), 'blob')}, {counted(self.words, 'word')}"

    def table(self) -> Rows:
        return [{"blob": name, "words": part.words} for name, part in self.blobs.items()]


def disassembly_text(disassembly: Disassembly, *, output: str | None = None) -> str:
    return (
        disassembly.text if output is None else f"{disassembly.told()} in {safe_terminal(output)}"
    )


def disassembly_json(disassembly: Disassembly) -> dict[str, Any]:
    return {
        "schema": "npuscope/disasm/1",
        "blobs": [{"name": name, **part.fields()} for name, part in disassembly.blobs.items()],
    }


def assembled_text(code: Assembled, *, output: str) -> str:
    instructions = counted(code.instructions, "instruction")
    return f"{instructions}, {len(code.data)} bytes in {safe_terminal(output)}"


def assembled_json(code: Assembled, *, output: str) -> dict[str, Any]:
    return {
        "schema": "npuscope/asm/1",
        "file": output,
        "size_bytes": len(code.data),
        "instructions": code.instructions,
    }
