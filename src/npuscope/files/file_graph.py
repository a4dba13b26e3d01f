"""A model file as a graph that can be changed and written again: what both formats have.

Everything that reads or changes a file as it is stored (edits, quantizing, lints, viewers) stands
on these primitives; `files/onnx/file_graph.py` and `files/tflite/file_graph.py` are the codecs.

* **Tensors and nodes** are handles: a tensor's name and a node in ONNX, a tensor and an operator in
  TFLite. Whoever holds one hands it back to ask about it.
* **Kinds** have one name in both formats, mostly ONNX's (`kind`); messages say what the file says
  (`word`). QLinear ops keep kinds of their own, for they compute on other values.
* **Attributes** have ONNX's names where both formats have them, else those of the format's schema
  in small letters (`padding`, `keep_dims`).
* **Quantization** is a part of a tensor in TFLite. In ONNX it stands in nodes around a tensor of
  floats: `quant` is None there, and `edits/onnx/steps.py` reads the nodes.

What no primitive touches is written as it was read, byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Protocol, Self

import numpy as np

from npuscope.files.tflite.spelling import KINDS
from npuscope.graph.model import Graph, Quant
from npuscope.ops.row import Row
from npuscope.ops.table import OPS
from npuscope.ops.traits import Trait

FileTensorId = Any  # a tensor: its name in ONNX, the tensor itself in TFLite
FileNode = Any  # a node, an operator


# The row of each kind that a file graph can name.
KIND_ROWS: dict[str, Row] = {
    kind: row
    for row in OPS.values()
    for kind in (*row.onnx, *(KINDS.get(word, word) for word in row.tflite))
}


@cache
def kinds_having(*traits: Trait) -> frozenset[str]:
    """Kinds with any of these traits, as file graphs name them."""
    return frozenset(kind for kind, row in KIND_ROWS.items() if not row.traits.isdisjoint(traits))


class FileGraph(Protocol):
    """Thirty primitives, and what is true of the whole file."""

    format: str
    channels_first: bool  # how images lie
    steps_are_nodes: bool  # quantization stands in nodes; the ops between them compute on floats
    network_inputs: list[FileTensorId]

    @property
    def network_outputs(self) -> list[FileTensorId]: ...
    @property
    def nodes(self) -> list[FileNode]: ...
    @property
    def opset(self) -> int | None:
        """None where every node has a version of its own."""

    @property
    def has_open_sizes(self) -> bool:
        """Sizes of inputs that are only known when the network runs."""

    # nodes

    def op(self, origin: str) -> FileNode | None:
        """By the name that findings use, as long as it was not removed."""

    def kind(self, op: FileNode) -> str: ...
    def word(self, op: FileNode) -> str:
        """Its kind as the file spells it."""

    def title(self, op: FileNode) -> str:
        """As messages name it."""

    def inputs(self, op: FileNode) -> list[FileTensorId]:
        """As the file lists them; absent ones are None."""

    def outputs(self, op: FileNode) -> list[FileTensorId]: ...
    def attribute(self, op: FileNode, name: str, default: Any = None) -> Any: ...
    def alike(self, one: FileNode, other: FileNode) -> bool:
        """Kinds, attributes and forms of results are the same."""

    def producer(self, tensor: FileTensorId) -> FileNode | None: ...
    def readers(self, tensor: FileTensorId) -> list[FileNode]: ...

    # tensors

    def name(self, tensor: FileTensorId | None) -> str: ...
    def shape(self, tensor: FileTensorId) -> tuple[int, ...] | None:
        """Open sizes are 1; None where it is not known."""

    def type(self, tensor: FileTensorId) -> str:
        """In NumPy's words; empty where it is not known."""

    def quant(self, tensor: FileTensorId) -> Quant | None: ...
    def values(self, tensor: FileTensorId) -> np.ndarray | None:
        """Of a constant, as they are stored."""

    def state(
        self,
        tensor: FileTensorId,
        shape: Sequence[int] | None = None,
        type: str = "",
        quant: Quant | None = None,
    ) -> None:
        """Another shape or type, where the file states it. ONNX states shapes of no computed
        tensor, and types of inputs and outputs alone."""

    # new ones

    def new_tensor(self, stem: str, shape: Sequence[int], like: Any) -> FileTensorId:
        """For a node to make, of the type and quantization of `like`: a tensor, or steps. ONNX
        needs neither."""

    def add_constant(
        self, stem: str, values: np.ndarray, quant: Quant | None = None
    ) -> FileTensorId: ...

    def add_op(
        self,
        kind: str,
        inputs: Iterable[FileTensorId],
        output: FileTensorId | Iterable[FileTensorId],
        **attributes: Any,
    ) -> FileNode:
        """Writing finds its place."""

    def again(
        self, op: FileNode, inputs: Iterable[FileTensorId], output: FileTensorId, **changes: Any
    ) -> FileNode:
        """The same op once more, on other tensors and with some attributes changed."""

    # changes

    def set_attribute(self, op: FileNode, name: str, value: Any) -> None:
        """None leaves it out."""

    def set_input(self, op: FileNode, place: int, tensor: FileTensorId | None) -> None: ...
    def set_output(self, op: FileNode, old: FileTensorId, new: FileTensorId) -> None:
        """The node makes `new` where it made `old`."""

    def remove(self, op: FileNode) -> None: ...

    def rewire(
        self, old: FileTensorId, new: FileTensorId, readers: Iterable[FileNode] | None = None
    ) -> None:
        """Readers of `old` read `new`: all but the maker of `new`, unless they are named. An
        output of the network moves with all readers."""

    def drop_dead(self) -> None:
        """Nodes and constants that a change left behind, where a format drops them by itself."""

    # the network and the file

    def set_network_outputs(self, tensors: Sequence[FileTensorId], network: Graph) -> None:
        """Exactly these; `network` knows types and shapes that the file does not state."""

    def close_batch(self) -> bool:
        """A dynamic batch size becomes 1. False: no batch size was dynamic."""

    def to_bytes(self) -> bytes:
        """A file that nobody changed is the original, byte by byte."""

    def copy(self) -> Self: ...
