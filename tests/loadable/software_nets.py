"""A network that never uses the NPU: float layers, functions, norms, integers, moves."""

from __future__ import annotations

import numpy as np

from compiler.nets import MACHINES, Net, per_tensor
from npuscope.compiler.pipeline import compile_graph
from npuscope.graph.model import Attrs, DType, Graph
from npuscope.machine.model import Machine
from npuscope.machine.mpool import with_relative_pools
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.functions import GeluAttrs
from npuscope.ops.layers import MatMulAttrs
from npuscope.ops.moves import SliceAttrs, TileAttrs
from npuscope.ops.norms import LayerNormAttrs, SoftmaxAttrs
from npuscope.ops.reduce import PoolAttrs
from npuscope.program.model import EpochKind, Program
from npuscope.structs import replace

# Memories that both the emulated Cortex-M33 and QEMU's board with a Cortex-M55 have.
_SHIFT = 0x34000000 - 0x31000000


def all_software() -> Graph:
    """Float input; a float and an integer output."""
    net = Net(11)
    x = net.input((1, 9, 7, 5), None)
    x = _float(net, "MatMul", (x, x), MatMulAttrs(transpose_b=True), (1, 9, 7, 7))
    x = _float(net, "Gelu", (x,), GeluAttrs(), (1, 9, 7, 7))
    x = _float(net, "AveragePool", (x,), PoolAttrs((2, 2), (2, 2)), (1, 4, 3, 7))
    scale, bias = _values(net, (7,)), _values(net, (7,))
    x = _float(net, "LayerNorm", (x, scale, bias), LayerNormAttrs(3), (1, 4, 3, 7))
    cut = SliceAttrs((0, 1, 0, 0), (1, 2, 3, 7), (1, 1, 1, 1))
    part = _float(net, "Slice", (x,), cut, (1, 2, 3, 7))
    twice = _float(net, "Tile", (part,), TileAttrs((1, 2, 1, 1)), (1, 4, 3, 7))
    x = _float(net, "Add", (x, twice), BinaryAttrs(), (1, 4, 3, 7))
    x = _float(net, "Tanh", (x,), Attrs(), (1, 4, 3, 7))
    scores = _float(net, "Softmax", (x,), SoftmaxAttrs(3), (1, 4, 3, 7))
    whole = net.quantize(x, (0.03, 4))
    ratio = net.op("Div", (whole, whole), BinaryAttrs(), net.shape(x), per_tensor(0.1, 2))
    square = MatMulAttrs(transpose_b=True)
    product = net.op("MatMul", (ratio, whole), square, (1, 4, 3, 3), per_tensor(0.9, -3))
    return net.graph(scores, net.softmax(product))


def _values(net: Net, shape: tuple[int, ...]) -> str:
    return net.constant(net.random.normal(0, 0.4, shape).astype(np.float32))


def _float(
    net: Net, kind: str, inputs: tuple[str, ...], attrs: Attrs, shape: tuple[int, ...]
) -> str:
    return net.op(kind, inputs, attrs, shape, None, DType.FLOAT32)


def low_machine(generation: str = "4.0") -> Machine:
    """Relative external pools, and the internal ones where every test board has memory."""
    machine = with_relative_pools(MACHINES[generation])
    pools = tuple(
        pool if pool.relative else replace(pool, address=pool.address - _SHIFT)
        for pool in machine.pools
    )
    return machine.with_pools(pools)


def software_program(machine: Machine) -> Program:
    program = compile_graph(all_software(), machine)
    assert program.count(EpochKind.HW) == 0
    return program
