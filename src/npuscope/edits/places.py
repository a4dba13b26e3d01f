"""Where an edit works: the ops of a finding, images, axes and numbers of ops, in both formats."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from npuscope.edits.document import Document
from npuscope.edits.records import ImageShape, NotFitting, Op, Value
from npuscope.edits.request import EditRequest
from npuscope.files.file_graph import FileGraph

# The first opset with the form of the op that is written here.
_OPSETS = {"Reshape": 5, "Slice": 10, "Pad": 11, "Resize": 11}


def ops_of(document: Document, request: EditRequest, kinds: Iterable[str]) -> list[Op]:
    """The ops of a finding that are of these kinds."""
    ops = (document.op(origin) for origin in request.ops)
    return [op for op in ops if op is not None and document.kind(op) in kinds]


def place(document: Document, request: EditRequest, *kinds: str) -> Op:
    """The op of a finding that an edit works on."""
    ops = ops_of(document, request, kinds)
    if not ops:
        words = " or ".join(word for kind in kinds for word in document.words(kind))
        raise NotFitting(f"none of its ops is a {words} of this file")
    return ops[0]


def check_version(graph: FileGraph, kind: str) -> None:
    """The file can hold a new op of this kind."""
    if graph.opset is not None and graph.opset < _OPSETS[kind]:
        raise NotFitting(f"the file's opset {graph.opset} is older than {_OPSETS[kind]}")


def axis_of_channels(graph: FileGraph, rank: int) -> int:
    return 1 if graph.channels_first else rank - 1


def image(graph: FileGraph, tensor: Value) -> ImageShape:
    """NotFitting where it is not an image."""
    shape = graph.shape(tensor) if tensor is not None else None
    if shape is None or len(shape) != 4:
        axes = "(N, C, H, W)" if graph.channels_first else "(N, H, W, C)"
        raise NotFitting(f"'{graph.name(tensor)}' is not an image {axes}")
    images, a, b, c = shape
    return ImageShape(images, b, c, a) if graph.channels_first else ImageShape(images, a, b, c)


def image_shape(graph: FileGraph, image: ImageShape) -> tuple[int, ...]:
    """The shape that the file would state."""
    images, height, width, channels = image
    turned = (images, channels, height, width)
    return turned if graph.channels_first else tuple(image)


def has_fused(graph: FileGraph, op: Op) -> bool:
    """An activation within the op."""
    return bool(graph.attribute(op, "fused_activation_function"))


def axes_of(graph: FileGraph, op: Op) -> list[int] | None:
    """Those that an op works along: an attribute or a constant, None where they are computed."""
    axes = graph.attribute(op, "axes")
    inputs = graph.inputs(op)
    if axes is None and len(inputs) > 1:
        values = None if inputs[1] is None else graph.values(inputs[1])
        axes = None if values is None else values.reshape(-1).tolist()
    return None if axes is None else [int(axis) for axis in axes]


def order_of(graph: FileGraph, op: Op) -> tuple[int, ...]:
    """The axes of a Transpose."""
    order, inputs = graph.attribute(op, "perm"), graph.inputs(op)
    if order is None and len(inputs) > 1:
        order = None if inputs[1] is None else graph.values(inputs[1])
        if order is None:
            raise NotFitting("the order of the axes is computed")
    if order is not None:
        return tuple(int(axis) for axis in np.reshape(order, -1))
    shape = graph.shape(inputs[0])
    if shape is None:
        raise NotFitting("the shape that the Transpose turns is not known")
    return tuple(reversed(range(len(shape))))


def drop_unread(graph: FileGraph, op: Op) -> None:
    """If nobody needs its results."""
    outputs = graph.outputs(op)
    if not any(graph.readers(t) or t in graph.network_outputs for t in outputs):
        graph.remove(op)


def joined_parts(graph: FileGraph, op: Op) -> list[Value]:
    """What a Concat joins; a QLinearConcat has scale and zero point beside each part, after its
    own two."""
    inputs = graph.inputs(op)
    if graph.kind(op) == "QLinearConcat":
        return inputs[2::3]
    return [tensor for tensor in inputs if tensor is not None]
