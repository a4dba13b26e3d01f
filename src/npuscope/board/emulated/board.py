"""The emulated board from outside: its memory, its serial line, and the Device."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType

from npuscope.board.client_exchange import Timeouts
from npuscope.board.device import DeviceInfo, Inference, Request
from npuscope.board.emulated.computer import DEFAULT_BUDGET
from npuscope.board.emulated.control import Fields
from npuscope.board.emulated.process import NAME, ChildProcess
from npuscope.board.link import SocketLink
from npuscope.board.remote import RemoteBoard
from npuscope.errors import DeviceError
from npuscope.machine.load import DEFAULT_GENERATION, DEFAULT_MACHINE

_LOOK_S = 0.1
_CHUNK = 1 << 16
_ENVELOPE = ("answer", "bytes")
# An emulator on a busy computer answers later than a board would.
TIMEOUTS = Timeouts(
    sync_s=5.0, sys_info_s=10.0, network_info_s=30.0, run_s=60.0, memory_s=60.0, packet_s=30.0
)


@dataclass(frozen=True, slots=True)
class EmulatedSetup:
    """What the board is made of: the firmware's ELF file, and the machine around it.

    `overrides` replaces values of the machine, by their path. Limits: instructions and seconds
    without a rest, and bytes of address space.
    """

    firmware: bytes = field(repr=False)
    machine: str = DEFAULT_MACHINE
    generation: str = DEFAULT_GENERATION
    overrides: Mapping[str, object] = field(default_factory=dict)
    most_instructions: int = DEFAULT_BUDGET
    most_wall_s: float = 120.0
    most_memory_bytes: int = 2 << 30

    @property
    def order(self) -> Fields:
        machine = {"name": self.machine, "generation": self.generation}
        limits = {"instructions": self.most_instructions, "wall_s": self.most_wall_s}
        return {"machine": {**machine, "overrides": dict(self.overrides)}, "limits": limits}


class EmulatedMachine:
    """One emulated board in a process of its own; close it, or use it in a `with` statement."""

    def __init__(self, setup: EmulatedSetup) -> None:
        self._child = ChildProcess(setup.most_memory_bytes)
        try:
            self._child.ask({"do": "start", **setup.order}, setup.firmware)
        except BaseException:
            self._child.close()
            raise

    @property
    def pid(self) -> int:
        return self._child.pid

    def start(self) -> None:
        """Power on: what has to lie in memory was written before."""
        self.reset()

    def reset(self) -> None:
        """The firmware starts anew; memory stays. Also the way out of a fault."""
        self._child.fault = None
        self._drain()
        self._child.ask({"do": "reset"})

    def flash(self, address: int, data: bytes) -> None:
        """Bytes into flash or RAM."""
        self._child.ask({"do": "write", "address": address}, data)

    def read(self, address: int, size_bytes: int) -> bytes:
        return self._child.ask({"do": "read", "address": address, "size": size_bytes})[1]

    def state(self) -> Fields:
        """runs, asleep, instructions, mcu_cycles, npu_cycles, npu_busy_cycles."""
        answer, _ = self._child.ask({"do": "state"})
        return {key: value for key, value in answer.items() if key not in _ENVELOPE}

    def fault(self) -> DeviceError | None:
        """Why the board stands still, if it does."""
        return self._child.fault

    def link(self) -> EmulatedLink:
        """The serial line. A board that stands still is reset first."""
        if self.fault() is not None:
            self.reset()
        return EmulatedLink(self, self._child)

    def close(self) -> None:
        self._child.close()

    def __enter__(self) -> EmulatedMachine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _drain(self) -> None:
        """Drop what the board said before its reset."""
        uart = self._child.uart
        uart.setblocking(False)
        with contextlib.suppress(OSError):
            while uart.recv(_CHUNK):
                pass
        uart.setblocking(True)


class EmulatedLink(SocketLink):
    """Bytes to and from the firmware. A fault of the board ends a read that finds nothing."""

    def __init__(self, machine: EmulatedMachine, child: ChildProcess) -> None:
        super().__init__(child.uart, NAME)
        self._machine = machine

    def read(self, n: int, timeout_s: float) -> bytes:
        end = self.now() + timeout_s
        while True:
            left_s = end - self.now()
            data = super().read(n, min(max(left_s, 0.0), _LOOK_S))
            if data:
                return data
            fault = self._machine.fault()
            if fault is not None:
                raise fault
            if left_s <= _LOOK_S:
                return b""

    def close(self) -> None:
        """The line belongs to the board: it can be opened again."""


class EmulatedBoard:
    """A Device: the firmware behind its serial line, asked as a real board is."""

    source = "emulated board"

    def __init__(self, machine: EmulatedMachine, timeouts: Timeouts | None = None) -> None:
        self.machine = machine
        self._remote = RemoteBoard(self._line, timeouts or TIMEOUTS)

    @classmethod
    def boot(
        cls,
        setup: EmulatedSetup,
        files: Mapping[int, bytes] | None = None,
        timeouts: Timeouts | None = None,
    ) -> EmulatedBoard:
        """A board with its firmware running; `files` lie at their addresses before it starts."""
        machine = EmulatedMachine(setup)
        try:
            for address, data in (files or {}).items():
                machine.flash(address, data)
            machine.start()
        except BaseException:
            machine.close()
            raise
        return cls(machine, timeouts)

    def info(self) -> DeviceInfo:
        self._wake()
        return self._remote.info()

    def run(self, request: Request) -> Inference:
        self._wake()
        return self._remote.run(request)

    def _wake(self) -> None:
        """A board that stands still since the last request starts anew."""
        if self.machine.fault() is not None:
            self.machine.reset()

    def _line(self) -> EmulatedLink:
        """A fault ends the request: doing the same again would end in the same way."""
        fault = self.machine.fault()
        if fault is not None:
            raise fault
        return self.machine.link()

    def close(self) -> None:
        """Ends the board's process too."""
        self._remote.close()
        self.machine.close()
