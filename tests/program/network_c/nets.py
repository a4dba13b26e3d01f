"""Networks whose calls reach every part of the writer, and a compiler to check the C with."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from compiler.nets import MACHINES, Net, per_tensor
from npuscope.compiler.pipeline import CompileOptions, compile_graph
from npuscope.graph.model import Attrs, DType, Graph
from npuscope.machine.model import Machine
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.images import BlockAttrs, Coordinates, ResizeAttrs, ResizeMode
from npuscope.ops.layers import DenseAttrs
from npuscope.ops.moves import SliceAttrs, TileAttrs
from npuscope.program.model import Program
from npuscope.program.network_c.layout import dialect
from npuscope.structs import replace
from processes import LIMIT_S

HEADERS = Path(__file__).parents[3] / "firmware" / "include"
HOSTILE = '"; */ #error x\n#error y ??/\n\\ \u202e ü /* // \r\x00 *//**/ ${x} <b> \\n'


def moves() -> Graph:
    """Resize, depth to space, transpose."""
    net = Net(3)
    x = net.conv(net.input((1, 8, 8, 8)), 8)
    attrs = ResizeAttrs((16, 16), (2.0, 2.0), ResizeMode.LINEAR, Coordinates.HALF_PIXEL)
    x = net.op("Resize", (x,), attrs, (1, 16, 16, 8), net.quant(x))
    x = net.op("DepthToSpace", (x,), BlockAttrs(2), (1, 32, 32, 2), net.quant(x))
    return net.graph(net.transpose(x, (0, 2, 1, 3)))


def kernels() -> Graph:
    """Float input, a slice, integer and float kernels, one kernel that no library has."""
    net = Net(4)
    x = net.conv(net.quantize(net.input((1, 8, 8, 8), None), (0.05, 3)), 16)
    cut = SliceAttrs((0, 0, 0, 2), (1, 4, 8, 5), (1, 2, 1, 1))
    part = net.op("Slice", (x,), cut, (1, 4, 8, 5), net.quant(x))
    ratio = net.op("Div", (x, x), BinaryAttrs(), net.shape(x), per_tensor(0.1, 2))
    power = net.op("Exp", (ratio,), Attrs(), net.shape(x), per_tensor(0.1, 2))
    twice = net.op("Tile", (part,), TileAttrs((1, 1, 1, 2)), (1, 4, 8, 10), net.quant(part))
    scores = net.softmax(net.reshape(x, (1, 1024)))
    return net.graph(part, net.dequantize(power), scores, twice)


def layers() -> Graph:
    """Concat, wide pools, a float PReLU and a float dense layer."""
    net = Net(5)
    x = net.input((1, 8, 8, 8))
    y = net.conv(x, 8)
    joined = net.concat((y, net.conv(x, 5)), (0.3, 4))
    pooled = net.average_pool(y, (7, 7), (1, 1))
    slope = net.constant(np.full((1, 1, 8), 0.3, np.float32))
    bent = net.op("PRelu", (y, slope), Attrs(), net.shape(y), per_tensor(0.2, 0))
    weights = net.constant(np.ones((4, 8), np.float32))
    bias = net.constant(np.ones(4, np.float32))
    real = net.dequantize(net.mean(y))
    dense = net.op(
        "FullyConnected", (real, weights, bias), DenseAttrs(), (1, 4), None, DType.FLOAT32
    )
    return net.graph(joined, pooled, bent, dense)


def build(
    graph: Graph, generation: str = "4.0", controller: bool = False
) -> tuple[Program, Machine]:
    machine = replace(MACHINES[generation], epoch_controller=controller)
    return compile_graph(graph, machine, CompileOptions(3)), machine


def renamed(graph: Graph, suffix: str) -> Graph:
    """The same network with `suffix` behind every name."""
    tensors = [replace(t, name=t.name + suffix) for t in graph.tensors.values()]
    ops = [
        replace(
            op,
            name=op.name + suffix,
            inputs=tuple(name + suffix for name in op.inputs),
            outputs=tuple(name + suffix for name in op.outputs),
            origin=tuple(name + suffix for name in op.origin),
        )
        for op in graph.ops
    ]
    ends = [tuple(name + suffix for name in names) for names in (graph.inputs, graph.outputs)]
    return Graph(graph.name + suffix, tensors, ops, *ends, graph.numerics)


def compile_c(folder: Path, text: str, generation: str, name: str = "network") -> str:
    """Compile for the Cortex-M55; the messages, empty when all is well."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed: no C compiler for the Cortex-M55")
    (folder / f"{name}.c").write_text(text, encoding="utf-8")
    blobs = sorted(set(re.findall(r"\b_ec_blob_\w+", text)))
    arrays = [f"static const uint64_t {blob}[] = {{ 0 }};" for blob in blobs]
    (folder / f"{name}_ecblobs.h").write_text("\n".join(["#include <stdint.h>", *arrays, ""]))
    runtime = dialect(generation).number
    flags = ["-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m55", "-ffreestanding"]
    flags += ["-c", "-std=c11", "-Wall", "-Wextra", "-Werror", "-DLL_ATON_EB_DBG_INFO"]
    flags += [
        f"-DNPUSCOPE_DIALECT={runtime}",
        f"-I{HEADERS}",
        f"-I{HEADERS.parent / 'kernels'}",
        f"-I{folder}",
    ]
    command = [sys.executable, "-m", "ziglang", "cc", *flags, f"{name}.c", "-o", f"{name}.o"]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
    ).stderr
