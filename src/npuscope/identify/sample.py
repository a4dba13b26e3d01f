"""A file under inspection: its bytes, its text or its JSON, each read once and only if asked."""

from __future__ import annotations

import codecs
import hashlib
import math
from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from npuscope.bounded_file import REPORT, opened, read_head
from npuscope.errors import FileError
from npuscope.machine.foreign_json import LenientJson, read_json
from npuscope.program.generate_report.lines import ReportLine, read_text, split_lines

_HEAD_BYTES = 1 << 16
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
# Control characters that text files do not hold; tab, newline, return and escape they may.
_CONTROL = bytes(set(range(32)) - {9, 10, 12, 13, 27})

_ASCII = bytes(range(128))


def _is_utf8(head: bytes) -> bool:
    """The head may end inside a character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


class FileFacts(Struct, frozen=True):
    """What an inspector tells: the version, counts by name, all numbers, what it left out."""

    version: str
    summary: dict[str, Any]
    values: Any = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


class Sample:
    """One regular file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            if not self.path.is_file():
                what = "is not a regular file" if self.path.exists() else "no such file"
                raise FileError(what, where=str(path))
            self.size = self.path.stat().st_size
            self.head = read_head(self.path, _HEAD_BYTES)
        except OSError as error:
            raise FileError(f"cannot be read: {error.strerror}", where=str(path)) from None
        except ValueError:  # a null character in the path
            raise FileError("is not a path") from None

    @cached_property
    def is_text(self) -> bool:
        if self.head.startswith(_UTF16):
            return True
        if not self.head or self.head.translate(None, _CONTROL) != self.head:
            return False
        # Weights may have no control characters either; of text in any encoding some is ASCII.
        wide = len(self.head.translate(None, _ASCII))
        return wide * 2 <= len(self.head) or _is_utf8(self.head)

    @cached_property
    def text(self) -> str:
        """The whole text; empty for what is none, so that detectors need not ask."""
        if not self.is_text or self.size > REPORT.most_bytes:
            return ""
        return read_text(self.path)

    @cached_property
    def lines(self) -> tuple[ReportLine, ...]:
        return split_lines(self.text, str(self.path))

    @property
    def looks_like_json(self) -> bool:
        start = self.head.removeprefix(b"\xef\xbb\xbf").lstrip()
        return self.is_text and start.startswith((b"{", b"//"))

    @cached_property
    def json(self) -> LenientJson:
        return read_json(self.path)

    @cached_property
    def document(self) -> dict[str, Any]:
        """The object in a JSON file; empty for everything else."""
        if not self.looks_like_json:
            return {}
        try:
            value = self.json.value
        except FileError:
            if self.text.lstrip().startswith("{"):
                raise
            return {}  # a C source may begin with // too
        return value if isinstance(value, dict) else {}

    def digest(self, name: str = "md5") -> str:
        """A fingerprint for telling files apart; nothing depends on it for safety."""
        with opened(self.path) as file:
            content = hashlib.file_digest(file, lambda: hashlib.new(name, usedforsecurity=False))
        return content.hexdigest()


def plain(value: Any) -> Any:
    """Records, enums and tuples as JSON can hold them; no number is left out."""
    if isinstance(value, Struct):
        return {name: plain(entry) for name, entry in asdict(value).items()}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
