"""Products on HMX: weights in chunks that fit VTCM twice, long sums in parts."""

from __future__ import annotations

from dataclasses import replace

from npuscope.graph.model import Op
from npuscope.manycore.compiler.boxes import Box, cut, elements, shape_of
from npuscope.manycore.compiler.context import Context
from npuscope.manycore.compiler.draft import Access, Step
from npuscope.manycore.compiler.kinds import TO_D32, WEIGHTS_TO_D32, Group
from npuscope.manycore.compiler.needs import needs
from npuscope.manycore.compiler.operands import operand
from npuscope.ops.table import macs

Parts = dict[int, Box]


def product_steps(
    context: Context,
    op: Op,
    kind: str,
    parts: Parts,
    made: dict[int, Access],
) -> None:
    """One unit of work a chunk of output channels, so that loads run beside products."""
    for chunk in _chunks(context, op, parts):
        context.draft.next_unit()
        reads = _reads(context, op, chunk)
        for core, box in chunk.items():
            for step in _sums(context, op, kind, core, box, reads[core], made[core]):
                context.draft.add_work(step)


def _chunks(context: Context, op: Op, parts: Parts) -> list[Parts]:
    """The cores' parts cut along the channels; chunk i of all cores is worked on together."""
    most = max(_weight_bytes(context, op, box) for box in parts.values())
    count = -(-most // context.machine.memory.weight_chunk_bytes)
    pieces = {core: cut(box, len(box) - 1, max(count, 1)) for core, box in parts.items()}
    longest = max(len(boxes) for boxes in pieces.values())
    return [
        {core: boxes[i] for core, boxes in pieces.items() if i < len(boxes)} for i in range(longest)
    ]


def _weight_bytes(context: Context, op: Op, box: Box) -> int:
    """Of constants only: activations are in VTCM already."""
    name = op.inputs[1]
    if not context.graph.tensors[name].is_constant:
        return 0
    return context.bytes_of(name, needs(context.graph, op, box)[1])


def _reads(context: Context, op: Op, parts: Parts) -> dict[int, tuple[Access, ...]]:
    wanted = {core: needs(context.graph, op, box) for core, box in parts.items()}
    reads: dict[int, tuple[Access, ...]] = dict.fromkeys(parts, ())
    for number, name in enumerate(op.inputs):
        boxes = {core: box for core, need in wanted.items() if (box := need[number]) is not None}
        if not boxes:
            continue
        form = (TO_D32, WEIGHTS_TO_D32, "")[number]
        for core, accesses in operand(context, name, boxes, op.origin, form).items():
            reads[core] += accesses
    return reads


def _sums(
    context: Context,
    op: Op,
    kind: str,
    core: int,
    box: Box,
    reads: tuple[Access, ...],
    made: Access,
) -> list[Step]:
    """Parts of a long sum, each added to what the one before has left in the output."""
    written = Access(made.buffer, context.bytes_of(op.outputs[0], box))
    dtypes = tuple(dict.fromkeys((context.dtype(op.inputs[0]), context.dtype(op.outputs[0]))))
    shape, size, origin = shape_of(box), written.bytes, op.origin
    one = Step(core, Group.HMX, kind, op.name, shape, dtypes, size, reads, (written,), origin)
    shares = _shares(context, op, box)
    if len(shares) == 1:
        return [replace(one, macs=shares[0])]
    return [
        replace(
            one,
            macs=share,
            reads=(*reads, written) if number else reads,
            attributes=f"reduction {number + 1}/{len(shares)}",
        )
        for number, share in enumerate(shares)
    ]


def _shares(context: Context, op: Op, box: Box) -> list[int]:
    """Multiplications of each part of the sum."""
    graph = context.graph
    total = macs(graph, op) * elements(box) // graph.output_tensor(op).elements
    length = -(-total // elements(box))
    parts = max(-(-length // context.machine.hmx.reduction_block), 1)
    return [total * (i + 1) // parts - total * i // parts for i in range(parts)]
