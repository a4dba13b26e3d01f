"""The work of one inference, op by op: what the time of a set-up depends on."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npuscope.families.many_core.compiler.depth_first import held_bytes
from npuscope.families.many_core.compiler.kinds import (
    D32,
    KERNELS,
    PARALLEL,
    GroupNumber,
    WholeAxes,
    core_kind,
    device_dtype,
    group_of,
    is_splat,
    needs_rows,
    size_bytes,
)
from npuscope.families.many_core.compiler.simplify import simplified
from npuscope.families.many_core.machine import CoreMachine
from npuscope.graph.model import Graph, Op, Tensor
from npuscope.ops.layers import ConvAttrs, is_depthwise
from npuscope.ops.moves import ConcatAttrs, SliceAttrs, TransposeAttrs
from npuscope.ops.reduce import PoolAttrs
from npuscope.ops.table import OPS, macs
from npuscope.ops.traits import Trait

Column = np.ndarray
RETAINED = "_RetainedState"


class NetworkWork(Struct, frozen=True):
    """Columns have one value per op that does something; sizes are of one inference, in bytes.

    A product makes `groups` results of `rows` x `channels`, each the sum of `depth` products.
    """

    products: Column  # bool: on HMX
    groups: Column
    rows: Column
    channels: Column
    depth: Column
    macs_per_cycle: Column
    reads: Column  # activations
    writes: Column
    held: Column  # activations that exist while the op runs, its own among them
    weights: Column
    packed: Column  # bool: weights that may be stored in blocks with a common exponent
    cycles: Column  # of HVX, all cores together
    lanes: Column  # rows of pictures, heads or blocks of rows that cores can share
    blocks: Column  # of 32 channels
    pictures: Column  # bool: between means over whole pictures that scale them again
    macs: int
    input_bytes: int  # as they cross PCIe: floats have 32 bits there
    output_bytes: int
    mixes: Column  # bool: channels change their place within blocks
    gathers: Column  # bool: needs parts of the inputs that other cores may have made
    state_bytes: int  # read and written in DDR: states that the device retains
    batch: int  # of the graph
    convolves: bool  # most products are those of convolutions

    @property
    def weight_bytes(self) -> float:
        return float(self.weights.sum())


def network_work(graph: Graph, machine: CoreMachine, batch: int = 1) -> NetworkWork:
    """`batch` inferences are one run of the graph; all sizes are divided by it."""
    simple = simplified(graph)
    ops = [op for op in simple.ops if not OPS[op.kind].has(Trait.MOVES) or op.kind != "Reshape"]
    products = np.array([_is_product(simple, op) for op in ops])
    extents = np.array([_extent(simple, op) for op in ops], float).reshape(-1, 4)
    inputs = [[simple.tensors[name] for name in op.inputs if name] for op in ops]
    outputs = [simple.output_tensor(op) for op in ops]
    # All inferences of a batch are rows of one product, or results of their own.
    shared = extents[:, 0] == 1
    extents[:, 1] /= np.where(shared, batch, 1)
    extents[:, 0] /= np.where(shared, 1, batch)
    retained = {name for name in graph.outputs if name.endswith(RETAINED)}
    states = {name.removesuffix(RETAINED) for name in retained} & set(graph.inputs)
    state_sizes = [graph.tensors[name] for name in (*retained, *states)]
    products_of = np.array([macs(simple, op) for op in ops], float)
    convolutions = np.array([isinstance(op.attrs, ConvAttrs) for op in ops], bool)
    return NetworkWork(
        products,
        extents[:, 0],
        extents[:, 1],
        extents[:, 2],
        extents[:, 3],
        np.array([machine.macs_per_cycle(device_dtype(tensors[0])) for tensors in inputs], float),
        np.array([_read_bytes(tensors) for tensors in inputs], float) / batch,
        np.array([size_bytes(out, out.elements) for out in outputs], float) / batch,
        held_bytes(simple, ops).during / batch,
        np.array([_weight_bytes(op, t, o) for op, t, o in zip(ops, inputs, outputs, strict=True)]),
        products & np.array([len(t) > 1 and t[1].is_constant for t in inputs]),
        np.array([_vector_cycles(simple, op, machine) for op in ops]) / batch,
        np.array([_lanes(out, machine.hmx.least_rows) for out in outputs], float) / batch,
        np.array([-(-out.shape[-1] // D32) if out.shape else 1 for out in outputs], float),
        _pictures(simple, ops),
        int(products_of.sum()) // batch,
        _host_bytes([graph.tensors[n] for n in graph.inputs if n not in states]) // batch,
        _host_bytes([graph.tensors[n] for n in graph.outputs if n not in retained]) // batch,
        np.array([_mixes_channels(simple, op) for op in ops], bool),
        np.array([_reads_neighbours(op) for op in ops], bool),
        sum(size_bytes(tensor, tensor.elements) for tensor in state_sizes) // batch,
        batch,
        bool(2 * products_of[convolutions].sum() > products_of.sum()),
    )


def _is_product(graph: Graph, op: Op) -> bool:
    return group_of(core_kind(graph, op)) is GroupNumber.HMX


def _extent(graph: Graph, op: Op) -> tuple[int, int, int, int]:
    """Groups, rows, channels and depth of a product."""
    if not _is_product(graph, op):
        return 1, 1, 1, 1
    out, weights = graph.output_tensor(op), graph.tensors[op.inputs[1]]
    channels = out.shape[-1]
    rows = _whole_rows(out)
    if isinstance(op.attrs, ConvAttrs):
        groups = op.attrs.groups
        return groups, rows, channels // groups, weights.elements // weights.shape[0]
    depth = macs(graph, op) // out.elements
    if weights.is_constant:
        return 1, rows, channels, depth
    return rows // out.shape[-2], out.shape[-2], channels, depth


# Values lie in blocks of 2 KB: 32 channels of 8 columns and, in half floats, 4 rows of a picture.
_BLOCK_BYTES, _BLOCK_COLUMNS = 2048, 8


def _whole_rows(out: Tensor) -> int:
    """Rows of a product's result, with those that fill up the blocks at the edges of a picture."""
    channels = out.shape[-1]
    if len(out.shape) != 4:
        return out.elements // channels
    count, height, width, _ = out.shape
    lines = _BLOCK_BYTES // (D32 * _BLOCK_COLUMNS * size_bytes(out, 1))
    tall, wide = -(-height // lines) * lines, -(-width // _BLOCK_COLUMNS) * _BLOCK_COLUMNS
    return count * tall * wide


def _lanes(out: Tensor, rows_of_block: int) -> int:
    if len(out.shape) > 3:
        return out.shape[0] * out.shape[1]
    rows = out.elements // (out.shape[-1] if out.shape else 1)
    return -(-rows // rows_of_block)


def _read_bytes(tensors: list[Tensor]) -> int:
    return sum(size_bytes(t, t.elements) for t in tensors if not t.is_constant)


def _weight_bytes(op: Op, inputs: list[Tensor], out: Tensor) -> int:
    if op.kind == "Gather" and inputs[0].is_constant:  # only the chosen rows are read
        return size_bytes(out, out.elements)
    return sum(size_bytes(t, t.elements) for t in inputs if t.is_constant and not is_splat(t))


def _vector_cycles(graph: Graph, op: Op, machine: CoreMachine) -> float:
    """Cycles of HVX, with those of the change to rows and back where the op needs rows.

    A clamp is done where its input is made.
    """
    if _is_product(graph, op) or core_kind(graph, op) == KERNELS["Clip"].name:
        return 0.0
    out, costs = graph.output_tensor(op), machine.setups
    size = size_bytes(out, out.elements) / 1024
    if is_depthwise(graph, op):
        taps = macs(graph, op) / out.elements
        return size * (costs.depthwise_cycles_per_kb + taps * costs.depthwise_cycles_per_tap_kb)
    if isinstance(op.attrs, PoolAttrs):
        return size * op.attrs.window[0] * op.attrs.window[1] * costs.pool_cycles_per_tap_kb
    cycles = size * machine.rate(core_kind(graph, op))
    if needs_rows(op.kind) and not isinstance(op.attrs, ConcatAttrs):
        read = _read_bytes([graph.tensors[name] for name in op.inputs if name]) / 1024
        to_rows, from_rows = machine.rate("aicconvertfromd32"), machine.rate("aicconverttod32")
        cycles += costs.layout_share * (read * to_rows + size * from_rows)
    return cycles


def _pictures(graph: Graph, ops: list[Op]) -> Column:
    """Ops up to a mean over the picture whose result scales that same picture, and one behind.

    No row of the picture is done before the mean is, so rows cannot go on from layer to layer.
    """
    marks, begin = np.zeros(len(ops), bool), 0
    for place, op in enumerate(ops):
        whole = graph.first_input(op)
        if not OPS[op.kind].has(Trait.REDUCES) or len(whole.shape) != 4:
            continue
        scaled = [
            later
            for later in range(place + 1, len(ops))
            if op.inputs[0] in ops[later].inputs and ops[later].kind == "Mul"
        ]
        if scaled:
            # Layers before the last sum of two pictures have nothing to do with this mean.
            sums = [one for one in range(begin, place) if ops[one].kind == "Add"]
            begin = max((one + 1 for one in sums), default=begin)
            marks[begin : scaled[0] + 2] = True
            begin = scaled[0] + 2
    return marks


def _reads_neighbours(op: Op) -> bool:
    """Whether a part of the result needs more of the inputs than the same part of each."""
    kernel = KERNELS[op.kind]
    return kernel.needs != PARALLEL or kernel.whole is not WholeAxes.NONE


def _mixes_channels(graph: Graph, op: Op) -> bool:
    """Whether channels of a picture go to other places within blocks of 32.

    Whole blocks are only named anew, or copied; what lies across their edges is taken apart, value
    by value, and cores that share the channels exchange it.
    """
    out = graph.output_tensor(op)
    last = len(out.shape) - 1
    if isinstance(op.attrs, TransposeAttrs):
        return last == 4 and op.attrs.permutation[-1] != last
    if last != 3:
        return False
    if isinstance(op.attrs, ConcatAttrs):
        sizes = [graph.tensors[name].shape[-1] for name in op.inputs[:-1]]
        return op.attrs.axis == last and any(size % D32 for size in sizes)
    if isinstance(op.attrs, SliceAttrs):
        start, size = op.attrs.starts[last], out.shape[last]
        return size != graph.first_input(op).shape[last] and bool((start or size) % D32)
    return False


def _host_bytes(tensors: list[Tensor]) -> int:
    return sum(t.elements * (4 if t.dtype.is_float else (t.dtype.bits + 7) // 8) for t in tensors)
