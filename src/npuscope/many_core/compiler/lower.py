"""Ops of the network as steps on the cores."""

from __future__ import annotations

from dataclasses import replace

from npuscope.graph.model import Op
from npuscope.many_core.compiler.boxes import Box, Shape, cut, elements, reshaped, shape_of
from npuscope.many_core.compiler.draft import Access, Context, CoreStep, Operands, Role, Value
from npuscope.many_core.compiler.kinds import (
    D32,
    TO_D32,
    WEIGHTS_TO_D32,
    Group,
    core_kind,
    group_of,
    is_splat,
    leaves_blocks,
)
from npuscope.many_core.compiler.needs import needs, partition
from npuscope.many_core.compiler.operands import operand
from npuscope.ops.table import macs

# --- Products on HMX: weights in chunks that fit VTCM twice, long sums in parts ---

Parts = dict[int, Box]


def product_steps(
    context: Context,
    op: Op,
    kind: str,
    parts: Parts,
    made: dict[int, Access],
) -> None:
    """One unit of work per chunk of output channels, so that loads run beside products."""
    for chunk in _chunks(context, op, parts):
        context.draft.next_unit()
        reads = _reads(context, op, chunk)
        for core, box in chunk.items():
            for step in _sums(context, op, kind, core, box, reads[core], made[core]):
                context.draft.add_work(step)


def _chunks(context: Context, op: Op, parts: Parts) -> list[Parts]:
    """The cores' parts cut along the channels; chunk i of all cores is worked on together."""
    most = max(_weight_bytes(context, op, box) for box in parts.values())
    # The core with most weights decides, so that all cores have the same number of units.
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
) -> list[CoreStep]:
    """Parts of a long sum, each added to what the one before has left in the output."""
    written = Access(made.buffer, context.bytes_of(op.outputs[0], box))
    dtypes = tuple(dict.fromkeys((context.dtype(op.inputs[0]), context.dtype(op.outputs[0]))))
    shape, size, origin = shape_of(box), written.bytes, op.origin
    one = CoreStep(core, Group.HMX, kind, op.name, shape, dtypes, size, reads, (written,), origin)
    shares = _shares(context, op, box)
    if len(shares) == 1:
        return [replace(one, macs=shares[0])]
    return [
        replace(
            one,
            macs=share,
            # The first part starts the sum; the later ones add to what is in the output.
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


def lower_op(context: Context, op: Op) -> None:
    """Split one op over the cores and add its steps."""
    if op.kind == "Reshape" and _view(context, op):
        return
    boxes = partition(context.graph, op, context.draft, context.machine)
    parts = dict(enumerate(boxes))
    _warn_idle(context, op, len(parts))
    kind = core_kind(context.graph, op)
    name = op.outputs[0]
    made = {core: context.buffer(core, name, box, Role.OUTPUT) for core, box in parts.items()}
    if group_of(kind) is Group.HMX:
        blocked = True
        product_steps(context, op, kind, parts, made)
    else:
        blocked = leaves_blocks(op.kind, _first_is_blocked(context, op))
        _vector_steps(context, op, kind, parts, made)
    pieces = {core: (box, made[core].buffer) for core, box in parts.items()}
    context.draft.values[name] = Value(name, pieces, blocked)


def _vector_steps(
    context: Context, op: Op, kind: str, parts: Parts, made: dict[int, Access]
) -> None:
    """One op of the HVX threads per core."""
    context.draft.next_unit()
    wanted = {core: needs(context.graph, op, box) for core, box in parts.items()}
    reads: dict[int, list[Access]] = {core: [] for core in parts}
    for number, name in enumerate(op.inputs):
        if not name or is_splat(context.graph.tensors[name]):
            continue
        boxes = {core: box for core, need in wanted.items() if (box := need[number]) is not None}
        for core, accesses in _vector_operand(context, op, name, boxes, parts).items():
            reads[core] += accesses
    for core, box in parts.items():
        part = (op.outputs[0], box)
        step = context.work(core, kind, op.name, part, tuple(reads[core]), made[core], op.origin)
        context.draft.add_work(step)


def _vector_operand(context: Context, op: Op, name: str, boxes: Parts, parts: Parts) -> Operands:
    """A table that is gathered from stays in DDR: only the chosen rows are read."""
    if op.kind == "Gather" and name == op.inputs[0] and name not in context.draft.values:
        source = context.in_ddr(name)
        out = op.outputs[0]
        return {core: (Access(source, context.bytes_of(out, parts[core])),) for core in boxes}
    return operand(context, name, boxes, op.origin)


def _first_is_blocked(context: Context, op: Op) -> bool:
    value = context.draft.values.get(op.inputs[0])
    return value is not None and value.blocked


def _view(context: Context, op: Op) -> bool:
    """Other sizes for the same bytes cost nothing where every core keeps what it has."""
    value = context.draft.values.get(op.inputs[0])
    if value is None:
        return False
    old, new = (context.graph.tensors[name].shape for name in (op.inputs[0], op.outputs[0]))
    if value.blocked and not _keeps_blocks(old, new):
        return False
    pieces: dict[int, tuple[Box, int]] = {}
    for core, (box, buffer) in value.pieces.items():
        same = reshaped(box, old, new)
        if same is None:
            return False
        pieces[core] = (same, buffer)
    context.draft.values[op.outputs[0]] = Value(op.outputs[0], pieces, value.blocked)
    context.draft.cover((buffer for _, buffer in pieces.values()), op.origin)
    return True


def _keeps_blocks(old: Shape, new: Shape) -> bool:
    if not old or not new:
        return False
    return old[-1] == new[-1] or (old[-1] % D32 == 0 and new[-1] % D32 == 0)


def _warn_idle(context: Context, op: Op, parts: int) -> None:
    cores = context.draft.cores * context.draft.devices
    if parts < cores:
        context.draft.warnings.append(f"{op.name}: {op.kind} uses {parts} of {cores} cores")
