"""The emulated board's process as its owner sees it: orders, answers, the end."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import npuscope.child as child
from npuscope.boards.emulated.cpu import FaultError
from npuscope.errors import DeviceError
from npuscope.text import safe_terminal

# Messages between the emulated board's process and its owner: a line of JSON, then raw bytes.

Fields = dict[str, Any]
_SIZE = "bytes"
_MOST_LINE = 1 << 20
_MOST_PAYLOAD = 1 << 28


def encode(fields: Fields, payload: bytes = b"") -> bytes:
    line = json.dumps({**fields, _SIZE: len(payload)}, separators=(",", ":"))
    return line.encode() + b"\n" + payload


class Decoder:
    """Collects bytes and gives whole messages."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._head: Fields | None = None

    def feed(self, data: bytes) -> Iterator[tuple[Fields, bytes]]:
        self._data += data
        while (message := self._next()) is not None:
            yield message

    def _next(self) -> tuple[Fields, bytes] | None:
        if self._head is None and not self._read_head():
            return None
        head = self._head or {}
        size = head[_SIZE]
        if len(self._data) < size:
            return None
        payload = bytes(self._data[:size])
        del self._data[:size]
        self._head = None
        return head, payload

    def _read_head(self) -> bool:
        line, newline, rest = self._data.partition(b"\n")
        if not newline:
            if len(line) > _MOST_LINE:
                raise DeviceError("a control message has no end")
            return False
        self._data = rest
        try:
            fields = json.loads(bytes(line))
        except ValueError as error:
            raise DeviceError(f"a control message is not JSON: {error}") from error
        size = fields.get(_SIZE) if isinstance(fields, dict) else None
        if not isinstance(size, int) or not 0 <= size <= _MOST_PAYLOAD:
            raise DeviceError("a control message lacks its size")
        self._head = dict(fields)
        return True


NAME = "emulated"
_END_S = 5.0


class ChildProcess:
    """Owns the process. `answer_s` is how long any answer may take: a last stop."""

    def __init__(self, most_memory_bytes: int, answer_s: float) -> None:
        self._answer_s = answer_s
        self._decoder = Decoder()
        self._number = 0
        self._order_lock = threading.Lock()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        try:
            self._process = child.start_module(
                "npuscope.boards.emulated.child",
                str(most_memory_bytes),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
        except OSError as error:
            raise DeviceError(f"cannot be started: {error}", where=NAME) from error
        self._heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        if self._process.stdout is not None:
            self._listener = child.listen(self._process.stdout, self._heard.put)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, fields: Fields, payload: bytes = b"") -> tuple[Fields, bytes]:
        """One order; its answer, or the error that it was refused with."""
        with self._order_lock:
            self._number += 1
            self._send(encode({**fields, "number": self._number}, payload))
            answer, data = self._answer()
        if "refused" in answer:
            raise error_of(answer["refused"])
        return answer, data

    def close(self) -> None:
        """The process is gone afterwards, whatever state it was in."""
        process = self._process
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with self._order_lock:  # whoever still waits for an answer sees the end first
            self._listener.join(_END_S)
            if process.stdout is not None:
                process.stdout.close()
            self._errors.close()

    def _send(self, data: bytes) -> None:
        try:
            if self._process.stdin is None:
                raise ValueError("no way in")
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise self.gone() from error

    def _answer(self) -> tuple[Fields, bytes]:
        end = time.monotonic() + self._answer_s
        while True:
            try:
                data = self._heard.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise DeviceError(
                    f"its process did not answer within {self._answer_s:g} s",
                    where=NAME,
                    hint="the host is too slow, or the process was stopped",
                ) from None
            if not data:
                self._heard.put(b"")  # for the next who asks
                raise self.gone()
            for message in self._decoder.feed(data):
                # An order that was interrupted may have left its answer.
                if message[0].get("answer") == self._number:
                    return message

    def gone(self) -> DeviceError:
        """The process is not there any more; its last line may tell why."""
        code = self._process.poll()
        ending = "has ended" if code is None else f"has ended with {code}"
        try:
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").splitlines()
        except ValueError:  # closed
            lines = []
        hint = safe_terminal(lines[-1]) if lines else ""
        return DeviceError(f"the board's process {ending}", where=NAME, hint=hint)


def error_of(parts: Any) -> DeviceError:
    """An error that the child told of."""
    fields = parts if isinstance(parts, dict) else {}
    message, place, hint = (str(fields.get(key) or "") for key in ("message", "where", "hint"))
    if "pc" in fields:
        error: DeviceError = FaultError(message, fields["pc"], fields["lr"], fields["address"])
    else:
        error = DeviceError(message, hint=hint)
    error.where = f"{NAME}, {place}" if place else NAME
    return error
