"""The emulated board's own process: `python -m npuscope.board.emulated.child UART_FD`.

Orders come by stdin and are answered by stdout, serial bytes pass through the socket whose number
is the argument. The process ends with its owner: when stdin or the socket is closed.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable

from npuscope.board.emulated.computer import DEFAULT_BUDGET, Computer
from npuscope.board.emulated.control import Decoder, Fields, encode
from npuscope.board.emulated.elf import Firmware, read_firmware
from npuscope.board.emulated.faults import FaultError
from npuscope.board.emulated.memory import BoardMemory
from npuscope.errors import DeviceError, NpuscopeError
from npuscope.machine.load import DEFAULT_GENERATION, DEFAULT_MACHINE, load_machine
from npuscope.machine.model import Machine

_CHUNK = 1 << 16
_UART_CHUNK = 4096
_LOOK_S = 0.002  # a busy board looks for bytes and orders so often
_ALARM_S = 0.1
DEFAULT_WALL_S = 120.0
DEFAULT_MEMORY_BYTES = 2 << 30


class Child:
    """Orders, serial bytes and the emulator, in turn."""

    def __init__(self, orders: int, answers: int, uart: socket.socket) -> None:
        self._orders, self._answers, self._uart = orders, answers, uart
        self._uart.setblocking(False)
        self._decoder = Decoder()
        self._memory = BoardMemory()
        self._firmware: Firmware | None = None
        self._machine: Machine = load_machine()
        self._computer: Computer | None = None
        self._limits: Fields = {}
        self._rested_s = self._looked_s = time.monotonic()
        self._busy = False
        self._open = True

    def serve(self) -> None:
        while self._open:
            wait_s = self._run()
            if wait_s != 0.0 or time.monotonic() > self._looked_s + _LOOK_S:
                self._exchange(wait_s)
                self._looked_s = time.monotonic()

    # The emulator.

    def _run(self) -> float | None:
        """Go on; gives the seconds that may be waited, None for as long as it takes."""
        if self._computer is None:
            return None
        try:
            self._busy = True
            wait_s = self._computer.run().wait_s
            self._busy = False
            if self._computer.reset_requested:
                self._reset()
        except NpuscopeError as error:
            self._halt(error)
            return None
        finally:
            self._busy = False
        return wait_s

    def on_alarm(self, *_: object) -> None:
        """From time to time: firmware and NPU have only so long without a rest."""
        limit = float(self._limits.get("wall_s", DEFAULT_WALL_S))
        if self._busy and time.monotonic() - self._rested_s > limit:
            raise DeviceError(f"no rest for {limit:g} s")

    def _halt(self, error: NpuscopeError) -> None:
        """The board stands still until it is reset."""
        place: Fields = {"message": error.message, "where": error.where, "hint": error.hint}
        if isinstance(error, FaultError):
            place |= {"pc": error.pc, "lr": error.lr, "address": error.address}
        self._send({"fault": place})
        self._computer = None

    def _reset(self) -> None:
        """Memory stays as it is, but for the firmware itself."""
        if self._firmware is None:
            raise DeviceError("there is no firmware to start")
        self._computer = None
        # An emulator holds much address space until its circle of references is broken.
        gc.collect()
        for address, data in self._firmware.segments:
            self._memory.write(address, data)
        budget = int(self._limits.get("instructions", DEFAULT_BUDGET))
        vectors = self._firmware.vectors
        self._computer = Computer(self._memory, self._machine, vectors=vectors, budget=budget)
        self._rested_s = time.monotonic()

    # Bytes.

    def _exchange(self, wait_s: float | None) -> None:
        computer = self._computer
        ask_uart = computer is None or computer.uart.room
        send = computer is not None and bool(computer.uart.to_send)
        uart = self._uart.fileno()
        reads = [self._orders, *([uart] if ask_uart else [])]
        writes = [uart] if send else []
        ready, writable, _ = select.select(reads, writes, [], wait_s)
        if wait_s != 0.0:
            self._rested_s = time.monotonic()
        if writable:
            self._send_uart()
        if uart in ready:
            self._receive_uart()
        if self._orders in ready:
            self._receive_orders()
        if not ready and not writable and wait_s and self._computer is not None:
            self._computer.rested()

    def _send_uart(self) -> None:
        if self._computer is None:
            return
        waiting = self._computer.uart.to_send
        with contextlib.suppress(BlockingIOError):
            del waiting[: self._uart.send(waiting)]

    def _receive_uart(self) -> None:
        try:
            data = self._uart.recv(_UART_CHUNK)
        except BlockingIOError:
            return
        self._open &= bool(data)
        # Bytes for a board that stands still are lost, as on a real line.
        if self._computer is not None:
            self._computer.uart.receive(data)

    def _receive_orders(self) -> None:
        data = os.read(self._orders, _CHUNK)
        self._open &= bool(data)
        for fields, payload in self._decoder.feed(data):
            self._obey(fields, payload)

    # Orders.

    def _obey(self, fields: Fields, payload: bytes) -> None:
        actions: dict[str, Callable[[Fields, bytes], tuple[Fields, bytes]]] = {
            "start": self._start,
            "write": self._write,
            "read": self._read,
            "reset": self._do_reset,
            "state": self._state,
            "stop": self._stop,
        }
        number = fields.get("number")
        try:
            action = actions.get(str(fields.get("do")))
            if action is None:
                raise DeviceError("an unknown order")
            answer, data = action(fields, payload)
            self._send({"answer": number, **answer}, data)
        except NpuscopeError as error:
            parts = {"message": error.message, "where": error.where, "hint": error.hint}
            self._send({"answer": number, "refused": parts})
        except (KeyError, TypeError, ValueError) as error:
            self._send({"answer": number, "refused": {"message": f"a bad order: {error!r}"}})

    def _start(self, fields: Fields, payload: bytes) -> tuple[Fields, bytes]:
        """Take a firmware and a machine; `reset` then starts it."""
        wanted = fields.get("machine", {})
        self._machine = load_machine(
            wanted.get("name", DEFAULT_MACHINE),
            generation=wanted.get("generation", DEFAULT_GENERATION),
            overrides=wanted.get("overrides") or None,
        )
        self._limits = fields.get("limits", {})
        self._firmware = read_firmware(payload, str(fields.get("name", "firmware")))
        return {}, b""

    def _write(self, fields: Fields, payload: bytes) -> tuple[Fields, bytes]:
        self._memory.write(int(fields["address"]), payload)
        if self._computer is not None:
            self._computer.forget_code()
        return {}, b""

    def _read(self, fields: Fields, payload: bytes) -> tuple[Fields, bytes]:
        return {}, self._memory.read(int(fields["address"]), int(fields["size"]))

    def _do_reset(self, fields: Fields, payload: bytes) -> tuple[Fields, bytes]:
        # What was sent to the board before is not for the program that starts now.
        with contextlib.suppress(BlockingIOError):
            while self._uart.recv(_CHUNK):
                pass
        self._reset()
        return {}, b""

    def _state(self, fields: Fields, payload: bytes) -> tuple[Fields, bytes]:
        computer = self._computer
        if computer is None:
            return {"runs": False}, b""
        computer.catch_up()
        return {
            "runs": True,
            "asleep": computer.asleep,
            "instructions": computer.instructions,
            "mcu_cycles": computer.clock.cycles,
            "npu_cycles": computer.clock.npu_cycles,
            "npu_busy_cycles": computer.npu.time.busy_cycles,
        }, b""

    def _stop(self, fields: Fields, payload: bytes) -> tuple[Fields, bytes]:
        self._open = False
        return {}, b""

    def _send(self, fields: Fields, payload: bytes = b"") -> None:
        data = encode(fields, payload)
        while data:
            data = data[os.write(self._answers, data) :]


def _limit_memory(size_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # not on every system
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = size_bytes if hard == resource.RLIM_INFINITY else min(size_bytes, hard)
    if soft == resource.RLIM_INFINITY or soft > wanted:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def main(arguments: list[str]) -> int:
    _limit_memory(int(arguments[1]) if len(arguments) > 1 else DEFAULT_MEMORY_BYTES)
    answers = os.dup(1)
    os.dup2(2, 1)  # nothing that a library prints may come between the answers
    uart = socket.socket(fileno=int(arguments[0]))
    child = Child(0, answers, uart)
    signal.signal(signal.SIGALRM, child.on_alarm)
    signal.setitimer(signal.ITIMER_REAL, _ALARM_S, _ALARM_S)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        child.serve()
    signal.setitimer(signal.ITIMER_REAL, 0.0)  # the interpreter's end has no handler for it
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
