"""Pad: where the values go, and what surrounds them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.model import Graph, Op
from npuscope.ops.kernels.step import Array
from npuscope.ops.moves import PadAttrs
from npuscope.program.kernel_calls.model import NoKernel
from npuscope.program.kernel_calls.moves_blocks import Axis, Block, dense_steps
from npuscope.program.kernel_calls.tables import tensor_of
from npuscope.program.kernel_calls.work import Work


def padded_block(work: Work) -> Block:
    """Negative pads cut."""
    source, target = work.inputs[0], work.outputs[0]
    axes, first_read, first_written = [], 0, 0
    steps = zip(dense_steps(source.shape), dense_steps(target.shape), strict=True)
    for size, (before, after), (read, written) in zip(
        source.shape, work.attrs_as(PadAttrs).pads, steps, strict=True
    ):
        axes.append(Axis(size + min(before, 0) + min(after, 0), read, written))
        first_read += max(-before, 0) * read
        first_written += max(before, 0) * written
    return Block(first_read, first_written, tuple(axes))


def fill_value(work: Work) -> Array:
    """The reference kernel's own: it pads a tensor of one value, the first of two is the fill."""
    if any(o.quant is not None and o.quant.per_channel for o in (*work.inputs, *work.outputs)):
        raise NoKernel("Pad of a tensor with one scale a channel has no kernel")
    from npuscope.ops.run import run

    line = [
        tensor_of("x", replace(work.inputs[0], shape=(1,))),
        tensor_of("y", replace(work.outputs[0], shape=(2,))),
    ]
    attrs = replace(work.attrs_as(PadAttrs), pads=((1, 0),))
    graph = Graph("Pad", line, [Op("Pad", "Pad", ("x",), ("y",), attrs)], "x", "y", work.numerics)
    zero = np.zeros(1, line[0].dtype.numpy)
    try:
        return run(graph, {"x": zero})["y"][:1]
    except ModelError as error:
        raise NoKernel(f"Pad: {error.message}") from error
