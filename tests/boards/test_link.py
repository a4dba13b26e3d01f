"""Links: descriptors, and bytes over real sockets and pseudo terminals."""

from __future__ import annotations

import os
import socket
import sys
import threading
from types import SimpleNamespace

import pytest

from npuscope.boards.device import BAUD, Descriptor, DescriptorKind, parse_descriptor
from npuscope.boards.link import FileLink, SerialLink, SocketLink, find_port, open_link
from npuscope.errors import DeviceError, UsageError

SERIAL = DescriptorKind.SERIAL


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("simulated", Descriptor(DescriptorKind.SIMULATED)),
        ("emulated", Descriptor(DescriptorKind.EMULATED)),
        ("serial", Descriptor(SERIAL)),
        ("serial:115200", Descriptor(SERIAL, baud=115200)),
        ("serial:COM3", Descriptor(SERIAL, path="COM3")),
        ("serial:/dev/pts/3:115200", Descriptor(SERIAL, path="/dev/pts/3", baud=115200)),
        ("serial:115200:/dev/pts/3", Descriptor(SERIAL, path="/dev/pts/3", baud=115200)),
        (
            "socket:board.local:10000",
            Descriptor(DescriptorKind.SOCKET, host="board.local", tcp_port=10000),
        ),
        ("socket:[::1]:1", Descriptor(DescriptorKind.SOCKET, host="::1", tcp_port=1)),
        ("log:C:\\runs\\a.log", Descriptor(DescriptorKind.LOG, path="C:\\runs\\a.log")),
    ],
)
def test_a_descriptor_is_read_and_written_back(text: str, value: Descriptor) -> None:
    assert parse_descriptor(text) == value
    assert parse_descriptor(str(value)) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unknown device: ''"),
        ("usb:1", "unknown device: 'usb:1'"),
        ("simulated:fast", "'simulated' takes no parameters: 'simulated:fast'"),
        ("serial:a:b", "expected at most a port and a baud rate: 'serial:a:b'"),
        ("serial:1:2", "expected at most a port and a baud rate: 'serial:1:2'"),
        ("serial:COM1:0", "the baud rate is 0: 'serial:COM1:0'"),
        ("socket", "expected a host and a port from 1 to 65535: 'socket'"),
        ("socket:host", "expected a host and a port from 1 to 65535: 'socket:host'"),
        ("socket:host:0", "expected a host and a port from 1 to 65535: 'socket:host:0'"),
        ("socket:host:65536", "expected a host and a port from 1 to 65535: 'socket:host:65536'"),
        ("log:", "no file given: 'log:'"),
        ("\x1b[2J", "unknown device: '\\x1b[2J'"),
    ],
)
def test_a_wrong_descriptor_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_descriptor(text)
    assert caught.value.message == message
    assert caught.value.where == "--connect"
    assert caught.value.hint


def test_a_device_without_a_link_is_refused() -> None:
    with pytest.raises(UsageError, match="has no link"):
        open_link(parse_descriptor("simulated"))


def _listener() -> tuple[socket.socket, int]:
    server = socket.create_server(("127.0.0.1", 0))
    return server, server.getsockname()[1]


def test_bytes_pass_a_tcp_socket_both_ways() -> None:
    server, port = _listener()
    link = open_link(parse_descriptor(f"socket:127.0.0.1:{port}"))
    peer, _ = server.accept()
    link.write(b"\x00\xaa\xff")
    assert peer.recv(16) == b"\x00\xaa\xff"
    peer.sendall(b"abcdef")
    assert link.read(4, 1.0) == b"abcd"
    link.flush()
    assert link.read(4, 0.01) == b""
    for thing in (link, peer, server):
        thing.close()


def test_a_silent_socket_ends_the_read_in_time() -> None:
    ours, theirs = socket.socketpair()
    assert SocketLink(ours).read(1, 0.02) == b""
    assert "baud rate" in SocketLink(ours).hint
    theirs.close()


def test_a_closed_socket_is_a_device_error() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    link = SocketLink(ours, "socket:there:1")
    with pytest.raises(DeviceError) as caught:
        link.read(1, 1.0)
    assert caught.value.message == "the connection was lost: the other side closed the connection"
    assert caught.value.hint == "a board serves one client at a time: is another one connected?"
    assert caught.value.where == "socket:there:1"
    with pytest.raises(DeviceError, match="lost"):
        link.write(b"x")


def test_nobody_listening_is_a_device_error_with_a_hint() -> None:
    server, port = _listener()
    server.close()
    with pytest.raises(DeviceError, match="cannot connect") as caught:
        SocketLink.connect("127.0.0.1", port)
    assert "npuscope board serve" in caught.value.hint


def test_every_byte_value_passes_a_pseudo_terminal() -> None:
    master, slave = pytest.importorskip("pty").openpty()
    link = open_link(parse_descriptor(f"serial:{os.ttyname(slave)}"))
    assert isinstance(link, FileLink)
    every = bytes(range(256))
    link.write(every)
    assert _read_all(lambda: os.read(master, 512), 256) == every
    os.write(master, every)
    assert _read_all(lambda: link.read(512, 1.0), 256) == every
    assert link.read(1, 0.01) == b""
    link.close()
    link.close()
    os.close(slave)
    os.close(master)


def test_a_pseudo_terminal_has_one_client() -> None:
    """Whoever uses it, also through pyserial."""
    serial = pytest.importorskip("serial")
    master, slave = pytest.importorskip("pty").openpty()
    path = os.ttyname(slave)
    first = FileLink(path)
    with pytest.raises(DeviceError) as caught:
        FileLink(path)
    assert str(caught.value) == (
        f"serial:{path}: another program uses the terminal\n  hint: wait for it or stop it"
    )
    with pytest.raises(OSError, match="exclusively"):
        serial.Serial(path, exclusive=True)
    first.close()
    with serial.Serial(path, exclusive=True), pytest.raises(DeviceError, match="another program"):
        FileLink(path)
    FileLink(path).close()
    os.close(slave)
    os.close(master)


def _read_all(read: object, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += read()  # type: ignore[operator]
    return data


def test_a_pulled_terminal_is_a_device_error() -> None:
    master, slave = pytest.importorskip("pty").openpty()
    link = FileLink(os.ttyname(slave))
    os.close(master)
    with pytest.raises(DeviceError, match="the connection was lost"):
        link.read(1, 1.0)
    os.close(slave)


@pytest.mark.parametrize("path", ["/dev/pts/none", "/dev/null"])
def test_what_is_no_terminal_is_refused(path: str) -> None:
    with pytest.raises(DeviceError):
        FileLink(path)


def test_a_peer_that_never_reads_ends_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuscope.boards.link.WRITE_TIMEOUT_S", 0.05)
    master, slave = pytest.importorskip("pty").openpty()
    with pytest.raises(DeviceError, match=r"nothing could be written for 0\.05 s"):
        FileLink(os.ttyname(slave)).write(bytes(1 << 20))
    ours, theirs = socket.socketpair()
    with pytest.raises(DeviceError, match="timed out"):
        SocketLink(ours).write(bytes(1 << 22))
    for handle in (master, slave):
        os.close(handle)
    theirs.close()


def test_a_talkative_peer_does_not_hold_the_flush() -> None:
    ours, theirs = socket.socketpair()
    stop = threading.Event()
    theirs.settimeout(0.05)
    talker = threading.Thread(target=_babble, args=(theirs, stop), daemon=True)
    talker.start()
    SocketLink(ours).flush()
    stop.set()
    talker.join(5.0)
    assert not talker.is_alive()


def _babble(peer: socket.socket, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            peer.sendall(bytes(64))
        except TimeoutError:
            continue


def test_missing_pyserial_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "serial", None)
    for act in (find_port, lambda: SerialLink("/dev/ttyACM9")):
        with pytest.raises(DeviceError) as caught:
            act()
        assert caught.value.hint == "pip install pyserial"


def _ports(*found: tuple[str, int | None]) -> list[SimpleNamespace]:
    return [SimpleNamespace(device=device, vid=vid) for device, vid in found]


def test_an_st_link_is_found_before_other_usb_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fcntl")  # of pyserial, on systems other than Windows
    from serial.tools import list_ports

    found = _ports(("/dev/ttyS0", None), ("/dev/ttyACM1", 0x2341), ("/dev/ttyACM2", 0x0483))
    monkeypatch.setattr(list_ports, "comports", lambda: found)
    assert find_port() == "/dev/ttyACM2"
    monkeypatch.setattr(list_ports, "comports", lambda: found[:2])
    assert find_port() == "/dev/ttyACM1"
    monkeypatch.setattr(list_ports, "comports", lambda: found[:1])
    with pytest.raises(DeviceError, match="no USB serial port was found"):
        find_port()


def test_pyserial_speaks_to_a_pseudo_terminal() -> None:
    master, slave = pytest.importorskip("pty").openpty()
    link = SerialLink(os.ttyname(slave), BAUD)
    link.write(b"\x00ask")
    assert _read_all(lambda: os.read(master, 16), 4) == b"\x00ask"
    os.write(master, b"answer")
    assert _read_all(lambda: link.read(16, 1.0), 6) == b"answer"
    assert link.read(1, 0.0) == b""
    os.close(master)
    with pytest.raises(DeviceError, match="the connection was lost"):
        link.read(1, 1.0)
    link.close()
    os.close(slave)
