"""Events of a trace JSON, one at a time: a file of any size is read in bounded memory.

The file is an array of events, or an object with such an array under `traceEvents`; tools that
were stopped leave the array open.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from npuscope.bounded_file import opened
from npuscope.errors import FileError
from npuscope.text import safe_terminal

Event = dict[str, Any]

CHUNK = 1 << 20
# No event of a profile is near this; without a limit a broken one would be read to the end.
LONGEST_VALUE = 8 << 20
_NUMERIC = (int, float, str)
_LATEST_US = 4e15
_SPACE = " \t\r\n\ufeff"


class EventReader:
    """Iterate over it; `open_ended` tells afterwards whether the array was closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.open_ended = False
        self.count = 0
        self._text = ""
        self._at = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._json = json.JSONDecoder(parse_constant=_no_constant)

    def __iter__(self) -> Iterator[Event]:
        with opened(self.path) as file:
            self._file: IO[bytes] = file
            yield from self._events()

    def _events(self) -> Iterator[Event]:
        self._enter()
        while True:
            char = self._peek()
            if char in ("", "]"):
                self.open_ended = char == ""
                return
            if char == "," and self.count:
                self._at += 1
                if self._peek() in ("", "]"):  # a writer that was stopped
                    continue
            event = self._value(last_may_break=True)
            if event is None:
                return
            if not isinstance(event, dict):
                raise self._broken("expected an event, {...}")
            self.count += 1
            yield event

    def _enter(self) -> None:
        """Up to the first event."""
        char = self._peek()
        if char == "[":
            self._at += 1
            return
        if char != "{":
            raise self._broken("expected an array of events, or an object with traceEvents")
        self._at += 1
        while self._peek() == '"':
            key = self._value()
            self._expect(":")
            if key == "traceEvents" and self._peek() == "[":
                self._at += 1
                return
            self._value()
            if self._peek() == ",":
                self._at += 1
        raise self._broken("there is no array under traceEvents")

    def _expect(self, char: str) -> None:
        if self._peek() != char:
            raise self._broken(f"expected '{char}'")
        self._at += 1

    def _peek(self) -> str:
        """The next character that is no space; nothing at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(CHUNK):
                return ""

    def _more(self, size: int) -> bool:
        data = self._file.read(size)
        self._text = self._text[self._at :] + self._decoder.decode(data, final=not data)
        self._at = 0
        return bool(data)

    def _value(self, *, last_may_break: bool = False) -> Any:
        """The next value. Where it does not end in the text at hand, more is read."""
        step = CHUNK
        self._peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise self._broken("nested too deeply") from error
            except ValueError as error:
                too_long = len(self._text) - self._at > LONGEST_VALUE
                if too_long or not _goes_on(error, self._text):
                    raise self._broken(f"no event: {_reason(error)}") from error
                if self._more(step):
                    step *= 2
                    continue
                if last_may_break and self.count:
                    self.open_ended = True
                    return None
                raise self._broken(f"no event: {_reason(error)}") from error
            # A number at the end of the text may go on in the next part.
            if end == len(self._text) and not isinstance(value, dict | list) and self._more(step):
                continue
            self._at = end
            return value

    def _broken(self, what: str) -> FileError:
        return FileError(
            what,
            where=self._place(f" traceEvents[{self.count}]" if self.count else ""),
            hint="expected a Chrome trace or an onnxruntime profile",
        )

    def _place(self, path: str) -> str:
        return f"{safe_terminal(str(self.path))}{':' if path else ''}{path}"


def _goes_on(error: ValueError, text: str) -> bool:
    """The value only ends too early: the fault lies at the end of the text."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated") or error.pos > len(text.rstrip()) - 16


def _reason(error: ValueError) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error)[:80]


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def number(value: Any) -> float | None:
    """A finite number, also one written as text; None for anything else."""
    if type(value) not in _NUMERIC:
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if abs(found) < 1e18 else None


def time_us(value: Any) -> float | None:
    """Microseconds whose sums still fit 64 bits of nanoseconds; None for anything else."""
    found = number(value)
    return found if found is not None and abs(found) < _LATEST_US else None


def text(value: Any, limit: int = 1000) -> str:
    return value[:limit] if isinstance(value, str) else ""


def arguments(event: Event) -> Event:
    args = event.get("args")
    return args if isinstance(args, dict) else {}
