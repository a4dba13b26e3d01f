"""The neutral document: what edits may ask of the user's own file, and do to it.

A document is not a second Graph. It is the file itself, nodes and tensors as they stand there,
behind a set of primitives that both formats have. What no primitive touches stays as it was.

* **Values and ops** are handles: a tensor's name and a node in ONNX, a tensor and an operator in
  TFLite. Edits hand them back and never look inside.
* **Kinds** have one name in both formats, mostly ONNX's (`kind`); messages say what the file says
  (`word`). QLinear ops keep kinds of their own, for they compute on other values.
* **Quantization** hangs on a tensor in TFLite and stands in QuantizeLinear and DequantizeLinear
  nodes around floats in ONNX. `steps` reads it from either. A new value gets its steps in two
  calls: `new` (where TFLite writes them down) and `stepped` (where ONNX puts the two nodes).
* **Layers** hide where weights and bias stand and how their axes lie: `layer` reads a record,
  `set_layer` writes it.
* **Images** are described channel-last; `axis_of_channels` says where a file has them.
All checks come before the first change; NotFitting says why an edit cannot be made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from npuscope.edits import records
from npuscope.edits.records import Constant, ImageShape, Layer, NotFitting, Op, Pads, Value
from npuscope.edits.request import EditRequest
from npuscope.graph.model import Graph
from npuscope.ops.layers import ConvAttrs


class Document(Protocol):
    """What a format implements; see `npuscope.edits.onnx` and `npuscope.edits.tflite`."""

    format: str
    channels_first: bool
    depthwise: tuple[str, ...]  # kinds that a depthwise convolution may have
    mixes_signs: bool  # kernels multiply int8 weights with uint8 data
    binds_clamps: bool  # an op of floats and the clamps behind it share one quantization

    def op(self, origin: str) -> Op | None:
        """By the name that findings use, as long as it was not removed."""

    def kind(self, op: Op) -> str: ...

    def word(self, op: Op) -> str:
        """Its kind as the file spells it."""

    def spelled(self, kinds: Iterable[str]) -> list[str]:
        """Without those that the format does not have."""

    def title(self, op: Op) -> str:
        """An op as messages name it."""

    def all_ops(self) -> list[Op]: ...

    def inputs(self, op: Op) -> list[Value]:
        """As the file lists them; absent ones are None."""

    def outputs(self, op: Op) -> list[Value]: ...
    def producer(self, tensor: Value) -> Op | None: ...
    def readers(self, tensor: Value) -> list[Op]: ...
    def is_output(self, tensor: Value) -> bool: ...
    def name(self, tensor: Value) -> str: ...
    def shape(self, tensor: Value) -> tuple[int, ...] | None: ...

    def held(self, tensor: Value) -> np.ndarray | None:
        """The numbers of a constant tensor, as they are."""

    def constant(self, tensor: Value) -> Constant | None:
        """With its scales; None where it is computed."""

    def same_constant(self, one: Value, other: Value) -> bool: ...

    # numbers of ops

    def attribute(self, op: Op, name: str, default: Any = None) -> Any:
        """By ONNX's name where both formats have it."""

    def same_attributes(self, one: Op, other: Op) -> bool:
        """Kinds, options and formats of results are the same."""

    def order_of(self, op: Op) -> tuple[int, ...]:
        """The axes of a Transpose."""

    def axes_of(self, op: Op) -> list[int] | None: ...
    def strides(self, op: Op) -> tuple[int, ...]: ...

    def picks(self, op: Op, axis: int) -> tuple[Value, tuple[range, ...]] | None:
        """The source of a slice and what each output takes of this axis, if it is a range."""

    def splits_evenly(self, op: Op) -> bool: ...

    def pads_beside(self, op: Op, axis: int) -> bool:
        """A Pad of other axes only."""

    def has_one_scale(self, op: Op) -> bool: ...
    def has_fused(self, op: Op) -> bool:
        """An activation within the op."""

    def is_pointwise(self, op: Op) -> bool:
        """A 1x1 convolution."""

    def changes_steps(self, op: Op) -> bool:
        """A move that quantizes anew."""

    def has_open_sizes(self) -> bool: ...

    def check_version(self, kind: str) -> None:
        """The file can hold a new op of this kind."""

    def check_constant_pad(self, op: Op) -> None: ...

    def reshapes_around(self, op: Op) -> tuple[Op, Op] | None:
        """In front and behind, with no other reader between."""

    # layers

    def layer(self, op: Op) -> Layer | None:
        """None where it is not a layer, or its weights or bias are computed or packed."""

    def set_layer(self, layer: Layer) -> None:
        """The op takes the constants and groups of this layer."""

    def layer_bias(self, op: Op) -> Constant | None: ...
    def set_bias(self, op: Op, bias: Constant) -> None: ...

    def layer_part(self, layer: Layer, channels: Sequence[int]) -> Value:
        """Some output channels, quantized as the whole is."""

    def join_parts(self, layer: Layer, parts: Sequence[Value]) -> None:
        """In place of the layer."""

    def columns_of(
        self, layer: Layer, weights: Constant, pads: Pads, steps: records.QuantSteps, number: int
    ) -> Value:
        """The convolution with other columns; only the first of them has the bias."""

    def set_strides(self, op: Op, strides: Sequence[int]) -> None: ...

    def without_stride(self, op: Op, attrs: ConvAttrs, values: Sequence[Value]) -> None:
        """All places; `values` are what it makes and what is made of that."""

    # steps

    def steps(self, tensor: Value) -> records.QuantSteps:
        """Those of the integers that a value stands for; NotFitting where it has not one scale."""

    def moved_steps(self, tensor: Value) -> records.QuantSteps:
        """The same, also where ops that only move values stand between."""

    def steps_behind(self, tensor: Value) -> records.QuantSteps | None:
        """What the first op that quantizes a value makes of it."""

    def result_steps(self, tensor: Value) -> records.QuantSteps:
        """Those in which a result is kept."""

    def made_steps(self, op: Op) -> records.QuantSteps:
        """Of an op that quantizes."""

    def stepped(self, tensor: Value, steps: records.QuantSteps) -> Value:
        """A new value as its readers shall see it."""

    def bind(self, tensor: Value, steps: records.QuantSteps) -> None:
        """All readers of what a new op makes see it in these steps."""

    def users(self, tensor: Value) -> list[Op]:
        """Readers; where the only one is a node that stands for steps, those behind it."""

    def plain(self, tensor: Value) -> Value:
        """The value in front of nodes that stand for steps."""

    def step_nodes(self, tensor: Value) -> list[Op]:
        """Readers that stand for steps."""

    def tied(self, tensor: Value) -> list[Value]:
        """Its integers and what moves tie to them; NotFitting where they cannot change."""

    def tied_steps(self, group: Sequence[Value]) -> records.QuantSteps: ...
    def tied_layers(self, group: Sequence[Value]) -> list[Op]: ...
    def set_steps(self, group: Sequence[Value], steps: records.QuantSteps) -> None: ...

    def unsigned(self) -> list[Value]:
        """All uint8 tensors; NotFitting where one of them must stay."""

    def make_signed(self, group: Sequence[Value]) -> None: ...

    def shuffled_steps(self, op: Op, around: tuple[Op, Op]) -> records.QuantSteps:
        """One quantization from the first Reshape to the last."""

    # float ops made integer

    def float_ops(self, ops: Sequence[Op]) -> list[Op]:
        """In the order of the file."""

    def can_be_integer(self, op: Op, kinds: Sequence[str]) -> bool: ...

    def check_slopes(self, op: Op) -> None:
        """Of a PReLU: they can be quantized."""

    def kernel_fixes_steps(self, op: Op) -> bool:
        """The format's kernel leaves no choice."""

    def float_steps(self, tensor: Value) -> records.QuantSteps | None:
        """Of a float operand that comes from integers."""

    def is_stepped(self, tensor: Value) -> bool:
        """All readers take it as integers."""

    def quantize_constant(self, op: Op, place: int) -> None: ...
    def quantize_results(
        self, ops: Sequence[Op], results: Mapping[Any, records.QuantSteps]
    ) -> None: ...

    # new ops

    def new(self, stem: str, shape: Sequence[int], steps: records.QuantSteps) -> Value:
        """For an op to make. TFLite writes shape and steps down, ONNX needs neither."""

    def new_like(self, stem: str, shape: Sequence[int], like: Value) -> Value: ...

    def row_shape(self, count: int) -> tuple[int, ...]:
        """Of a row of so many channels."""

    def int8_constant(self, stem: str, steps: np.ndarray, scale: float = 1.0) -> Value: ...

    def store(self, constant: Constant) -> Value:
        """A constant as an input of an op."""

    def bounds(self, stem: str, tensor: Value, axis: int, part: range) -> list[Value]:
        """The further inputs of a Slice."""

    def insert(
        self, kind: str, inputs: Sequence[Value], output: Value, fused: Op = None, **attributes: Any
    ) -> Op:
        """It makes `output` in the form that `fused` did; a ReduceMean is over height and width.
        Writing finds its place."""

    def redirect(self, op: Op, inputs: Sequence[Value], output: Value) -> None:
        """The op works on other inputs and makes another value."""

    def insert_conv(
        self,
        tensor: Value,
        output: Value,
        kernels: np.ndarray,
        steps: records.QuantSteps,
        scale: float = 1.0,
        **attributes: Any,
    ) -> None:
        """Kernels (outputs, rows, columns, inputs of a group) of int8 steps, without a bias."""

    def conv_instead(
        self, op: Op, kernels: np.ndarray, strides: Sequence[int], pads: Pads, groups: int
    ) -> None:
        """In place of an op that moves values; the integers stay what they are."""

    def shuffle_instead(
        self, op: Op, around: tuple[Op, Op], kernel: np.ndarray, scale: float
    ) -> Op:
        """A 1x1 convolution in place of three moves."""

    def set_plain_nearest(self, op: Op) -> None: ...

    # channel-last views of images

    def pixels(self, tensor: Value) -> Value:
        """An image with the channels last."""

    def from_pixels(self, tensor: Value) -> Value: ...
    def viewed(self, tensor: Value, sizes: Sequence[int]) -> Value:
        """All sizes but the number of images."""

    def view_as(self, tensor: Value, sizes: Sequence[int], result: Value) -> None:
        """An image that is there already."""

    def joined(self, parts: Sequence[Value]) -> Value:
        """Along the last axis."""

    def edge(self, tensor: Value, part: range) -> Value:
        """Of the last axis."""

    def edge_padded(self, tensor: Value, ends: tuple[int, int]) -> Value:
        """Rows and columns at the edges once more."""

    # changing what is there

    def remove(self, op: Op) -> None: ...

    def drop_unread(self, op: Op) -> None:
        """If nobody needs its results; ONNX does so when it is written."""

    def rewire(self, old: Value, new: Value, readers: Iterable[Op] | None = None) -> None:
        """Readers of `old` read `new`; all but the maker of `new`, unless they are named."""

    def replace(self, old: Value, new: Value) -> Value:
        """As `rewire`; `new` takes the name where `old` is an output. Gives what stands now."""

    def bypass(self, first: Op, last: Op, source: Value, chain: Sequence[Op]) -> None:
        """What stands between two moves works on what the first one reads; the moves go."""

    def set_input(self, op: Op, place: int, tensor: Value) -> None: ...

    def set_shape(self, tensor: Value, shape: Sequence[int]) -> None:
        """Where the file states the shapes of computed tensors."""

    def set_channels(self, op: Op, axis: int, count: int) -> None:
        """Of an op that states sizes."""

    def set_picks(self, op: Op, axis: int, parts: Sequence[range]) -> None: ...

    def cut_behind(
        self, maker: Op, tensor: Value, inside: Sequence[Op], axis: int, part: range
    ) -> None:
        """The maker and the readers `inside` get a wider tensor; the old one is a part of it."""

    def widened(self, tensor: Value, axis: int, new: int, reader: Op) -> Value:
        """The tensor joined with its first channels."""

    # inputs and outputs of the network

    def network_inputs(self) -> list[Value]: ...
    def network_outputs(self) -> list[Value]: ...
    def drop_dead(self) -> None: ...
    def drop_inputs(self, tensors: Sequence[Value]) -> None: ...

    def close_batch(self) -> bool:
        """False where no batch size is dynamic."""

    def in_file(self, graph: Graph, name: str) -> Value | None:
        """What a tensor of the Graph stands for: integers where the file has them."""

    def set_outputs(self, tensors: Sequence[Value], graph: Graph) -> None: ...
    def as_sent(self, tensor: Value, way: Sequence[Op]) -> Value:
        """The form in which a value goes out on this way."""

    def send(self, op: Op, way: Sequence[Op], tensor: Value) -> None:
        """In place of the op's result."""

    def joined_parts(self, op: Op) -> list[Value]: ...

    def send_parts(
        self, op: Op, way: Sequence[Op], parts: Sequence[Value], graph: Graph
    ) -> None: ...

    def convertible(self, tensors: Sequence[Value]) -> list[Value]:
        """Those of a type that may be converted inside."""

    def take_integers(
        self, tensor: Value, readers: Sequence[Op], steps: records.QuantSteps
    ) -> None: ...

    def take_shifted(self, tensor: Value, steps: records.QuantSteps, wanted: str) -> None:
        """Bytes of the other sign."""

    def converted(self, op: Op) -> Value | None:
        """The integers that a conversion reads."""

    def give_integers(self, tensor: Value, maker: Op, integers: Value) -> None: ...

    # the file

    def to_bytes(self) -> bytes: ...
    def copy(self) -> Document: ...

    # the same in both formats

    def found(self, request: EditRequest, kinds: Iterable[str]) -> list[Op]:
        """The ops of a finding that are of these kinds."""
        ops = (self.op(origin) for origin in request.ops)
        return [op for op in ops if op is not None and self.kind(op) in kinds]

    def place(self, request: EditRequest, *kinds: str) -> Op:
        """The op of a finding that an edit works on."""
        found = self.found(request, kinds)
        if not found:
            named = " or ".join(self.spelled(kinds))
            raise NotFitting(f"none of its ops is a {named} of this file")
        return found[0]

    def axis_of_channels(self, rank: int) -> int:
        return 1 if self.channels_first else rank - 1

    def image(self, tensor: Value) -> ImageShape:
        """NotFitting where it is not an image."""
        shape = self.shape(tensor) if tensor is not None else None
        if shape is None or len(shape) != 4:
            axes = "(N, C, H, W)" if self.channels_first else "(N, H, W, C)"
            raise NotFitting(f"'{self.name(tensor)}' is not an image {axes}")
        images, a, b, c = shape
        return ImageShape(images, b, c, a) if self.channels_first else ImageShape(images, a, b, c)

    def image_shape(self, image: ImageShape) -> tuple[int, ...]:
        """The shape that the file would state."""
        images, height, width, channels = image
        turned = (images, channels, height, width)
        return turned if self.channels_first else tuple(image)
