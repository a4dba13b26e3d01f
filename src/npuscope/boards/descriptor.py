"""Which device to use, as text and as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from npuscope.errors import UsageError
from npuscope.text import safe_terminal

BAUD = 921600


class DescriptorKind(Enum):
    SIMULATED = "simulated"
    EMULATED = "emulated"
    SERIAL = "serial"
    SOCKET = "socket"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Which device to use; `path` is a serial port ("" = find one) or a recorded log."""

    kind: DescriptorKind
    path: str = ""
    baud: int = BAUD
    host: str = ""
    tcp_port: int = 0

    def __str__(self) -> str:
        match self.kind:
            case DescriptorKind.SERIAL:
                return ":".join(part for part in ("serial", self.path, str(self.baud)) if part)
            case DescriptorKind.SOCKET:
                host = f"[{self.host}]" if ":" in self.host else self.host
                return f"socket:{host}:{self.tcp_port}"
            case DescriptorKind.LOG:
                return f"log:{self.path}"
        return str(self.kind.value)


_GRAMMAR = "simulated | emulated | serial[:PORT][:BAUD] | socket:HOST:PORT | log:FILE"


def parse_descriptor(text: str) -> Descriptor:
    """`serial:/dev/ttyACM0:921600` and its like as a value."""
    kind, _, rest = text.partition(":")
    match kind:
        case "simulated" | "emulated" if not rest:
            return Descriptor(DescriptorKind(kind))
        case "simulated" | "emulated":
            raise misused(text, f"'{kind}' takes nothing behind it", f"write just '{kind}'")
        case "serial":
            return _serial_descriptor(text, rest)
        case "socket":
            return _socket_descriptor(text, rest)
        case "log" if rest:
            return Descriptor(DescriptorKind.LOG, path=rest)
        case "log":
            raise misused(text, "no file is named", "log:FILE, a saved profiler log")
    raise misused(text, "no such kind of device", _GRAMMAR)


def misused(text: str, what: str, hint: str) -> UsageError:
    return UsageError(f"{what}: '{safe_terminal(text)}'", where="--connect", hint=hint)


def _serial_descriptor(text: str, rest: str) -> Descriptor:
    tokens = [token for token in rest.split(":") if token]
    bauds = [int(token) for token in tokens if _is_number(token)]
    ports = [token for token in tokens if not _is_number(token)]
    if len(bauds) > 1 or len(ports) > 1:
        raise misused(text, "more than a port and a baud rate", "serial[:PORT][:BAUD]")
    if 0 in bauds:
        raise misused(text, "a baud rate of 0", f"leave it out for {BAUD}")
    return Descriptor(DescriptorKind.SERIAL, path="".join(ports), baud=bauds[0] if bauds else BAUD)


def _socket_descriptor(text: str, rest: str) -> Descriptor:
    host, _, port = rest.rpartition(":")
    if not host or not _is_number(port) or not 0 < int(port) < 0x10000:
        raise misused(text, "a host and a port from 1 to 65535 are needed", "socket:HOST:PORT")
    return Descriptor(DescriptorKind.SOCKET, host=host.strip("[]"), tcp_port=int(port))


def _is_number(token: str) -> bool:
    return token.isascii() and token.isdigit()
