"""The records of c_info.json, schema 2.0, in all its flavours, under the file's own names.

A field that is None was not in the file: flavours and versions differ in what they state.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from msgspec import Struct, field

from npuscope.plain_data import I63, Range

Extra = dict[str, Any]
Count = Annotated[int, Range(0, I63)]
Id = Annotated[int, Range(0, I63)]  # 0 stands for none
OrMinusOne = Annotated[int, Range(-1, I63)]  # -1: not placed, or made by the tool
Amount = Annotated[float, Range(0, math.inf)]


class ListedFile(Struct, frozen=True):
    name: str
    signature: str | None = None  # "0x" and the MD5 of the file
    extra: Extra = field(default_factory=dict)


class ModelEntry(Struct, frozen=True):
    """A model that a tool read or wrote."""

    name: str | None = None
    type: str | None = None
    size: Count | None = None
    n_params: Count | None = None
    model_files: tuple[ListedFile, ...] | None = None
    generated_time: str | None = None
    extra: Extra = field(default_factory=dict)


class Tool(Struct, frozen=True):
    name: str
    version: str
    arguments: str | None = None
    environment: tuple[str, ...] | None = None
    input_model: ModelEntry | None = None
    extra: Extra = field(default_factory=dict)


class Environment(Struct, frozen=True):
    tools: tuple[Tool, ...] | None = None
    generated_model: ModelEntry | None = None
    network_signature: str | None = None
    target: str | None = None
    test_name: str | None = None
    device: str | None = None  # after validation on a board
    extra: Extra = field(default_factory=dict)


class BufferLife(Struct, frozen=True):
    start: Count
    end: Count
    extra: Extra = field(default_factory=dict)


class FixedPoint(Struct, frozen=True):
    """Integer bits without the sign, fraction bits, 1 if signed."""

    m: int
    n: int
    sign: int
    extra: Extra = field(default_factory=dict)


class IntegerQuant(Struct, frozen=True):
    axis: int  # -1: one scale for all
    scales: tuple[float, ...]
    offsets: tuple[int, ...]
    extra: Extra = field(default_factory=dict)


class BufferInfo(Struct, frozen=True):
    """An allocated tensor; `shape` has the channels before the pixels."""

    name: str
    id: Id
    size_bytes: Count
    shape: tuple[Count, ...]
    format: str
    nbits: Count
    mpool_id: Id | None = None
    offset_start: OrMinusOne | None = None
    alignment: Count | None = None
    is_param: bool | None = None
    flags: str | None = None
    epochs: BufferLife | None = None
    shape_map: tuple[Any, ...] | None = None
    channel_first: bool | None = None
    channel_last: bool | None = None
    batch: Count | None = None
    qmn: FixedPoint | None = None
    intq: IntegerQuant | None = None
    extra: Extra = field(default_factory=dict)


class NodeInfo(Struct, frozen=True):
    """An epoch, or an operator inside one."""

    name: str
    id: Id
    mapping: str
    inputs: tuple[Id, ...] | None = None
    outputs: tuple[Id, ...] | None = None
    scratchs: tuple[Id, ...] | None = None
    subgraph_nodes: tuple[NodeInfo, ...] | None = None
    macc: Count | None = None
    original_nodes: tuple[Any, ...] | None = None
    description: str | None = None  # 2.x: "Node kind=Conv"
    type: str | None = None  # from 3.0 on: "Conv"
    attributes: Extra | None = None
    sw_functions: tuple[Any, ...] | None = None
    extra: Extra = field(default_factory=dict)


class EdgeEnd(Struct, frozen=True):
    node_id: Id
    port: Count | None = None
    extra: Extra = field(default_factory=dict)


class Edge(Struct, frozen=True):
    name: str
    id: Id
    edge_kind: str
    start: EdgeEnd
    end: EdgeEnd
    buffer: Id | None = None
    attributes: Extra | None = None
    extra: Extra = field(default_factory=dict)


class DataFormat(Struct, frozen=True):
    quantizer: str | None = None
    scale: tuple[float, ...] | None = None
    zero: tuple[float, ...] | None = None
    type: str | None = None
    size: Count | None = None
    extra: Extra = field(default_factory=dict)


class OriginalTensor(Struct, frozen=True):
    """An input or output of the network as the model file has it."""

    name: str | None = None
    data_format: DataFormat | None = None
    shape: tuple[Any, ...] | None = None
    shape_map: tuple[str, ...] | None = None
    c_shape_map: tuple[str, ...] | None = None
    extra: Extra = field(default_factory=dict)


class GraphInfo(Struct, frozen=True):
    name: str
    nodes: tuple[NodeInfo, ...]
    id: Id | None = None
    inputs: tuple[Id, ...] | None = None
    outputs: tuple[Id, ...] | None = None
    edges: tuple[Edge, ...] | None = None
    original_inputs: tuple[OriginalTensor, ...] | Extra | None = None  # an object in 2.0
    original_outputs: tuple[OriginalTensor, ...] | Extra | None = None
    extra: Extra = field(default_factory=dict)


class PoolAttributes(Struct, frozen=True):
    byte_width: Count | None = None  # files of CPU targets do not state these two
    freq_ratio: Amount | None = None
    throughput: str | None = None
    latency: str | None = None
    burst_max_length: Count | None = None
    burst_penalty: Amount | None = None
    read_power: Amount | None = None
    write_power: Amount | None = None
    use_for_initrs: bool | None = None
    score: int | None = None
    extra: Extra = field(default_factory=dict)


class PoolInfo(Struct, frozen=True):
    name: str
    id: Id
    size_bytes: OrMinusOne
    attributes: PoolAttributes | None = None
    fname: str | None = None
    alignment: Count | None = None
    address: str | None = None  # decimal; NULL or a symbol where it is relative
    offset_start: OrMinusOne | None = None
    used_size_bytes: Count | None = None
    rights: str | None = None
    cacheable: str | None = None
    pipelined: str | None = None
    user_allocated: bool | None = None
    persistent: bool | None = None
    subpools: tuple[Id, ...] | None = None
    buffers: tuple[Id, ...] | None = None
    extra: Extra = field(default_factory=dict)


class AccessInfo(Struct, frozen=True):
    """What one epoch moves in one pool: bytes and cycles."""

    node_id: Id
    mpool_id: Id
    reads: Count
    writes: Count
    read_cycles: Amount | None = None
    write_cycles: Amount | None = None
    extra: Extra = field(default_factory=dict)


class PowerInfo(Struct, frozen=True):
    node_id: Id
    ops: Count
    compute_cycles: Count
    max_cycles: Count
    average_acc_power_mw: Amount | None = None
    average_memory_power_mw: Amount | None = None
    extra: Extra = field(default_factory=dict)


class BlobInfo(Struct, frozen=True):
    """Up to 3.0 the epochs by their ids; from 4.0 on the node that holds them."""

    name: str | None = None
    nodes_id: tuple[Id, ...] | None = None
    encrypted: bool | None = None
    blob_id: Id | None = None
    extra: Extra = field(default_factory=dict)


class BlockTime(Struct, frozen=True):
    """One executed block as a board measured it: MCU cycles before, in and after the core."""

    counters: tuple[Amount, ...] | None = None
    cycles: Amount | None = None
    duration_ms: Amount | None = None
    percentage: Amount | None = None
    extra: Extra = field(default_factory=dict)


class CInfo(Struct, frozen=True):
    """The whole file. What a flavour does not have is None."""

    json_schema_version: str | None = None
    environment: Environment | None = None
    buffers: tuple[BufferInfo, ...] | None = None
    graphs: tuple[GraphInfo, ...] | None = None
    memory_pools: tuple[PoolInfo, ...] | None = None
    memory_accesses: tuple[AccessInfo, ...] | None = None
    power_estimates: tuple[PowerInfo, ...] | None = None
    ec_blobs_info: tuple[BlobInfo, ...] | None = None
    memory_footprint: Extra | None = None
    validation: Extra | None = None
    aton_execution_time: tuple[BlockTime, ...] | None = None
    extra: Extra = field(default_factory=dict)
