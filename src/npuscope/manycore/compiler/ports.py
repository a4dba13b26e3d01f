"""Doors of a device: to the host, and one pair a direction to every other device."""

from __future__ import annotations

from npuscope.manycore.layout import Port

INPUT_PORT, OUTPUT_PORT = 100, 101
_FIRST_PEER_PORT = 102
INPUT_SEMAPHORE_NUMBER, OUTPUT_SEMAPHORE_NUMBER = 0, 1


def ports(devices: int) -> tuple[Port, ...]:
    host = (
        Port(INPUT_PORT, True, "host", "Host_IO_Port"),
        Port(OUTPUT_PORT, False, "host", "Host_IO_Port"),
    )
    pairs = [(a, b) for a in range(devices) for b in range(devices) if a != b]
    return (*host, *(port for source, target in pairs for port in _pair(devices, source, target)))


def _pair(devices: int, source: int, target: int) -> tuple[Port, Port]:
    """Where bytes leave one device, and where they arrive at the other."""
    return (
        Port(leaving(devices, source, target), False, "p2p", f"{source}->{target}", target),
        Port(arriving(devices, source, target), True, "p2p", f"{target}<-{source}", source),
    )


def leaving(devices: int, source: int, target: int) -> int:
    return _FIRST_PEER_PORT + 2 * (source * (devices - 1) + target - (target > source))


def arriving(devices: int, source: int, target: int) -> int:
    return leaving(devices, source, target) + 1
