"""Images as rows of channels, which can be joined and cut by the stream engines. Both formats are
seen channel-last here; an .onnx file turns its images for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npuscope.edits.document import Document
from npuscope.edits.records import Pads, Value
from npuscope.files.file_graph import FileGraph

_SYMMETRIC = 1  # mode of a MIRROR_PAD in which the edge pixel itself comes first


def _with_numbers(
    graph: FileGraph, source: Value, kind: str, *numbers: Sequence[int], **attributes: Any
) -> Value:
    """In an .onnx file: the result of an op with whole numbers as its other inputs."""
    result = graph.new_tensor(f"{source}_{kind.lower()}", (), source)
    rows = [np.array([*values], np.int64) for values in numbers]
    constants = [graph.add_constant(f"{result}_numbers", row) for row in rows]
    graph.add_op(kind, (source, *constants), result, **attributes)
    return result


def pixels(graph: FileGraph, tensor: Value) -> Value:
    """An image with the channels last."""
    if not graph.channels_first:
        return tensor
    return _with_numbers(graph, tensor, "Transpose", perm=[0, 2, 3, 1])


def from_pixels(graph: FileGraph, tensor: Value) -> Value:
    if not graph.channels_first:
        return tensor
    return _with_numbers(graph, tensor, "Transpose", perm=[0, 3, 1, 2])


def viewed(document: Document, tensor: Value, sizes: Sequence[int]) -> Value:
    """All sizes but the number of images."""
    if document.channels_first:
        return _with_numbers(document, tensor, "Reshape", [-1, *sizes])
    images = (document.shape(tensor) or (1,))[0]
    result = document.new_tensor(f"{document.name(tensor)}_view", (images, *sizes), tensor)
    document.insert("Reshape", (tensor,), result)
    return result


def view_as(document: Document, tensor: Value, sizes: Sequence[int], result: Value) -> None:
    """An image that is there already."""
    if document.channels_first:
        view = viewed(document, tensor, sizes)
        document.add_op("Transpose", (view,), result, perm=[0, 3, 1, 2])
    else:
        document.insert("Reshape", (tensor,), result)


def joined(document: Document, parts: Sequence[Value]) -> Value:
    """Along the last axis."""
    shape: tuple[int, ...] = ()
    if not document.channels_first:
        shapes = [document.shape(part) or (0,) for part in parts]
        shape = (*shapes[0][:-1], sum(one[-1] for one in shapes))
    result = document.new_tensor(f"{document.name(parts[0])}_joined", shape, parts[0])
    document.insert("Concat", parts, result, axis=3)
    return result


def edge(document: Document, tensor: Value, part: range) -> Value:
    """Of the last axis."""
    if document.channels_first:
        return _with_numbers(document, tensor, "Slice", [part.start], [part.stop], [3])
    shape = (*(document.shape(tensor) or ())[:3], len(part))
    result = document.new_tensor(f"{document.name(tensor)}_edge", shape, tensor)
    bounds = document.bounds(document.name(result), tensor, 3, part)
    document.insert("Slice", (tensor, *bounds), result)
    return result


def edge_padded(graph: FileGraph, tensor: Value, ends: tuple[int, int]) -> Value:
    """Rows and columns at the edges once more."""
    if graph.channels_first:
        pads = [0, 0, ends[0], ends[0], 0, 0, ends[1], ends[1]]
        return _with_numbers(graph, tensor, "Pad", pads, mode="edge")
    name, amounts = graph.name(tensor), np.array([(0, 0), ends, ends, (0, 0)], np.int32)
    constant = graph.add_constant(f"{name}_pads", amounts)
    result = graph.new_tensor(f"{name}_edges", _grown(graph, tensor, amounts), tensor)
    graph.add_op("MirrorPad", (tensor, constant), result, mode=_SYMMETRIC)
    return result


def padded(graph: FileGraph, tensor: Value, pads: Pads) -> Value:
    """An image of a .tflite file with rows and columns of zeros around it; itself where there are
    none."""
    if not any(pads):
        return tensor
    top, left, bottom, right = pads
    name = graph.name(tensor)
    amounts = np.array([(0, 0), (top, bottom), (left, right), (0, 0)], np.int32)
    constant = graph.add_constant(f"{name}_pads", amounts)
    result = graph.new_tensor(f"{name}_padded", _grown(graph, tensor, amounts), tensor)
    graph.add_op("Pad", (tensor, constant), result)
    return result


def _grown(graph: FileGraph, tensor: Value, amounts: np.ndarray) -> tuple[int, ...]:
    shape = graph.shape(tensor) or ()
    return tuple(size + int(row.sum()) for size, row in zip(shape, amounts, strict=True))
