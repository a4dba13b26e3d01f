"""Whether a build can have been made from a network, by what both state at their border."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from npuscope.errors import ModelError
from npuscope.graph.model import Graph
from npuscope.program.model import Program
from npuscope.text import safe_terminal


def refuse_other_network(program: Program, graph: Graph) -> None:
    """Inputs and outputs of another number or size prove that it is another network."""
    elements = {
        buffer.name: buffer.size_bytes * 8 // max(1, buffer.nbits) for buffer in program.buffers
    }
    for border, names, tensors in (
        ("input", program.inputs, graph.inputs),
        ("output", program.outputs, graph.outputs),
    ):
        built = [elements[name] for name in names]
        wanted = [graph.tensor(name).elements for name in tensors]
        if Counter(built) != Counter(wanted):
            raise ModelError(
                f"build '{safe_terminal(program.model_file or program.name)}' was not made from "
                f"network '{safe_terminal(graph.name)}': it has {_sizes(border, built)}, "
                f"the network {_sizes(border, wanted)}",
                where="--model",
                hint="give the model file that this build was compiled from",
            )


def _sizes(border: str, elements: Iterable[int]) -> str:
    counts = [f"{count:,}" for count in elements]
    return f"{border}s of {' and '.join(counts) or 'no'} elements"
