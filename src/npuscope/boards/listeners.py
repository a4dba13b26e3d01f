"""Where a virtual board is reached: a pseudo terminal or a TCP port, one client at a time."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import select
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec import Struct

from npuscope.boards.server_run import Gone, Stream
from npuscope.errors import DeviceError, UsageError
from npuscope.text import safe_terminal

_LOGGER = logging.getLogger(__name__)
# Waits are cut into slices so that close() from another thread is seen soon.
_SLICE_S = 0.1
_WRITE_TIMEOUT_S = 10.0


class Patience(Struct, frozen=True):
    """How long a client may say nothing, in seconds, while another one waits for the board."""

    at_first: float = 5.0
    between: float = 60.0


class Served(Protocol):
    """A board that answers a client: a virtual one, or the line of an emulated one."""

    def serve(self, stream: Stream) -> None: ...


class TcpListener:
    """A port; without a number the system chooses one."""

    def __init__(
        self, port: int = 0, host: str = "127.0.0.1", patience: Patience | None = None
    ) -> None:
        self._patience = patience or Patience()
        if not _is_loopback(host):
            _LOGGER.warning(
                "%s is reachable from other computers, and the protocol has no password",
                safe_terminal(host),
            )
        self._closed = False
        self._socket = _listen(host, port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"socket:{host}:{self.port}"

    def serve(self, board: Served) -> None:
        """One client after the other, until close()."""
        while not self._closed:
            client = self._accept()
            if client is None:
                continue
            with client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _converse(board, SocketStream(client, self._look_after, lambda: self._closed))

    def close(self) -> None:
        self._closed = True
        self._socket.close()

    def _accept(self) -> socket.socket | None:
        with contextlib.suppress(OSError, ValueError):
            if select.select([self._socket], [], [], _SLICE_S)[0]:
                return self._socket.accept()[0]
        return None

    def _look_after(self, stream: SocketStream) -> None:
        """A second client learns at once that the board is taken, or gets it from a silent one."""
        with contextlib.suppress(OSError, ValueError):
            if not select.select([self._socket], [], [], 0)[0]:
                return
            limit = self._patience.between if stream.has_spoken else self._patience.at_first
            if stream.quiet_s > limit:
                raise Gone(f"the client was silent for {limit:g} s, and another one is waiting")
            if stream.has_spoken:
                self._socket.accept()[0].close()
                _LOGGER.info("a second client was rejected")


class SocketStream:
    """A connected socket; `others` looks after newcomers while this client thinks."""

    def __init__(
        self,
        connected: socket.socket,
        others: Callable[[SocketStream], None] = lambda stream: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.has_spoken = False
        self._active = time.monotonic()
        self._socket = connected
        self._others = others
        self._stopped = stopped
        connected.settimeout(_WRITE_TIMEOUT_S)

    @property
    def quiet_s(self) -> float:
        """Since the client came, sent or was sent something."""
        return time.monotonic() - self._active

    def read(self, n: int, timeout_s: float) -> bytes:
        descriptor, others = self._socket.fileno(), partial(self._others, self)
        if not _readable(descriptor, timeout_s, self._stopped, others):
            return b""
        try:
            data = self._socket.recv(n)
        except OSError as error:
            raise Gone(f"the connection broke: {error.strerror}") from None
        if not data:
            raise Gone("the client closed the connection")
        self.has_spoken, self._active = True, time.monotonic()
        return data

    def write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise Gone(f"the client does not read its answer: {error.strerror or error}") from None
        self._active = time.monotonic()


class PtyListener:
    """A pseudo terminal in raw mode; its slave is what a client opens as a serial port."""

    def __init__(self) -> None:
        if not hasattr(os, "openpty"):
            raise DeviceError("this system has no pseudo terminals", hint="use --tcp PORT")
        import tty

        self._closed = False
        self._master, self._slave = os.openpty()
        # Echo would come back to the client; without our own slave a leaving client ends it all.
        tty.setraw(self._slave)
        os.fchmod(self._slave, 0o600)
        os.set_blocking(self._master, False)
        self.path = os.ttyname(self._slave)

    @property
    def address(self) -> str:
        return f"serial:{self.path}"

    def serve(self, board: Served) -> None:
        """Nothing tells that a client left, so the conversation simply goes on."""
        stream = PtyStream(self._master, lambda: self._closed)
        try:
            while not self._closed:
                _converse(board, stream)
        finally:
            os.close(self._master)
            os.close(self._slave)

    def close(self) -> None:
        self._closed = True


class PtyStream:
    def __init__(self, master: int, stopped: Callable[[], bool] = lambda: False) -> None:
        self._master = master
        self._stopped = stopped

    def read(self, n: int, timeout_s: float) -> bytes:
        if not _readable(self._master, timeout_s, self._stopped):
            return b""
        try:
            return os.read(self._master, n)
        except OSError as error:
            raise Gone(f"the terminal broke: {error.strerror}") from None

    def write(self, data: bytes) -> None:
        """A client that stops reading must not hold the board for ever."""
        rest = memoryview(data)
        while rest:
            if not select.select([], [self._master], [], _WRITE_TIMEOUT_S)[1]:
                raise Gone("the client does not read its answer")
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(self._master, rest) :]


def _converse(board: Served, stream: SocketStream | PtyStream) -> None:
    with contextlib.suppress(Gone):
        board.serve(stream)


def _readable(
    descriptor: int,
    timeout_s: float,
    stopped: Callable[[], bool],
    between: Callable[[], None] = lambda: None,
) -> bool:
    """Whether bytes came within the time; Gone once the board is switched off."""
    end = time.monotonic() + timeout_s
    while not stopped():
        seconds = end - time.monotonic()
        if select.select([descriptor], [], [], max(0.0, min(seconds, _SLICE_S)))[0]:
            return True
        if seconds <= 0:
            return False
        between()
    raise Gone("the board was switched off")


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"cannot listen on port {port}: {getattr(error, 'strerror', None) or error}",
            where=f"--host {safe_terminal(host)} --tcp {port}",
            hint="choose another port; 0 lets the system choose",
        ) from None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
