"""-mdp-load-partition-config: the devices that share a network, as export libraries write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from npuscope.bounded_file import VENDOR_JSON, parse_json, read_bytes
from npuscope.errors import FileError
from npuscope.text import safe_terminal


class DeviceShare(Struct, frozen=True, rename="camel"):
    device_id: int
    num_cores: int


class Partition(Struct, frozen=True):
    devices: list[DeviceShare]


class PartitionConfig(Struct, frozen=True):
    """{"partitions": [{"name": ..., "devices": [{"deviceId": 0, "numCores": 16}, ...]}]}"""

    partitions: list[Partition]


def read_partitions(path: str | Path) -> tuple[int, int]:
    """Number of devices, and of cores on each."""
    where = safe_terminal(str(path))
    try:
        table: Any = parse_json(read_bytes(path, VENDOR_JSON))
        partitions = msgspec.convert(table, PartitionConfig).partitions
    except msgspec.ValidationError as error:
        raise FileError(f"is no partition config: {error}", where=where) from None
    except ValueError as error:
        raise FileError(f"is not valid JSON: {error}", where=where) from None
    if len(partitions) != 1:
        raise FileError(
            f"{len(partitions)} partitions: a pipeline of devices is not modelled",
            where=f"{where}: $.partitions",
            hint="one partition, whose devices share every layer",
        )
    devices = partitions[0].devices
    cores = {device.num_cores for device in devices}
    if len(cores) != 1:
        raise FileError(
            "expected devices with equal numbers of cores", where=f"{where}: $.partitions[0]"
        )
    return len(devices), cores.pop()
