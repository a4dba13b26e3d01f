"""The emulated board's own process: `python -m npuscope.boards.emulated.child MOST_BYTES`.

Orders come by stdin and are answered by stdout. The board stands still between orders: its time
is what the orders let pass, whatever time the host takes. The process ends with its owner, in the
middle of an order too: when stdin is closed.
"""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable

from npuscope.boards.emulated.computer import DEFAULT_BUDGET, Computer
from npuscope.boards.emulated.cpu import FaultError
from npuscope.boards.emulated.memory import BoardMemory, memories_of
from npuscope.boards.emulated.process import Decoder, Fields, encode
from npuscope.errors import DeviceError, NpuscopeError
from npuscope.machine.load import DEFAULT_GENERATION, DEFAULT_MACHINE, load_machine
from npuscope.machine.model import Machine
from npuscope.machine.mpool import with_non_secure_pools

_CHUNK = 1 << 16
DEFAULT_WALL_S = 3600.0
DEFAULT_MEMORY_BYTES = 2 << 30
Orders = queue.SimpleQueue[tuple[Fields, bytes]]


class Child:
    """The emulator, and the orders that it obeys one after the other."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._memory = BoardMemory()
        self._segments: list[tuple[int, bytes]] = []  # of the firmware, by address
        self._machine: Machine = load_machine()
        self._computer: Computer | None = None
        self._limits: Fields = {}
        self._said = bytearray()
        self._before_s = 0.0  # the board's time up to its last reset

    def serve(self, orders: Orders) -> None:
        while True:
            self._obey(*orders.get())

    # The emulator.

    def _running(self) -> Computer:
        if self._computer is None:
            raise DeviceError("the board is not switched on")
        return self._computer

    @property
    def _now_s(self) -> float:
        return self._before_s + (self._computer.clock.seconds if self._computer else 0.0)

    def _go_on(self, seconds: float, to_wait: bool) -> bool:
        """Let time pass; ends before when the host has something to do. Whether it is waited for.

        Bytes count once the board waits or has no room for more: it would be asked too often.
        """
        computer, stop_s = self._running(), time.monotonic() + self._wall_s
        end = computer.clock.after(seconds)
        while computer.clock.cycles < end:
            waits = computer.run(end)
            if computer.reset_requested:
                end -= computer.clock.cycles
                computer = self._reset()
            elif computer.uart.is_full or (waits and (to_wait or computer.uart.to_send)):
                return True
            elif waits:
                computer.rest(end)
            if time.monotonic() > stop_s:
                raise self._too_slow(computer)
        return False

    @property
    def _wall_s(self) -> float:
        return float(self._limits.get("wall_s", DEFAULT_WALL_S))

    def _too_slow(self, computer: Computer) -> DeviceError:
        return DeviceError(
            f"timed out: simulated {self._now_s:.6f} s and {computer.instructions:,} instructions "
            f"in {self._wall_s:g} s; the board was {computer.doing}",
            hint="try again with less load on the host; emulated counts do not depend on it",
        )

    def _switch_off(self) -> None:
        if self._computer is not None:
            self._before_s += self._computer.clock.seconds
            self._said += self._computer.uart.take()
        self._computer = None
        # An emulator holds much address space until its circle of references is broken.
        gc.collect()

    def _reset(self) -> Computer:
        """Memory stays as it is, but for the firmware itself."""
        if not self._segments:
            raise DeviceError("no firmware to start")
        self._switch_off()
        for address, data in self._segments:
            self._memory.write(address, data)
        budget = int(self._limits.get("instructions", DEFAULT_BUDGET))
        vectors = min(address for address, _ in self._segments)  # the firmware begins with them
        self._computer = Computer(self._memory, self._machine, vectors=vectors, budget=budget)
        return self._computer

    # Orders.

    def _obey(self, fields: Fields, payload: bytes) -> None:
        actions: dict[str, Callable[[Fields, bytes], tuple[Fields, bytes]]] = {
            "start": self._start,
            "write": self._write,
            "read": self._read,
            "reset": self._do_reset,
            "go on": self._do_go_on,
            "deliver": self._deliver,
            "state": self._state,
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
        settings = fields.get("machine", {})
        self._machine = load_machine(
            settings.get("name", DEFAULT_MACHINE),
            generation=settings.get("generation", DEFAULT_GENERATION),
            overrides=settings.get("overrides") or None,
        )
        secure = bool(settings.get("secure", True))
        if not secure:
            self._machine = with_non_secure_pools(self._machine)
        if secure != self._memory.secure:
            self._memory = BoardMemory(memories_of(secure))
        self._limits = fields.get("limits", {})
        self._segments = []
        for address, size in fields["segments"]:
            self._segments.append((int(address), payload[:size]))
            payload = payload[size:]
        return {}, b""

    def _write(self, fields: Fields, payload: bytes) -> tuple[Fields, bytes]:
        self._memory.write(int(fields["address"]), payload)
        if self._computer is not None:
            self._computer.forget_code()
        return {}, b""

    def _read(self, fields: Fields, payload: bytes) -> tuple[Fields, bytes]:
        return {}, self._memory.read(int(fields["address"]), int(fields["size"]))

    def _do_reset(self, fields: Fields, payload: bytes) -> tuple[Fields, bytes]:
        self._reset()
        self._said.clear()
        return {}, b""

    def _do_go_on(self, fields: Fields, payload: bytes) -> tuple[Fields, bytes]:
        """The payload is what the host says now, the answer's is what the board said."""
        if payload:
            self._running().receive(payload)
        answer: Fields = {}
        try:
            answer["waits"] = self._go_on(float(fields["seconds"]), bool(fields.get("to_wait")))
        except NpuscopeError as error:
            # The board stands still until it is reset.
            place: Fields = {"message": error.message, "where": error.where, "hint": error.hint}
            if isinstance(error, FaultError):
                place |= {"pc": error.pc, "lr": error.lr, "address": error.address}
            self._switch_off()
            answer["fault"] = place
        if self._computer is not None:
            self._said += self._computer.uart.take()
        said = bytes(self._said)
        self._said.clear()
        return {**answer, "now_s": self._now_s}, said

    def _deliver(self, fields: Fields, payload: bytes) -> tuple[Fields, bytes]:
        """The payload in packets, each as if the host had said it when the one before was answered
        with nothing but the byte that asks for it."""
        size, ask = int(fields["size"]), bytes.fromhex(fields["ask"])
        packets = [payload[at : at + size] for at in range(0, len(payload), size)]
        answer, said, count = Fields(), ask, 0
        while count < len(packets) and said == ask and "fault" not in answer:
            answer, said = self._do_go_on(fields, packets[count])
            count += 1
        return {**answer, "packets": count}, said

    def _state(self, fields: Fields, payload: bytes) -> tuple[Fields, bytes]:
        computer = self._computer
        if computer is None:
            return {"runs": False}, b""
        computer.catch_up()
        return {
            "runs": True,
            "doing": computer.doing,
            "asleep": computer.asleep,
            "instructions": computer.instructions,
            "mcu_cycles": computer.clock.cycles,
            "npu_cycles": computer.clock.npu_cycles,
            "npu_busy_cycles": computer.npu.time.busy_cycles,
        }, b""

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
    limit = size_bytes if hard == resource.RLIM_INFINITY else min(size_bytes, hard)
    if soft == resource.RLIM_INFINITY or soft > limit:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _listen(source: int, orders: Orders) -> None:
    """Runs beside, so that the end of the owner ends the board whatever it is doing."""
    decoder = Decoder()
    with contextlib.suppress(NpuscopeError):
        while data := os.read(source, _CHUNK):
            for order in decoder.feed(data):
                orders.put(order)
    os._exit(0)


def main(arguments: list[str]) -> int:
    # Ctrl-C is for the owner: this process ends with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit_memory(int(arguments[0]) if arguments else DEFAULT_MEMORY_BYTES)
    answers = os.dup(1)
    os.dup2(2, 1)  # nothing that a library prints may come between the answers
    orders: Orders = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(0, orders), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        Child(answers).serve(orders)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
