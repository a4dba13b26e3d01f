"""-mdp-load-partition-config and -mdp-dump-partition-config: devices that share a network.

One partition: its devices share every layer. Several: a pipeline, whose stages have the nodes that
they list. Both forms are those of export libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from npuscope.bounded_file import VENDOR_JSON, parse_json, read_bytes
from npuscope.errors import FileError
from npuscope.families.many_core.compiler.simplify import prepared
from npuscope.families.many_core.compiler.stages import PipelineStage, stage_numbers
from npuscope.graph.model import Graph
from npuscope.text import safe_terminal


class DeviceShare(Struct, frozen=True, rename="camel"):
    device_id: int
    num_cores: int


class Partition(Struct, frozen=True, rename="camel"):
    devices: list[DeviceShare]
    name: str = ""
    node_list: list[str] = field(default_factory=list)


class Connection(Struct, frozen=True):
    devices: list[int]
    type: str = "p2p"


class PartitionConfig(Struct, frozen=True):
    """{"connections": [{"devices": [0, 1], "type": "p2p"}],
    "partitions": [{"name": ..., "nodeList": [...], "devices": [{"deviceId": 0, "numCores": 16}]}]}
    """

    partitions: list[Partition]
    connections: list[Connection] = field(default_factory=list)


class DeviceShares(Struct, frozen=True):
    """Devices of a config, numbered as they first appear, and cores of each."""

    devices: int
    cores: int | None  # None: all that the network has work for
    stages: tuple[PipelineStage, ...] = ()  # none where all devices share every layer

    def check(self, graph: Graph, path: str | Path) -> None:
        """A config of another model would leave all ops to the first stage."""
        nodes = {name for op in graph.ops for name in (op.name, *op.origin)}
        for number, stage in enumerate(self.stages):
            if not nodes.intersection(stage.nodes):
                raise FileError(
                    f"none of its {len(stage.nodes)} nodes is in {safe_terminal(graph.name)}",
                    where=f"{safe_terminal(str(path))}: $.partitions[{number}].nodeList",
                    hint="names are those of the model's file",
                )


def read_partitions(path: str | Path) -> DeviceShares:
    where = safe_terminal(str(path))
    try:
        table: Any = parse_json(read_bytes(path, VENDOR_JSON))
        config = msgspec.convert(table, PartitionConfig)
    except msgspec.ValidationError as error:
        raise FileError(f"is no partition config: {error}", where=where) from None
    except ValueError as error:
        raise FileError(f"is not valid JSON: {error}", where=where) from None
    for number, connection in enumerate(config.connections):
        if connection.type != "p2p":
            raise FileError(
                f"connections of type '{safe_terminal(connection.type)}' are not modelled",
                where=f"{where}: $.connections[{number}].type",
                hint="p2p: devices that send to each other",
            )
    shares = [share for partition in config.partitions for share in partition.devices]
    cores = {share.num_cores for share in shares}
    if len(cores) != 1:
        raise FileError(
            "expected devices with equal numbers of cores", where=f"{where}: $.partitions"
        )
    numbers = {one: i for i, one in enumerate(dict.fromkeys(share.device_id for share in shares))}
    if len(config.partitions) == 1:
        return DeviceShares(len(numbers), cores.pop())
    stages = []
    for number, partition in enumerate(config.partitions):
        if not partition.devices or not partition.node_list:
            raise FileError(
                "expected devices and a nodeList in each of several partitions",
                where=f"{where}: $.partitions[{number}]",
            )
        own = dict.fromkeys(numbers[share.device_id] for share in partition.devices)
        stages.append(PipelineStage(tuple(own), tuple(partition.node_list)))
    return DeviceShares(len(numbers), cores.pop(), tuple(stages))


def partition_json(graph: Graph, shares: DeviceShares, cores: int) -> bytes:
    """How a network was shared, in the form that read_partitions() reads."""
    parts = shares.stages or (PipelineStage(tuple(range(shares.devices))),)
    ready = prepared(graph).graph
    stages: dict[str, int] = {}  # by node; one that became several ops is where the last of them is
    for op, number in zip(ready.ops, stage_numbers(ready, parts), strict=True):
        for name in op.origin or (op.name,):
            stages[name] = max(number, stages.get(name, 0))
    partitions = [
        Partition(
            [DeviceShare(device, cores) for device in part.devices],
            f"Partition{number}",
            [name for name, stage in stages.items() if stage == number],
        )
        for number, part in enumerate(parts)
    ]
    config = PartitionConfig(partitions, [Connection(list(range(shares.devices)))])
    return msgspec.json.format(msgspec.json.encode(config), indent=1)
