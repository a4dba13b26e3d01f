"""Superfluous moves: remove-transposes, remove-reshapes, share-result, constant-slice."""

from __future__ import annotations

import numpy as np

from npuscope.edits.document import Document
from npuscope.edits.records import NotFitting, Op, Value
from npuscope.edits.registry import edit
from npuscope.edits.request import EditRequest

_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
# They treat every element alike.
_UNARY = (
    *("Quantize", "Dequantize", "Identity", "Cast", "Relu", "Relu6", "ReluN1To1", "LeakyRelu"),
    *("Clip", "Elu", "Selu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Softplus", "Abs"),
    *("Neg", "Exp", "Log", "Sqrt", "Rsqrt", "Square", "Erf", "Floor", "Ceil", "Round"),
    *("Reciprocal", "Gelu", "Mish"),
)
_BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max")


def _moves_of(document: Document, request: EditRequest, *kinds: str) -> list[Op]:
    """The moves of a finding in the order of the file."""
    moves = document.found(request, kinds)
    document.place(request, *kinds)
    for op in moves:
        if document.changes_steps(op):
            raise NotFitting(f"{document.word(op)} also changes the quantization")
    return moves


def _data(document: Document, op: Op) -> Value:
    """The computed operand."""
    values = [value for value in document.inputs(op) if value is not None]
    return next((value for value in values if document.held(value) is None), values[0])


def _between(document: Document, first: Op, last: Op) -> list[Op]:
    """The ops from one move to the other; NotFitting where they are more than a chain."""
    chain: list[Op] = []
    tensor = _data(document, last)
    while first is not last and tensor != document.outputs(first)[0]:
        op = document.producer(tensor)
        if op is None or not _is_elementwise(document, op):
            name = document.word(op) if op is not None else "input"
            raise NotFitting(f"a {name} is between the two")
        if len(document.readers(tensor)) > 1 or document.is_output(tensor):
            raise NotFitting(f"'{document.name(tensor)}' between the two has other readers")
        chain.insert(0, op)
        tensor = _data(document, op)
    return chain


def _is_elementwise(document: Document, op: Op) -> bool:
    """What else it reads are single numbers."""
    if document.kind(op) not in (*_UNARY, *_BINARY):
        return False
    data = _data(document, op)
    others = [value for value in document.inputs(op) if value is not None and value != data]
    numbers = [document.held(value) for value in others]
    return all(values is not None and values.size == 1 for values in numbers)


@edit("remove-transposes")
def remove_transposes(document: Document, request: EditRequest) -> None:
    """Pairs that undo each other, and those that keep every axis in its place."""
    moves = _moves_of(document, request, "Transpose")
    first, last = moves[0], moves[-1]
    order, back = document.order_of(first), document.order_of(last)
    if first is last and order != tuple(range(len(order))):
        raise NotFitting(f"the Transpose {order} moves axes")
    if first is not last and [*map(back.index, range(len(back)))] != [*order]:
        raise NotFitting(f"the Transposes {order} and {back} do not undo each other")
    document.bypass(first, last, _data(document, first), _between(document, first, last))


@edit("remove-reshapes")
def remove_reshapes(document: Document, request: EditRequest) -> None:
    """Those that change nothing, pairs that undo each other, and the first of two."""
    moves = _moves_of(document, request, *_VIEWS)
    first, last = moves[0], moves[-1]
    source, result = _data(document, first), document.outputs(last)[0]
    chain = _between(document, first, last)
    before, after = document.shape(source), document.shape(result)
    if before is None or after is None:
        raise NotFitting("the shapes are not known")
    if before == after:
        document.bypass(first, last, source, chain)
        return
    if first is last:
        raise NotFitting(f"the Reshape turns {before} into {after}")
    if chain:
        raise NotFitting(f"the two turn {before} into {after}, and there are ops between them")
    if document.has_open_sizes():
        raise NotFitting("the network's input has dynamic sizes: the result's shape is not fixed")
    document.remove(last)
    document.drop_unread(first)
    document.insert("Reshape", (source,), result, sizes=after)


@edit("share-result")
def share_result(document: Document, request: EditRequest) -> None:
    """Of two ops that make the same, the second one goes."""
    ops = [op for origin in request.ops if (op := document.op(origin)) is not None]
    twins = [(a, b) for n, b in enumerate(ops) for a in ops[:n] if a is not b]
    pairs = [(a, b) for a, b in twins if _same(document, a, b)]
    if not pairs:
        raise NotFitting("no two of its ops compute the same in this file")
    for first, second in pairs:
        for one, other in zip(document.outputs(first), document.outputs(second), strict=True):
            if document.is_output(one) and document.is_output(other):
                names = f"'{document.name(one)}' and '{document.name(other)}'"
                raise NotFitting(f"{names} are both outputs of the network")
    for first, second in pairs:
        _share(document, first, second)


def _same(document: Document, first: Op, second: Op) -> bool:
    """The same op of the same values; what feeds them may be there twice too."""
    if first is second:
        return True
    if not document.same_attributes(first, second):
        return False
    lists = [(document.inputs(op), document.outputs(op)) for op in (first, second)]
    if [len(values) for values in lists[0]] != [len(values) for values in lists[1]]:
        return False
    return all(map(lambda a, b: _same_value(document, a, b), lists[0][0], lists[1][0]))


def _same_value(document: Document, one: Value, other: Value) -> bool:
    if one is None or other is None or one == other:
        return one is other or one == other
    if document.held(one) is not None and document.held(other) is not None:
        return document.same_constant(one, other)
    makers = document.producer(one), document.producer(other)
    if makers[0] is None or makers[1] is None:
        return False
    places = document.outputs(makers[0]).index(one), document.outputs(makers[1]).index(other)
    return places[0] == places[1] and _same(document, *makers)


def _share(document: Document, first: Op, second: Op) -> None:
    """Then the nodes that stand for steps behind the two are the same as well."""
    for one, other in zip(document.outputs(first), document.outputs(second), strict=True):
        if one != other:
            kept = document.replace(other, one)
            _share_readers(document, kept)
    document.remove(second)


def _share_readers(document: Document, tensor: Value) -> None:
    known: list[Op] = []
    for op in document.step_nodes(tensor):
        twin = next((other for other in known if _same(document, other, op)), None)
        if twin is None:
            known.append(op)
        elif not document.is_output(document.outputs(op)[0]):
            _share(document, twin, op)


@edit("constant-slice")
def constant_slice(document: Document, request: EditRequest) -> None:
    """A Gather of neighbours is a Slice."""
    op = document.place(request, "Gather")
    document.check_version("Slice")
    source, indices = document.inputs(op)[:2]
    result, shape = document.outputs(op)[0], document.shape(source)
    if shape is None:
        raise NotFitting(f"the shape of '{document.name(source)}' is not known")
    if document.attribute(op, "batch_dims", 0):
        raise NotFitting("the Gather uses batch axes")
    axis = int(document.attribute(op, "axis", 0)) % len(shape)
    places = document.held(indices)
    part = _neighbours(places, shape[axis])
    document.remove(op)
    name = document.name(result)
    bounds = document.bounds(name, source, axis, part)
    if places is not None and places.ndim:
        document.insert("Slice", (source, *bounds), result)
        return
    sizes = (*shape[:axis], 1, *shape[axis + 1 :])
    cut = document.new_like(f"{name}_slice", sizes, source)
    document.insert("Slice", (source, *bounds), cut)
    # 0 stands for the size that the tensor has: it may be open.
    document.insert("Reshape", (cut,), result, sizes=(*[0] * axis, *shape[axis + 1 :]))


def _neighbours(indices: np.ndarray | None, size: int) -> range:
    if indices is None:
        raise NotFitting("the indices are computed")
    if indices.ndim > 1:
        raise NotFitting(f"the indices have {indices.ndim} axes")
    places = indices.reshape(-1).astype(int) % size
    if not places.size or np.any(np.diff(places) != 1):
        raise NotFitting("the indices are not neighbours")
    return range(int(places[0]), int(places[-1]) + 1)
