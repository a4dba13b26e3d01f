"""Inputs that the vendor's front end cannot read: strip-empty-input, plain-bounds, fold-bounds."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit
from npuscope.advice.fix.parts.border_onnx import FLOAT, element_types
from npuscope.advice.fix.parts.onnx_file_values import dequantized, file_shape, the_node
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, OnnxDocument

_COMPUTED = "its bounds are computed"


@onnx_edit("strip-empty-input")
def strip_empty_input(document: OnnxDocument, request: Request) -> None:
    """An empty name in the middle, in front of the axes, becomes the zero that it stands for."""
    kinds = element_types(document)
    node = the_node(document, request, "Pad")
    if "" not in node.input:
        raise NotFitting("no input is empty")
    names = [str(name) for name in node.input]
    while not names[-1]:
        names.pop()
    if "" in names:
        zero = _zero(kinds, names)
        names[names.index("")] = document.add_constant(f"{node.output[0]}_value", zero)
    del node.input[:]
    node.input.extend(names)


def _zero(kinds: dict[str, int], names: list[str]) -> np.ndarray:
    from onnx import helper

    kind = kinds.get(names[0])
    if not kind:
        raise NotFitting("the type of what it pads is not known")
    return np.zeros((), helper.tensor_dtype_to_np_dtype(kind))


@onnx_edit("plain-bounds")
def write_plain_bounds(document: OnnxDocument, request: Request) -> None:
    """Starts and ends counted from the front, no further than the axis goes."""
    data = str(the_node(document, request, "Slice").input[0])
    shape = file_shape(document, request.network.graph, data)
    node = the_node(document, request, "Slice")
    if shape is None:
        raise NotFitting("the shape of what it cuts is not known")
    starts, ends, axes, steps = _bounds(document, [str(name) for name in node.input])
    plain = [
        slice(int(start), int(end), int(step)).indices(shape[axis])
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True)
    ]
    if any(stop < 0 for _, stop, _ in plain):
        raise NotFitting("it runs backwards to the first element, which has no plain end")
    for place, column in ((1, 0), (2, 1)):
        values = np.array([row[column] for row in plain], starts.dtype)
        stem = f"{node.output[0]}_{'starts' if place == 1 else 'ends'}"
        document.set_input(node, place, document.add_constant(stem, values))


def _bounds(document: OnnxDocument, names: list[str]) -> list[np.ndarray]:
    """Starts, ends, axes and steps; the last two may be absent."""
    given = {place: document.constant(name) for place, name in enumerate(names) if place and name}
    known = {place: value for place, value in given.items() if value is not None}
    if len(known) < len(given) or not {1, 2} <= known.keys():
        raise NotFitting(_COMPUTED)
    count = known[1].size
    absent = {3: np.arange(count), 4: np.ones(count, np.int64)}
    return [{**absent, **known}[place].reshape(-1) for place in (1, 2, 3, 4)]


@onnx_edit("fold-bounds")
def fold_bounds(document: OnnxDocument, request: Request) -> None:
    kinds = element_types(document)
    node = the_node(document, request, "Clip")
    if kinds.get(node.input[0], FLOAT) != FLOAT:
        raise NotFitting("the Clip itself does not work on float numbers")
    found = {p: _bound(document, name) for p, name in enumerate(node.input) if p and name}
    if not found:
        raise NotFitting("it has no bounds among its inputs")
    for place, value in found.items():
        stem = f"{node.output[0]}_{'min' if place == 1 else 'max'}"
        document.set_input(node, place, document.add_constant(stem, value))


def _bound(document: OnnxDocument, name: str) -> np.ndarray:
    value = document.constant(name)
    maker = document.producer(name)
    if value is None and maker is not None and maker.op_type == DEQUANTIZE:
        value = dequantized(document, maker)
    if value is None:
        raise NotFitting(_COMPUTED)
    return value.reshape(()).astype(np.float32)
