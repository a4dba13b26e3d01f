"""The emulated board from outside: its memory, its serial line, and the Device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from npuscope.boards.client_exchange import Timeouts
from npuscope.boards.device import DeviceInfo, Inference, Request
from npuscope.boards.emulated.child import DEFAULT_MEMORY_BYTES, DEFAULT_WALL_S
from npuscope.boards.emulated.computer import DEFAULT_BUDGET
from npuscope.boards.emulated.firmware_file import read_firmware
from npuscope.boards.emulated.process import NAME, ChildProcess, Fields, error_of
from npuscope.boards.remote import RemoteBoard
from npuscope.boards.server_run import Stream
from npuscope.errors import DeviceError
from npuscope.machine.load import DEFAULT_GENERATION, DEFAULT_MACHINE

_CHUNK = 1 << 16
_PACKETS_AN_ORDER = 256  # an interruption waits for no more
_ENVELOPE = ("answer", "bytes")
# On top of what the board's process has for an order: starting it takes a while too.
_PATIENCE_S = 600.0
# In the board's own time, so with room for slow clocks and long kernels.
TIMEOUTS = Timeouts(
    sync_s=5.0, sys_info_s=10.0, network_info_s=30.0, run_s=60.0, memory_s=60.0, packet_s=30.0
)


@dataclass(frozen=True, slots=True)
class EmulatedSetup:
    """What the board is made of: the firmware's ELF file, and the machine around it.

    Without `secure` memories and peripherals have the addresses of the non-secure world only.
    `overrides` replaces values of the machine, by their path. Limits: instructions without a
    rest, and bytes of address space. The last stop is a time of the host for each order: no
    emulated count depends on it.
    """

    firmware: bytes = field(repr=False)
    machine: str = DEFAULT_MACHINE
    generation: str = DEFAULT_GENERATION
    overrides: Mapping[str, object] = field(default_factory=dict)
    secure: bool = True
    most_instructions: int = DEFAULT_BUDGET
    most_wall_s: float = DEFAULT_WALL_S
    most_memory_bytes: int = DEFAULT_MEMORY_BYTES

    @property
    def order(self) -> Fields:
        machine = {"name": self.machine, "generation": self.generation}
        limits = {"instructions": self.most_instructions, "wall_s": self.most_wall_s}
        settings = {**machine, "overrides": dict(self.overrides), "secure": self.secure}
        return {"machine": settings, "limits": limits}


class EmulatedMachine:
    """One emulated board in a process of its own; close it, or use it in a `with` statement.

    It runs only while it is told to go on, on its own clock: what the host does in between takes
    no time, and the same orders give the same counts on every host.
    """

    def __init__(self, setup: EmulatedSetup) -> None:
        self.now_s = 0.0  # by the board's clock
        self._fault: DeviceError | None = None
        self._heard, self._to_say = bytearray(), bytearray()
        parts = read_firmware(setup.firmware).segments
        places = [(address, len(data)) for address, data in parts]
        self._child = ChildProcess(setup.most_memory_bytes, setup.most_wall_s + _PATIENCE_S)
        try:
            order = {"do": "start", "segments": places, **setup.order}
            self._child.ask(order, b"".join(data for _, data in parts))
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
        self._fault = None
        self._heard.clear()
        self._to_say.clear()
        self._child.ask({"do": "reset"})

    def flash(self, address: int, data: bytes) -> None:
        """Bytes into flash or RAM."""
        self._child.ask({"do": "write", "address": address}, data)

    def read(self, address: int, size_bytes: int) -> bytes:
        return self._child.ask({"do": "read", "address": address, "size": size_bytes})[1]

    def state(self) -> Fields:
        """runs, doing, asleep, instructions, mcu_cycles, npu_cycles, npu_busy_cycles."""
        answer, _ = self._child.ask({"do": "state"})
        return {key: value for key, value in answer.items() if key not in _ENVELOPE}

    def fault(self) -> DeviceError | None:
        """Why the board stands still, if it does."""
        return self._fault

    # The serial line.

    def say(self, data: bytes) -> None:
        """Bytes that the board finds when it goes on."""
        self._to_say += data

    def heard(self, n: int) -> bytes:
        """Up to n bytes of what the board has said."""
        data = bytes(self._heard[:n])
        del self._heard[:n]
        return data

    def go_on(self, seconds: float, *, to_wait: bool = False) -> bool:
        """Let the board's time pass, up to the moment at which it has said something and waits.

        With `to_wait` it stops wherever it waits for the host. Gives whether it waits. A fault
        is kept; the board stands still from then on.
        """
        if self._fault is not None:
            return False
        said, self._to_say = bytes(self._to_say), bytearray()
        order = {"do": "go on", "seconds": max(0.0, seconds), "to_wait": to_wait}
        return bool(self._goes_on(order, said).get("waits"))

    def deliver(self, packets: Sequence[bytes], ask: bytes, seconds: float) -> int:
        """Say packets of one size, and go on after each, while the board answers with `ask`; how
        many were said. As `say` and `go_on` would, but the two processes need not take turns."""
        if not packets or self._fault is not None or self._heard or self._to_say:
            return 0
        order = {"do": "deliver", "size": len(packets[0]), "ask": ask.hex(), "seconds": seconds}
        count = 0
        while True:
            some = packets[count : count + _PACKETS_AN_ORDER]
            count += int(self._goes_on(order, b"".join(some))["packets"])
            if count == len(packets) or self._heard != ask:
                return count
            self._heard.clear()

    def _goes_on(self, order: Fields, said: bytes) -> Fields:
        answer, data = self._child.ask(order, said)
        self._heard += data
        self.now_s = answer["now_s"]
        if "fault" in answer:
            self._fault = error_of(answer["fault"])
        return answer

    def link(self) -> EmulatedLink:
        """The serial line. A board that stands still is reset first."""
        if self._fault is not None:
            self.reset()
        return EmulatedLink(self)

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


class EmulatedLink:
    """Bytes to and from the firmware. Time-outs are times of the board, which runs while it is
    read from; a fault ends a read that finds nothing."""

    name = NAME

    def __init__(self, machine: EmulatedMachine) -> None:
        self._machine = machine

    @property
    def hint(self) -> str:
        """What the board does instead of answering."""
        state = self._machine.state()
        doing = state.get("doing", "stopped")
        return f"after {self._machine.now_s:.6f} s of simulated time the emulated board is {doing}"

    def now(self) -> float:
        return self._machine.now_s

    def read(self, n: int, timeout_s: float) -> bytes:
        data = self._machine.heard(n)
        if data:
            return data
        self._machine.go_on(timeout_s)
        data = self._machine.heard(n)
        fault = self._machine.fault()
        if fault is not None and not data:
            raise fault
        return data

    def write(self, data: bytes) -> None:
        self._machine.say(data)

    def deliver(self, packets: Sequence[bytes], ask: bytes, timeout_s: float) -> int:
        return self._machine.deliver(packets, ask, timeout_s)

    def flush(self) -> None:
        while self._machine.heard(_CHUNK):
            pass

    def close(self) -> None:
        """The line belongs to the board: it can be opened again."""


class EmulatedBoard:
    """A Device: the firmware behind its serial line, asked as a real board is."""

    source = "emulated board"

    def __init__(self, machine: EmulatedMachine, timeouts: Timeouts | None = None) -> None:
        self.machine = machine
        # A second attempt finds back into step where another host left a conversation open, and
        # tells a fault by its own place. A third would end as the second did.
        self._remote = RemoteBoard(self._line, timeouts or TIMEOUTS, attempts=2)

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


# The emulated board's serial line, passed on to whoever is connected outside.

_BRIDGE_CHUNK = 4096
_BRIDGE_LOOK_S = 0.05


class LinkBridge:
    """Bytes both ways, unchanged: the firmware itself answers.

    The client lives in the host's time. While the board works, its bytes are held back; while the
    board waits, the client's silence passes for the board too, in steps. So the moments at which
    the board finds its bytes are those of the conversation, whatever the host does besides.
    """

    def __init__(self, machine: EmulatedMachine) -> None:
        self._machine = machine

    def serve(self, stream: Stream) -> None:
        """Until the client is gone, which the stream tells."""
        request = b""
        while True:
            waits = self._machine.go_on(_BRIDGE_LOOK_S, to_wait=True)
            fault = self._machine.fault()
            if fault is not None:
                raise fault
            while said := self._machine.heard(_BRIDGE_CHUNK):
                stream.write(said)
            request = request or stream.read(_BRIDGE_CHUNK, _BRIDGE_LOOK_S if waits else 0.0)
            if waits and request:
                self._machine.say(request)
                request = b""
            elif waits:
                self._machine.go_on(_BRIDGE_LOOK_S)
