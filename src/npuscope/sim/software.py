"""Runs a software kernel: the reference kernel of the same op, on buffers.

The call is made into a graph of one op, so there is one implementation of each kernel. Calls of
foreign programs that only move data hold their copies themselves.
"""

from __future__ import annotations

import numpy as np

from npuscope.errors import TargetError
from npuscope.graph.model import DType, Graph, Numerics, Op, Tensor
from npuscope.program.calls import attributes
from npuscope.program.copies import Copy, copies_of
from npuscope.program.model import Buffer, Call
from npuscope.program.units import Ref
from npuscope.sim.memory import Memory, element_type


def run_call(call: Call, memory: Memory) -> None:
    """Read the inputs, run the kernel, store the outputs."""
    copies = copies_of(call)
    if copies:
        for copy in copies:
            _copy(call, copy, memory)
        return
    from npuscope.ops.run import run

    graph = _one_op_graph(call, memory)
    results = run(graph, {name: memory.read(name) for name in graph.inputs})
    for name in call.outputs:
        memory.write(name, results[name])


def _copy(call: Call, copy: Copy, memory: Memory) -> None:
    kind = np.dtype(f"<u{copy.element_bytes}")
    read = memory.address(Ref(call.inputs[copy.source])) + copy.start_in
    write = memory.address(Ref(call.outputs[0])) + copy.start_out
    values = memory.window(read, copy.shape, copy.steps_in, kind).copy()
    memory.window(write, copy.shape, copy.steps_out, kind)[...] = values


def _one_op_graph(call: Call, memory: Memory) -> Graph:
    """Parameters become constants, which is what kernels expect of weights."""
    names = dict.fromkeys(name for name in (*call.inputs, *call.outputs) if name)
    tensors = [_tensor(memory.buffer(name), memory) for name in names]
    op = Op(call.kernel, call.kernel, call.inputs, call.outputs, attributes(call))
    inputs = [name for name in dict.fromkeys(call.inputs) if name]
    fed = [name for name in inputs if not memory.buffer(name).is_param]
    return Graph(call.kernel, tensors, [op], fed, call.outputs, _numerics(call))


def _numerics(call: Call) -> Numerics:
    return Numerics(str(dict(call.args).get("numerics", Numerics.LITERT.value)))


def _tensor(buffer: Buffer, memory: Memory) -> Tensor:
    data = memory.read(buffer.name) if buffer.is_param else None
    return Tensor(buffer.name, buffer.shape, _dtype(buffer), buffer.quant, data)


def _dtype(buffer: Buffer) -> DType:
    """The graph's name of a buffer's element type."""
    name = element_type(buffer).name
    try:
        return DType(name)
    except ValueError:
        raise TargetError(f"buffer '{buffer.name}' has type {name}: no kernel reads it") from None
