"""Superfluous moves: remove-transposes, remove-reshapes, share-result, constant-slice."""

from __future__ import annotations

import numpy as np

from npuscope.edits.document import Document
from npuscope.edits.places import check_version, drop_unread, ops_of, order_of, place
from npuscope.edits.records import NotFitting, Op, Value
from npuscope.edits.registry import edit
from npuscope.edits.request import EditRequest
from npuscope.edits.steps import dequantizer, same_steps, step_nodes
from npuscope.files.file_graph import kinds_having
from npuscope.ops.table import OPS
from npuscope.ops.traits import Trait

# They treat every element alike.
_BY_ELEMENT = {"Identity"} | kinds_having(Trait.FUNCTION, Trait.CONVERSION, Trait.ARITHMETIC)


def _moves_of(document: Document, request: EditRequest, *kinds: str) -> list[Op]:
    """The moves of a finding in the order of the file."""
    moves = ops_of(document, request, kinds)
    place(document, request, *kinds)
    for op in moves:
        if document.quant(_data(document, op)) != document.quant(document.outputs(op)[0]):
            raise NotFitting(f"{document.word(op)} also changes the quantization")
    return moves


def _data(document: Document, op: Op) -> Value:
    """The computed operand."""
    values = [value for value in document.inputs(op) if value is not None]
    return next((value for value in values if document.values(value) is None), values[0])


def _between(document: Document, first: Op, last: Op) -> list[Op]:
    """The ops from one move to the other; NotFitting where they are more than a chain."""
    chain: list[Op] = []
    tensor = _data(document, last)
    while first is not last and tensor != document.outputs(first)[0]:
        op = document.producer(tensor)
        if op is None or not _is_elementwise(document, op):
            name = document.word(op) if op is not None else "input"
            raise NotFitting(f"a {name} is between the two")
        if len(document.readers(tensor)) > 1 or tensor in document.network_outputs:
            raise NotFitting(f"'{document.name(tensor)}' between the two has other readers")
        chain.insert(0, op)
        tensor = _data(document, op)
    return chain


def _is_elementwise(document: Document, op: Op) -> bool:
    """What else it reads are single numbers."""
    if document.kind(op) not in _BY_ELEMENT:
        return False
    data = _data(document, op)
    others = [value for value in document.inputs(op) if value is not None and value != data]
    numbers = [document.values(value) for value in others]
    return all(values is not None and values.size == 1 for values in numbers)


@edit("remove-transposes")
def remove_transposes(document: Document, request: EditRequest) -> None:
    """Pairs that undo each other, and those that keep every axis in its place."""
    moves = _moves_of(document, request, "Transpose")
    first, last = moves[0], moves[-1]
    order, back = order_of(document, first), order_of(document, last)
    if first is last and order != tuple(range(len(order))):
        raise NotFitting(f"the Transpose {order} moves axes")
    if first is not last and [*map(back.index, range(len(back)))] != [*order]:
        raise NotFitting(f"the Transposes {order} and {back} do not undo each other")
    _bypass(document, first, last, _data(document, first), _between(document, first, last))


def _bypass(document: Document, first: Op, last: Op, source: Value, chain: list[Op]) -> None:
    """What stands between two moves works on what the first one reads; the moves go."""
    result = document.outputs(last)[0]
    if not chain:
        document.replace(result, source)
    else:
        shape, end = document.shape(source), document.outputs(chain[-1])[0]
        document.rewire(document.outputs(first)[0], source, [chain[0]])
        for op in chain:
            document.state(document.outputs(op)[0], shape=shape)
        end = document.replace(result, end)
        for op in (chain[0], chain[-1], *step_nodes(document, end)):
            _drop_quantize(document, op)
    document.remove(last)
    if first is not last:
        drop_unread(document, first)


def _drop_quantize(document: Document, op: Op) -> None:
    """A node behind one that stands for the same steps does nothing."""
    if not document.steps_are_nodes or document.kind(op) != "Quantize":
        return
    source, result = document.inputs(op)[0], document.outputs(op)[0]
    maker = dequantizer(document, source)
    if maker is None or result in document.network_outputs:
        return
    if same_steps(document, maker, op):
        document.rewire(result, document.inputs(maker)[0])


@edit("remove-reshapes")
def remove_reshapes(document: Document, request: EditRequest) -> None:
    """Those that change nothing, pairs that undo each other, and the first of two."""
    moves = _moves_of(document, request, *OPS["Reshape"].onnx)
    first, last = moves[0], moves[-1]
    source, result = _data(document, first), document.outputs(last)[0]
    chain = _between(document, first, last)
    before, after = document.shape(source), document.shape(result)
    if before is None or after is None:
        raise NotFitting("the shapes are not known")
    if before == after:
        _bypass(document, first, last, source, chain)
        return
    if first is last:
        raise NotFitting(f"the Reshape turns {before} into {after}")
    if chain:
        raise NotFitting(f"the two turn {before} into {after}, and there are ops between them")
    if document.has_open_sizes:
        raise NotFitting(
            "the network's input has dynamic sizes: the shape of the result is not fixed"
        )
    document.remove(last)
    drop_unread(document, first)
    document.insert("Reshape", (source,), result, sizes=after)


@edit("share-result")
def share_result(document: Document, request: EditRequest) -> None:
    """Of two ops that make the same, the second one goes."""
    ops = [op for origin in request.ops if (op := document.op(origin)) is not None]
    twins = [(a, b) for n, b in enumerate(ops) for a in ops[:n] if a is not b]
    pairs = [(a, b) for a, b in twins if _same(document, a, b)]
    if not pairs:
        raise NotFitting("no two of its ops compute the same result in this file")
    for first, second in pairs:
        for one, other in zip(document.outputs(first), document.outputs(second), strict=True):
            if one in document.network_outputs and other in document.network_outputs:
                names = f"'{document.name(one)}' and '{document.name(other)}'"
                raise NotFitting(f"{names} are both outputs of the network")
    for first, second in pairs:
        _share(document, first, second)


def _same(document: Document, first: Op, second: Op) -> bool:
    """The same op of the same values; what feeds them may be there twice too."""
    if first is second:
        return True
    if not document.alike(first, second):
        return False
    lists = [(document.inputs(op), document.outputs(op)) for op in (first, second)]
    if [len(values) for values in lists[0]] != [len(values) for values in lists[1]]:
        return False
    return all(map(lambda a, b: _same_value(document, a, b), lists[0][0], lists[1][0]))


def _same_value(document: Document, one: Value, other: Value) -> bool:
    if one is None or other is None or one == other:
        return one is other or one == other
    first, second = document.values(one), document.values(other)
    if first is not None and second is not None:
        same = document.quant(one) == document.quant(other) and first.dtype == second.dtype
        same = same and document.shape(one) == document.shape(other)
        return same and np.array_equal(first, second)
    makers = document.producer(one), document.producer(other)
    if makers[0] is None or makers[1] is None:
        return False
    places = document.outputs(makers[0]).index(one), document.outputs(makers[1]).index(other)
    return places[0] == places[1] and _same(document, *makers)


def _share(document: Document, first: Op, second: Op) -> None:
    """Then the nodes that stand for steps behind the two are the same as well."""
    for one, other in zip(document.outputs(first), document.outputs(second), strict=True):
        if one != other:
            _share_readers(document, document.replace(other, one))
    document.remove(second)


def _share_readers(document: Document, tensor: Value) -> None:
    nodes: list[Op] = []
    for op in step_nodes(document, tensor):
        twin = next((other for other in nodes if _same(document, other, op)), None)
        if twin is None:
            nodes.append(op)
        elif document.outputs(op)[0] not in document.network_outputs:
            _share(document, twin, op)


@edit("constant-slice")
def constant_slice(document: Document, request: EditRequest) -> None:
    """A Gather of neighbours is a Slice."""
    op = place(document, request, "Gather")
    check_version(document, "Slice")
    source, indices = document.inputs(op)[:2]
    result, shape = document.outputs(op)[0], document.shape(source)
    if shape is None:
        raise NotFitting(f"the shape of '{document.name(source)}' is not known")
    if document.attribute(op, "batch_dims", 0):
        raise NotFitting("the Gather uses batch axes")
    axis = int(document.attribute(op, "axis", 0)) % len(shape)
    places = document.values(indices)
    if places is None:
        raise NotFitting("the indices are computed")
    if places.ndim > 1:
        raise NotFitting(f"the indices have {places.ndim} axes")
    numbers = places.reshape(-1).astype(int) % shape[axis]
    if not numbers.size or np.any(np.diff(numbers) != 1):
        raise NotFitting("the indices are not neighbours")
    part = range(int(numbers[0]), int(numbers[-1]) + 1)
    document.remove(op)
    name = document.name(result)
    bounds = document.bounds(name, source, axis, part)
    if places.ndim:
        document.insert("Slice", (source, *bounds), result)
        return
    sizes = (*shape[:axis], 1, *shape[axis + 1 :])
    cut = document.new_tensor(f"{name}_slice", sizes, source)
    document.insert("Slice", (source, *bounds), cut)
    # 0 stands for the size that the tensor has: it may be open.
    document.insert("Reshape", (cut,), result, sizes=(*[0] * axis, *shape[axis + 1 :]))
