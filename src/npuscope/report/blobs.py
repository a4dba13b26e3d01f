"""Epoch-controller blobs, taken apart and put together: as text and as JSON."""

from __future__ import annotations

from typing import Any

from npuscope.program.ec_blob.assembly import binary_json
from npuscope.program.ec_blob.binary import EcBinary
from npuscope.shown import ShownRecord, counted
from npuscope.text import safe_terminal


class Disassembly(ShownRecord, frozen=True):
    """Blobs by name, and their text."""

    blobs: dict[str, EcBinary]
    text: str

    @property
    def words(self) -> int:
        return sum(i.words for blob in self.blobs.values() for i in blob.instructions)

    def told(self) -> str:
        return f"{counted(len(self.blobs), 'blob')}, {counted(self.words, 'word')}"


def disassembly_text(disassembly: Disassembly, *, output: str | None = None) -> str:
    return (
        disassembly.text if output is None else f"{disassembly.told()} in {safe_terminal(output)}"
    )


def disassembly_json(disassembly: Disassembly) -> dict[str, Any]:
    return {
        "schema": "npuscope/disasm/1",
        "blobs": [{"name": name, **binary_json(blob)} for name, blob in disassembly.blobs.items()],
    }


class Assembled(ShownRecord, frozen=True):
    """A blob, and its bytes."""

    blob: EcBinary
    data: bytes

    @property
    def instructions(self) -> int:
        return len(self.blob.instructions)

    def told(self) -> str:
        return f"{counted(self.instructions, 'instruction')}, {len(self.data)} bytes"


def assembled_text(blob: Assembled, *, output: str) -> str:
    return f"{blob.told()} in {safe_terminal(output)}"


def assembled_json(blob: Assembled, *, output: str) -> dict[str, Any]:
    return {
        "schema": "npuscope/asm/1",
        "file": output,
        "size_bytes": len(blob.data),
        "instructions": blob.instructions,
    }
