"""Byte transports to a board: a serial port, a TCP socket, a pseudo terminal.

A link never waits without an end: `read` returns what came, or nothing after its time-out, and
raises a DeviceError once the other side is gone.
"""

from __future__ import annotations

import os
import select
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from npuscope.boards.device import BAUD, Descriptor, DescriptorKind, misused
from npuscope.errors import DeviceError
from npuscope.text import safe_terminal

ST_VID = 0x0483
WRITE_TIMEOUT_S = 5.0
CONNECT_TIMEOUT_S = 5.0
# pyserial reconfigures the port whenever its time-out changes: reads are cut into slices instead.
_SLICE_S = 0.05
_FLUSH_READS = 1000
_PSEUDO_TERMINALS = ("/dev/pts/", "/dev/ttys")


class BoardLink(Protocol):
    """Bytes to and from a board; `now` is the clock its time-outs run on, in seconds."""

    @property
    def name(self) -> str: ...

    @property
    def hint(self) -> str:
        """What to do, or to know, when the board does not answer."""

    def now(self) -> float: ...

    def read(self, n: int, timeout_s: float) -> bytes:
        """1 to n bytes as soon as there are any; none when the time is over."""

    def write(self, data: bytes) -> None: ...

    def deliver(self, packets: Sequence[bytes], ask: bytes, timeout_s: float) -> int:
        """Write packets of one size from the first on, each after the board has answered the one
        before it with `ask`; how many were written. A line that cannot do that by itself: 0."""

    def flush(self) -> None:
        """Drop what came unasked."""

    def close(self) -> None: ...


def open_link(descriptor: Descriptor) -> BoardLink:
    """The transport a `serial` or `socket` descriptor asks for."""
    if descriptor.kind is DescriptorKind.SOCKET:
        return SocketLink.connect(descriptor.host, descriptor.tcp_port)
    if descriptor.kind is not DescriptorKind.SERIAL:
        raise misused(str(descriptor), "this device has no link", "serial or socket")
    # A pseudo terminal has no baud rate to set, and pyserial is not needed for it.
    if descriptor.path.startswith(_PSEUDO_TERMINALS):
        return FileLink(descriptor.path)
    return SerialLink(descriptor.path or find_port(), descriptor.baud)


class _RealLink(ABC):
    """What the links to real devices share: a name and the machine's clock."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def hint(self) -> str:
        return "check the cable and the baud rate; reset the board if it stays silent"

    def now(self) -> float:
        return time.monotonic()

    def deliver(self, packets: Sequence[bytes], ask: bytes, timeout_s: float) -> int:
        return 0

    @abstractmethod
    def read(self, n: int, timeout_s: float) -> bytes: ...

    def flush(self) -> None:
        # A board that never stops talking must not keep us here.
        for _ in range(_FLUSH_READS):
            if not self.read(4096, 0.0):
                return

    def _gone(
        self, why: object, hint: str = "check the cable and the board's power"
    ) -> DeviceError:
        return DeviceError(f"the connection was lost: {why}", where=self._name, hint=hint)


class SocketLink(_RealLink):
    """A connected TCP (or local) socket."""

    def __init__(self, connected: socket.socket, name: str = "socket") -> None:
        super().__init__(name)
        self._socket = connected

    @classmethod
    def connect(cls, host: str, port: int, timeout_s: float = CONNECT_TIMEOUT_S) -> SocketLink:
        name = f"socket:{safe_terminal(host)}:{port}"
        try:
            connected = socket.create_connection((host, port), timeout_s)
        except (OSError, UnicodeError) as error:
            hint = "is the board or `npuscope board serve SOURCE --tcp PORT` running there?"
            raise DeviceError(f"cannot connect: {error}", where=name, hint=hint) from error
        # One round trip for every packet of a message: waiting to fill segments would stall each.
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(connected, name)

    def read(self, n: int, timeout_s: float) -> bytes:
        try:
            # 0 would mean non-blocking, which raises another error than a time-out.
            self._socket.settimeout(max(timeout_s, 1e-4))
            data = self._socket.recv(n)
        except TimeoutError:
            return b""
        except OSError as error:
            raise self._gone(error) from error
        if not data:
            hint = "a board serves one client at a time: is another one connected?"
            raise self._gone("the other side closed the connection", hint)
        return data

    def write(self, data: bytes) -> None:
        try:
            self._socket.settimeout(WRITE_TIMEOUT_S)
            self._socket.sendall(data)
        except OSError as error:
            raise self._gone(error) from error

    def close(self) -> None:
        self._socket.close()


class FileLink(_RealLink):
    """A pseudo terminal's path, such as the virtual board prints; POSIX only."""

    def __init__(self, path: str) -> None:
        super().__init__(f"serial:{safe_terminal(path)}")
        try:
            import fcntl
            import termios
            import tty

        except ImportError:
            message = "this system has no pseudo terminals"
            raise DeviceError(message, where=self.name, hint="use socket:HOST:PORT") from None
        try:
            self._file = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            raise DeviceError(f"cannot open the terminal: {error}", where=self.name) from error
        # The lock that pyserial takes too: two clients would hear each other's answers.
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            message, hint = "another program uses the terminal", "wait for it or stop it"
            raise DeviceError(message, where=self.name, hint=hint) from error
        # Without raw mode the terminal would echo, and swallow control characters.
        try:
            tty.setraw(self._file)
        except termios.error as error:
            self.close()
            raise DeviceError(f"not a terminal: {error}", where=self.name) from error

    def read(self, n: int, timeout_s: float) -> bytes:
        try:
            if not select.select([self._file], [], [], max(timeout_s, 0.0))[0]:
                return b""
            data = os.read(self._file, n)
        except BlockingIOError:
            return b""
        except (OSError, ValueError) as error:
            raise self._gone(error) from error
        if not data:
            raise self._gone("the terminal was closed")
        return data

    def write(self, data: bytes) -> None:
        end = self.now() + WRITE_TIMEOUT_S
        while data:
            data = data[self._write_some(data, end - self.now()) :]

    def _write_some(self, data: bytes, left_s: float) -> int:
        try:
            if not select.select([], [self._file], [], max(left_s, 0.0))[1]:
                raise self._gone(f"nothing could be written for {WRITE_TIMEOUT_S:g} s")
            return os.write(self._file, data)
        except BlockingIOError:
            return 0
        except (OSError, ValueError) as error:
            raise self._gone(error) from error

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


class SerialLink(_RealLink):
    """A serial port through pyserial."""

    def __init__(self, port: str, baud: int = BAUD) -> None:
        super().__init__(f"serial:{safe_terminal(port)}:{baud}")
        serial = _pyserial()
        try:
            self._port = serial.Serial(
                port, baud, timeout=_SLICE_S, write_timeout=WRITE_TIMEOUT_S, exclusive=True
            )
        except (OSError, ValueError, OverflowError) as error:
            hint = "close other programs that use the port; on Linux, be in the group 'dialout'"
            raise DeviceError(f"cannot open: {error}", where=self.name, hint=hint) from error

    def read(self, n: int, timeout_s: float) -> bytes:
        end = self.now() + timeout_s
        try:
            waiting = self._port.in_waiting
            while not waiting and self.now() < end:
                data = bytes(self._port.read(1))
                if data:
                    return data
                waiting = self._port.in_waiting
            return bytes(self._port.read(min(n, waiting))) if waiting else b""
        # A port that vanishes while it is read gives TypeError in pyserial on some systems.
        except (OSError, TypeError) as error:
            raise self._gone(error) from error

    def write(self, data: bytes) -> None:
        try:
            self._port.write(data)
        except (OSError, TypeError) as error:
            raise self._gone(error) from error

    def close(self) -> None:
        self._port.close()


def _pyserial() -> Any:
    try:
        import serial
    except ImportError as error:
        message = "serial ports need pyserial, which is not installed"
        raise DeviceError(message, where="serial", hint="pip install pyserial") from error
    return serial


def find_port() -> str:
    """The board's port: the USB serial ports, those of an ST-Link first."""
    _pyserial()
    from serial.tools import list_ports

    usb = [port for port in list_ports.comports() if port.vid is not None]
    if not usb:
        hint = "plug the board's ST-Link in, or name the port: serial:/dev/ttyACM0"
        raise DeviceError("no USB serial port was found", where="serial", hint=hint)
    return str(min(usb, key=lambda port: (port.vid != ST_VID, port.device)).device)
