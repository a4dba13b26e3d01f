"""The emulated board's process as its owner sees it: orders and answers, faults, the end."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import subprocess
import tempfile
import threading
import time
from typing import Any

from npuscope import child
from npuscope.board.emulated.control import Decoder, Fields, encode
from npuscope.board.emulated.faults import FaultError
from npuscope.errors import DeviceError
from npuscope.text import safe_terminal

NAME = "emulated"
_ANSWER_S = 60.0
_END_S = 5.0
_CHUNK = 1 << 16


class ChildProcess:
    """Owns the process and the near end of its serial line."""

    def __init__(self, most_memory_bytes: int) -> None:
        self.fault: DeviceError | None = None
        self._answers: queue.Queue[tuple[Fields, bytes] | None] = queue.Queue()
        self._number = 0
        self._order_lock = threading.Lock()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self.uart, far_end = socket.socketpair()
        try:
            self._process = self._spawn(far_end, most_memory_bytes)
        except OSError as error:
            self.uart.close()
            raise DeviceError(f"cannot be started: {error}", where=NAME) from error
        finally:
            far_end.close()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _spawn(self, uart: socket.socket, most_memory_bytes: int) -> subprocess.Popen[bytes]:
        return child.start_module(
            "npuscope.board.emulated.child",
            str(uart.fileno()),
            str(most_memory_bytes),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            pass_fds=(uart.fileno(),),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, fields: Fields, payload: bytes = b"") -> tuple[Fields, bytes]:
        """One order; its answer, or the error that it was refused with."""
        with self._order_lock:
            self._number += 1
            self._send(encode({**fields, "number": self._number}, payload))
            answer, data = self._await(self._number)
        if "refused" in answer:
            raise _error(answer["refused"])
        return answer, data

    def close(self) -> None:
        """The process is gone afterwards, whatever state it was in."""
        process = self._process
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        self.uart.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
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

    def _await(self, number: int) -> tuple[Fields, bytes]:
        end = time.monotonic() + _ANSWER_S
        while True:
            try:
                found = self._answers.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise DeviceError(f"gave no answer for {_ANSWER_S:g} s", where=NAME) from None
            if found is None:
                self._answers.put(None)  # for whoever asks next
                raise self.gone()
            if found[0].get("answer") == number:
                return found

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

    def _listen(self) -> None:
        """Runs beside: answers are put aside, faults are noted."""
        stdout, decoder = self._process.stdout, Decoder()
        while stdout is not None and (data := os.read(stdout.fileno(), _CHUNK)):
            for fields, payload in decoder.feed(data):
                if "fault" in fields:
                    self.fault = _error(fields["fault"])
                else:
                    self._answers.put((fields, payload))
        self._answers.put(None)


def _error(parts: Any) -> DeviceError:
    """An error that the child told of."""
    known = parts if isinstance(parts, dict) else {}
    message, place, hint = (str(known.get(key) or "") for key in ("message", "where", "hint"))
    if "pc" in known:
        error: DeviceError = FaultError(message, known["pc"], known["lr"], known["address"])
    else:
        error = DeviceError(message, hint=hint)
    error.where = f"{NAME}, {place}" if place else NAME
    return error
