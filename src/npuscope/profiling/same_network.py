"""Whether a build can have been made from a network, by what both state at their border."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from npuscope.errors import ModelError
from npuscope.graph.model import Graph, Quant
from npuscope.program.model import Buffer, Program
from npuscope.text import safe_terminal

_SAME_SCALE = 1e-4  # files print scales with few digits


def refuse_other_network(program: Program, graph: Graph) -> None:
    """Inputs and outputs of another number or size prove that it is another network, and so does
    an input of another scale or zero point. Compilers choose the scale of an output themselves."""
    elements = _elements(program)
    pair = (
        f"build '{safe_terminal(program.model_file or program.name)}' was not made from network "
        f"'{safe_terminal(graph.name)}'"
    )
    hint = "give the model file that this build was compiled from"
    for border, names, tensors in (
        ("input", program.inputs, graph.inputs),
        ("output", program.outputs, graph.outputs),
    ):
        build_sizes = [elements[name] for name in names]
        network_sizes = [graph.tensor(name).elements for name in tensors]
        if Counter(build_sizes) != Counter(network_sizes):
            raise ModelError(
                f"{pair}: it has {_sizes(border, build_sizes)}, "
                f"the network {_sizes(border, network_sizes)}",
                where="--model",
                hint=hint,
            )
    buffers = program.buffer_map()
    for tensor in map(graph.tensor, graph.inputs):
        same_size = [buffers[n] for n in program.inputs if elements[n] == tensor.elements]
        if tensor.quant and all(_contradicts(buffer, tensor.quant) for buffer in same_size):
            quant = same_size[0].quant
            raise ModelError(
                f"{pair}: its input has {_quantization(quant)}, the network's input "
                f"'{safe_terminal(tensor.name)}' {_quantization(tensor.quant)}",
                where="--model",
                hint=hint,
            )


def input_pairs(program: Program, graph: Graph) -> dict[str, str]:
    """Each input of a build, and the network's input that it takes, of networks not refused.

    Compilers may list inputs in another order: of those that size and scale allow it is the one in
    the same place, or else the first that is left.
    """
    elements, buffers = _elements(program), program.buffer_map()
    free, pairs = list(program.inputs), {}
    for place, tensor in zip(program.inputs, map(graph.tensor, graph.inputs), strict=True):
        same_size = [name for name in free if elements[name] == tensor.elements]
        quant = tensor.quant
        agreeing = [n for n in same_size if quant is None or not _contradicts(buffers[n], quant)]
        options = agreeing or same_size
        there = place if place in options else options[0]
        free.remove(there)
        pairs[there] = tensor.name
    return pairs


def _elements(program: Program) -> dict[str, int]:
    return {b.name: b.size_bytes * 8 // max(1, b.nbits) for b in program.buffers}


def _contradicts(buffer: Buffer, quant: Quant) -> bool:
    """An input may have been converted to floats, or from signed bytes to unsigned ones."""
    if buffer.is_float or buffer.quant is None or buffer.quant.per_channel or quant.per_channel:
        return False
    apart = abs(buffer.quant.zero_point - quant.zero_point)
    return abs(buffer.quant.scale - quant.scale) > _SAME_SCALE * quant.scale or apart % 128 != 0


def _quantization(quant: Quant | None) -> str:
    return f"scale {quant.scale:.6g} and zero point {quant.zero_point}" if quant else "none"


def _sizes(border: str, elements: Iterable[int]) -> str:
    counts = [f"{count:,}" for count in elements]
    return f"{border}s of {' and '.join(counts) or 'no'} elements"
