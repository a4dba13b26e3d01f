"""The C kernels built for this machine, called on the bytes of a packed call."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from firmware.kernel_memory import Arena, pack_call
from npuscope.compiler.lower.software import arguments
from npuscope.graph.model import Attrs, Graph, Numerics, Op, Tensor
from npuscope.ops.run import run
from npuscope.ops.table import OPS
from npuscope.ops.traits import Trait
from npuscope.program.kernel_calls.build import kernel_call
from npuscope.program.kernel_calls.model import KernelCall
from npuscope.program.model import Buffer, Call
from processes import LIMIT_S

# Functions of one real value; the others that a table can stand for have kernels of their own.
REAL = tuple(
    row.kind
    for row in OPS.values()
    if row.has(Trait.FUNCTION) and row.kind not in ("Clip", "Quantize", "Dequantize")
)
KERNELS = Path(__file__).parents[2] / "firmware" / "kernels"
_ROOM = 1 << 16


@functools.cache
def library() -> ctypes.CDLL:
    """All of firmware/kernels as one shared library; the flags that fix the arithmetic."""
    pytest.importorskip("ziglang", reason="ziglang is not installed: no C compiler")
    folder = Path(tempfile.mkdtemp(prefix="npuscope-kernels-"))
    flags = ["-std=c11", "-O2", "-ffp-contract=off", "-fno-sanitize=all", "-fPIC", "-shared"]
    flags += ["-Wall", "-Wextra", "-Werror", "-ffreestanding"]
    sources = [str(path) for path in sorted(KERNELS.glob("*.c"))]
    target = folder / "kernels.so"
    command = [sys.executable, "-m", "ziglang", "cc", *flags, *sources, "-o", str(target)]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert made.returncode == 0, made.stderr
    return ctypes.CDLL(str(target))


def run_on_host(call: KernelCall, buffers: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run one kernel; its outputs."""
    size = sum(values.nbytes for values in buffers.values())
    size += sum(o.values.nbytes for o in call.inputs if o.values is not None)
    size += sum(8 * int(np.prod(o.shape, dtype=np.int64)) for o in call.outputs)
    memory = ctypes.create_string_buffer(size + _ROOM + 64 * len(call.numbers))
    arena = Arena(-(-ctypes.addressof(memory) // 64) * 64, 8)
    packed = pack_call(call, buffers, arena)
    assert len(arena.data) < len(memory) - 64
    ctypes.memmove(arena.base, bytes(arena.data), len(arena.data))
    getattr(library(), call.function)(ctypes.c_void_p(packed.address))
    return [
        np.frombuffer(ctypes.string_at(place, int(np.prod(shape)) * dtype.itemsize), dtype)
        .reshape(shape)
        .copy()
        for place, shape, dtype in packed.outputs
    ]


def buffer_of(tensor: Tensor) -> Buffer:
    """A tensor as a placed buffer would describe it."""
    dtype = tensor.dtype.numpy
    size = int(np.prod(tensor.shape, dtype=np.int64)) * dtype.itemsize
    return Buffer(
        tensor.name,
        size,
        tensor.shape,
        dtype.itemsize * 8,
        tensor.shape[-1] if tensor.shape else 1,
        is_param=tensor.data is not None,
        is_float=dtype.kind == "f",
        signed=dtype.kind != "u",
        quant=tensor.quant,
    )


def one_op(
    kind: str,
    tensors: list[Tensor],
    outputs: list[Tensor],
    attrs: Attrs,
    numerics: Numerics = Numerics.LITERT,
) -> Graph:
    """A graph of one op; tensors with data are its constants."""
    names, made = tuple(t.name for t in tensors), tuple(t.name for t in outputs)
    fed = tuple(t.name for t in tensors if t.data is None)
    op = Op(kind, kind, names, made, attrs)
    return Graph(kind, [*tensors, *outputs], [op], fed, made, numerics)


def c_call(graph: Graph) -> KernelCall:
    """The C call of a graph of one op."""
    op = graph.ops[0]
    call = Call(op.kind, op.inputs, op.outputs, arguments(graph.numerics, op.attrs))
    buffers = {name: buffer_of(graph.tensors[name]) for name in graph.tensors}
    return kernel_call(call, buffers)


def check(graph: Graph, feeds: dict[str, np.ndarray]) -> None:
    """C and numpy give the same bits."""
    expected = run(graph, feeds)
    constants = {n: np.asarray(t.data) for n, t in graph.tensors.items() if t.data is not None}
    found = run_on_host(c_call(graph), {**constants, **feeds})
    for name, values in zip(graph.outputs, found, strict=True):
        assert_same_bits(values, expected[name])


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape and found.dtype == expected.dtype
    raw = f"u{expected.dtype.itemsize}"
    same = found.view(raw) == np.ascontiguousarray(expected).view(raw)
    if expected.dtype.kind == "f":  # any NaN is as good as another
        same |= np.isnan(found) & np.isnan(expected)
    if not same.all():
        place = tuple(int(i) for i in np.argwhere(~same)[0])
        raise AssertionError(
            f"{(~same).sum()} of {same.size} differ, first at {place}: "
            f"{found[place]!r} in C, {expected[place]!r} in numpy"
        )
