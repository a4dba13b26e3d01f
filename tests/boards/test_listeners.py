"""Where a virtual board is reached: TCP and pseudo terminals, one client at a time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_device import FakeDevice
from models import dense_net, save, to_tflite
from npuscope import child
from npuscope.boards import listeners
from npuscope.boards.listeners import Patience, PtyListener, TcpListener
from npuscope.boards.server import VirtualBoard
from npuscope.boards.server_run import ServerTiming
from npuscope.boards.wire.framing import Revision, host_packets, receive_from_device
from npuscope.boards.wire.messages import Req, Resp, decode, encode
from npuscope.errors import UsageError
from processes import LIMIT_S, started

SYNC = host_packets(encode(Req(1)), Revision.W2)[0]
posix = pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo terminals")


@contextlib.contextmanager
def serving(
    listener: TcpListener | PtyListener, timing: ServerTiming | None = None
) -> Iterator[TcpListener | PtyListener]:
    board = VirtualBoard(FakeDevice(), timing=timing)
    worker = threading.Thread(target=listener.serve, args=(board,))
    worker.start()
    yield listener
    listener.close()
    worker.join(3)
    assert not worker.is_alive()


def is_sync(data: bytes) -> bool:
    parts = iter([data])
    return (
        decode(Resp, receive_from_device(lambda n: next(parts), Revision.W2, 99)).sync is not None
    )


def greet(line: socket.socket) -> bool:
    line.settimeout(LIMIT_S)
    line.sendall(SYNC)
    return is_sync(line.recv(34, socket.MSG_WAITALL))


def test_one_client_after_the_other() -> None:
    with serving(TcpListener()) as listener:
        assert isinstance(listener, TcpListener)
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", listener.port)) as line:
                assert greet(line)


def test_a_second_client_is_turned_away() -> None:
    with serving(TcpListener()) as listener:
        assert isinstance(listener, TcpListener)
        place = ("127.0.0.1", listener.port)
        with socket.create_connection(place) as first, socket.create_connection(place) as second:
            assert greet(first)
            second.settimeout(LIMIT_S)
            assert second.recv(1) == b""
            assert greet(first)


def test_a_silent_client_is_left() -> None:
    with serving(TcpListener(), ServerTiming(idle=0.05)) as listener:
        assert isinstance(listener, TcpListener)
        with socket.create_connection(("127.0.0.1", listener.port)) as line:
            line.settimeout(LIMIT_S)
            assert line.recv(1) == b""


def test_a_client_that_never_speaks_gives_way_to_one_that_waits() -> None:
    with serving(TcpListener(patience=Patience(at_first=0.2))) as listener:
        assert isinstance(listener, TcpListener)
        place = ("127.0.0.1", listener.port)
        with socket.create_connection(place) as silent, socket.create_connection(place) as second:
            assert greet(second)
            silent.settimeout(LIMIT_S)
            assert silent.recv(1) == b""


def test_a_client_that_pauses_keeps_the_board_until_it_pauses_too_long() -> None:
    with serving(TcpListener(patience=Patience(at_first=0.0, between=0.2))) as listener:
        assert isinstance(listener, TcpListener)
        place = ("127.0.0.1", listener.port)
        with socket.create_connection(place) as first:
            assert greet(first)
            time.sleep(0.4)  # nobody waits
            assert greet(first)
            time.sleep(0.4)
            with socket.create_connection(place) as second:
                assert greet(second)
                first.settimeout(LIMIT_S)
                assert first.recv(1) == b""


def test_a_taken_port_is_an_error() -> None:
    first = TcpListener()
    try:
        with pytest.raises(UsageError, match=f"cannot listen on port {first.port}"):
            TcpListener(first.port)
    finally:
        first.close()


def test_other_computers_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original = listeners._listen
    monkeypatch.setattr(listeners, "_listen", lambda host, port: original("127.0.0.1", port))
    for host in ("127.0.0.1", "localhost", "::1"):
        TcpListener(host=host).close()
    assert caplog.text == ""
    TcpListener(host="192.0.2.1").close()
    assert "192.0.2.1 is reachable from other computers" in caplog.text


@posix
def test_a_terminal_is_private_and_raw() -> None:
    with serving(PtyListener()) as listener:
        assert isinstance(listener, PtyListener)
        assert stat.S_IMODE(os.stat(listener.path).st_mode) == 0o600
        assert listener.address == f"serial:{listener.path}"
        for _ in range(2):
            line = os.open(listener.path, os.O_RDWR | os.O_NOCTTY)
            os.write(line, SYNC)
            data = b""
            while len(data) < 34:
                data += os.read(line, 34 - len(data))
            os.close(line)
            assert is_sync(data)


_VERB = """
import sys
from npuscope.cli.main import main
sys.exit(main(["board", *sys.argv[1:]]))
"""


def test_the_verb_serves_what_it_compiled(tmp_path: Path) -> None:
    model = str(save(tmp_path, "small.tflite", to_tflite(dense_net())))
    command = [*child.command(), "-c", _VERB, "serve", model, model, "--tcp", "0", "--json=-"]
    with started(command, env=child.environment(), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        assert said["networks"] == ["small", "small_2"]
        _, host, port = said["address"].split(":")
        with socket.create_connection((host, int(port))) as line:
            assert greet(line)
        server.send_signal(signal.SIGINT)
        assert server.wait(LIMIT_S) == 0


def _ignore_interrupts() -> None:
    """As a shell does for the background jobs of a script."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(
    "way",
    [pytest.param(("--tcp", "0"), id="tcp"), pytest.param(("--pty",), id="pty", marks=posix)],
)
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_signals_switch_the_verb_off_also_in_the_background(
    stop: signal.Signals, way: tuple[str, ...], tmp_path: Path
) -> None:
    model = str(save(tmp_path, "small.tflite", to_tflite(dense_net())))
    command = [*child.command(), "-c", _VERB, "serve", model, *way, "--json=-"]
    pipe = {"stdout": subprocess.PIPE, "preexec_fn": _ignore_interrupts}
    with started(command, env=child.environment(), **pipe) as server:
        assert server.stdout.readline()
        server.send_signal(stop)
        assert server.wait(LIMIT_S) == 0
