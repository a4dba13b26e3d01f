"""What edits work on: the file graph, and what each format answers in its own way.

A document is not a second Graph. It is the file itself (`files/file_graph.py`), nodes and tensors
as they stand there, with a dialect for what the two formats write differently:

* **Steps** belong to a tensor in TFLite and stand in QuantizeLinear and DequantizeLinear nodes
  around floats in ONNX (`steps_are_nodes`). A new value gets its steps in two calls: `new_tensor`
  (where TFLite writes them down) and `stepped` (where ONNX puts the two nodes).
* **Layers** have weights and bias in different places, with their axes in another order: `layer`
  reads a record, `set_layer` writes it.
* **Spelling**: sizes and bounds that are attributes in one format and inputs in the other.

What both formats do alike is a function of the theme that needs it, or of `places`, `steps` and
`views`. All checks come before the first change; NotFitting says why an edit cannot be made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from npuscope.edits.records import Constant, FileLayer, LayerPart, Op, QuantSteps, Tied, Value
from npuscope.files.file_graph import FileGraph
from npuscope.graph.model import Graph


class FileConstants(FileGraph, Protocol):
    """Constants, wherever a format writes down their scales."""

    def constant(self, tensor: Value) -> Constant | None:
        """With its scales; None where it is computed."""

    def store(self, constant: Constant) -> Value:
        """A constant as an input of an op."""

    def set_values(self, tensor: Value, values: np.ndarray) -> None:
        """Of a constant, which keeps its name."""


class FormatDialect(Protocol):
    """See `npuscope.edits.onnx` and `npuscope.edits.tflite`."""

    depthwise: tuple[str, ...]  # kinds that a depthwise convolution may have
    mixes_signs: bool  # kernels multiply int8 weights with uint8 data

    def words(self, kind: str) -> list[str]:
        """The file's own words for a kind; none where the format does not have it."""

    # steps

    def steps(self, tensor: Value) -> QuantSteps:
        """Those of the integers that a value stands for; NotFitting where it has not one scale."""

    def made_steps(self, op: Op) -> QuantSteps:
        """Of an op that quantizes."""

    def stepped(self, tensor: Value, steps: QuantSteps) -> Value:
        """A new value as its readers shall see it."""

    def bind(self, tensor: Value, steps: QuantSteps) -> None:
        """All readers of what a new op makes see it in these steps."""

    def tied(self, tensor: Value) -> Tied:
        """Its integers and what moves tie to them; NotFitting where they cannot change."""

    def set_steps(self, tensors: Sequence[Value], steps: QuantSteps) -> None:
        """Of tensors that are tied."""

    def quantize_constant(self, op: Op, place: int) -> None:
        """A float operand becomes int8."""

    def quantize_results(self, ops: Sequence[Op], results: Mapping[Any, QuantSteps]) -> None:
        """Float ops compute on integers."""

    def four_bits(self, constant: Constant) -> Constant:
        """The same with steps of 4 bits as the file holds them; NotFitting where it cannot."""

    # layers

    def layer(self, op: Op) -> FileLayer | None:
        """None where it is not a layer, or its weights or bias are computed or packed."""

    def set_layer(self, layer: FileLayer) -> None:
        """The op takes the constants and groups of this layer."""

    def bias_place(self, op: Op) -> int | None:
        """Of a layer: which input is the bias."""

    def split_layer(self, layer: FileLayer, parts: Sequence[Sequence[int]]) -> None:
        """Each part some of the output channels, quantized as the whole is; joined again."""

    def summand(self, layer: FileLayer, part: LayerPart, steps: QuantSteps, number: int) -> Value:
        """A part of a layer's sums, rounded to steps; only the first has the bias."""

    def shuffle_instead(
        self, op: Op, around: tuple[Op, Op], kernel: np.ndarray, scale: float
    ) -> Op:
        """A 1x1 convolution in place of three moves."""

    # spelling of ops

    def insert(
        self, kind: str, inputs: Sequence[Value], output: Value, fused: Op = None, **attributes: Any
    ) -> Op:
        """It makes `output` in the form that `fused` did; a ReduceMean is over height and width."""

    def insert_conv(
        self,
        tensor: Value,
        output: Value,
        kernels: np.ndarray,
        scale: float = 1.0,
        stem: str = "",
        **attributes: Any,
    ) -> Op:
        """Kernels (outputs, rows, columns, inputs of a group) of int8 steps, without a bias; `stem`
        names them where the output does not."""

    def bounds(self, stem: str, tensor: Value, axis: int, part: range) -> list[Value]:
        """The further inputs of a Slice."""

    def picks(self, op: Op, axis: int) -> tuple[Value, tuple[range, ...]] | None:
        """The source of a slice and what each output takes of this axis, if it is a range."""

    def set_picks(self, op: Op, axis: int, parts: Sequence[range]) -> None: ...

    def set_channels(self, op: Op, axis: int, count: int) -> None:
        """Of an op that states sizes."""

    def replace(self, old: Value, new: Value) -> Value:
        """As `rewire`; `new` takes the name where `old` is an output. Gives what stands now."""

    # inputs and outputs of the network

    def in_file(self, graph: Graph, name: str) -> Value | None:
        """What a tensor of the Graph stands for: integers where the file has them."""

    def send(self, op: Op, way: Sequence[Op], tensor: Value) -> None:
        """In place of the op's result, on the way of its conversions."""

    def send_parts(
        self, op: Op, way: Sequence[Op], parts: Sequence[Value], graph: Graph
    ) -> None: ...

    def take_integers(
        self, tensor: Value, readers: Sequence[Op], steps: QuantSteps, type: str
    ) -> None:
        """An input becomes what its readers make of it, or bytes of the other sign."""

    def give_integers(self, tensor: Value, maker: Op, integers: Value) -> None:
        """An output becomes what its conversion reads."""


class Document(FileConstants, FormatDialect, Protocol):
    """The file graph in its dialect."""
