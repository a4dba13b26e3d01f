"""Ops of the network as steps on the cores."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.families.many_core.compiler.boxes import (
    Bounds,
    Box,
    Shape,
    cut,
    elements,
    full,
    reshaped,
    shape_of,
    with_axis,
)
from npuscope.families.many_core.compiler.draft import (
    BufferAccess,
    CoreStep,
    DraftContext,
    Operands,
    Piece,
    PlacedValue,
    Role,
)
from npuscope.families.many_core.compiler.kinds import (
    D32,
    FROM_D32,
    TO_D32,
    WEIGHTS_TO_D32,
    GroupNumber,
    core_kind,
    group_of,
    is_splat,
    leaves_blocks,
    needs_rows,
)
from npuscope.families.many_core.compiler.needs import needs, partition
from npuscope.families.many_core.compiler.operands import operand
from npuscope.families.many_core.compiler.tiles import CoreTiling, channel_cuts, tiling
from npuscope.families.many_core.program import Made
from npuscope.graph.model import Op
from npuscope.ops.layers import ConvAttrs
from npuscope.ops.table import macs
from npuscope.structs import replace

Parts = dict[int, Box]  # by core
_BIAS = 2  # place among the inputs of a product
_Targets = list[dict[int, BufferAccess]]  # by tile and core


def lower_op(context: DraftContext, op: Op, number: int) -> None:
    """Split one op over the cores and into tiles, and add its steps."""
    if op.kind == "Reshape" and _view(context, op):
        return
    cores = context.draft.cores_for(number)
    parts = partition(context.graph, op, cores, context.draft, context.machine)
    if len(parts) < len(cores):
        idle = f"{op.name}: {op.kind} uses {len(parts)} of {len(cores)} cores"
        context.draft.warnings.append(idle)
    kind = core_kind(context.graph, op)
    cuts = tiling(context, op, number, parts)
    targets = [
        {core: context.buffer(core, op.outputs[0], box, Role.OUTPUT, i) for core, box in t.items()}
        for i, t in enumerate(cuts.tiles)
    ]
    if group_of(kind) is GroupNumber.HMX:
        blocked = True
        chain = _Products(context, op, number, kind).add(cuts, targets)
    else:
        value = context.draft.values.get(op.inputs[0])
        blocked = leaves_blocks(op.kind, value is not None and value.blocked)
        chain = cuts.chain
        _vector_steps(context, op, number, kind, cuts, targets)
    pieces: dict[int, tuple[Piece, ...]] = {}
    for parts, buffers in zip(cuts.tiles, targets, strict=True):
        for core, box in parts.items():
            pieces[core] = (*pieces.get(core, ()), (box, buffers[core].buffer))
    context.draft.values[op.outputs[0]] = PlacedValue(op.outputs[0], pieces, blocked, chain)


# --- Products on HMX: weights in chunks that fit VTCM twice, long sums in parts ---


class _Products:
    """The steps of one op: one unit of work per chunk, so that loads run beside products."""

    def __init__(self, context: DraftContext, op: Op, number: int, kind: str) -> None:
        self.context, self.op, self.number, self.kind = context, op, number, kind
        # Parts of a sum are half floats; integers stay in the accumulators to the end.
        floats = context.graph.output_tensor(op).dtype.is_float
        grouped = isinstance(op.attrs, ConvAttrs) and op.attrs.groups > 1
        self.sums = floats and not grouped and kind == "aicconvolutiond32"

    def add(self, cuts: CoreTiling, targets: _Targets) -> int:
        """Slices of the input one after the other, each added to all tiles; gives the chain."""
        # As the pieces of the input are cut, so that each is used as soon as it is there.
        first = self.op.inputs[0]
        size = self.context.graph.tensors[first].shape[-1]
        constant = self.context.graph.tensors[self.op.inputs[1]].is_constant
        parts_of_batch = self.number in self.context.draft.batch_parts
        by_slice = self.sums and constant and not parts_of_batch
        slices = channel_cuts(self.context, first) if by_slice else ((0, size),)
        follows = len(slices) > 1
        chain = cuts.chain
        if follows:
            value = self.context.draft.values[first]
            alike = all(len(own) == len(slices) for own in value.pieces.values())
            chain = value.chain if alike and value.chain >= 0 else self.number
        for nth, channels in enumerate(slices):
            for tile, parts in enumerate(cuts.tiles):
                self.context.draft.rank = (chain, nth if follows else cuts.turns[tile], self.number)
                # The cores' parts cut along the output channels; a chunk is worked on together.
                pieces = {core: self._cut(box, channels) for core, box in parts.items()}
                for i in range(max(map(len, pieces.values()))):
                    chunk = {core: boxes[i] for core, boxes in pieces.items() if i < len(boxes)}
                    self._unit(chunk, channels, targets[tile])
        return self.number if follows else chain

    def _cut(self, box: Box, channels: Bounds) -> list[Box]:
        """As many channels as have weights of a chunk for one part of a sum, then the rest."""
        most = self.context.machine.memory.weight_chunk_bytes
        longest = max(self._ranges(channels), key=lambda bounds: bounds[1] - bounds[0])
        low, high = box[-1]
        size = self._bytes(box, longest)
        if size <= most:
            return [box]
        step = max((high - low) * most // size // D32 * D32, D32)
        stops = [*range(low + step, high, step), high]
        return [
            with_axis(box, len(box) - 1, start, stop)
            for start, stop in zip([low, *stops], stops, strict=False)
        ]

    def _bytes(self, box: Box, channels: Bounds) -> int:
        """Of constant weights only: activations are in VTCM already."""
        if not self._has_constant_weights():
            return 0
        return self.context.bytes_of(self.op.inputs[1], self._needs(box, channels)[1])

    def _needs(self, box: Box, channels: Bounds) -> tuple[Box | None, ...]:
        """For some channels of the input only: the last axis of both operands."""
        boxes = list(needs(self.context.graph, self.op, box))
        if channels != (0, self.context.graph.first_input(self.op).shape[-1]):
            for place in (0, 1):
                whole = boxes[place]
                if whole is not None:
                    boxes[place] = with_axis(whole, len(whole) - 1, *channels)
        return tuple(boxes)

    def _unit(self, parts: Parts, channels: Bounds, targets: dict[int, BufferAccess]) -> None:
        """Parts of a long sum one after the other, each with weights of its own: their place is
        free for the next ones as soon as the part is done."""
        apart = self._has_constant_weights()
        self.context.draft.next_unit()
        reads = self._reads(parts, channels, (0, 2) if apart else (0, 1, 2))
        for nth, ranges in enumerate(self._loads(parts, channels)):
            if nth:
                self.context.draft.next_unit()
            bounds = ranges[0][0], ranges[-1][1]
            own = self._reads(parts, bounds, (1,)) if apart else dict.fromkeys(parts, ())
            for core, box in parts.items():
                both = (*reads[core], *own[core])
                for one in ranges:
                    self.context.draft.add_work(self._sum(core, box, one, both, targets[core]))

    def _loads(self, parts: Parts, channels: Bounds) -> Iterator[list[Bounds]]:
        """Parts of the sum whose weights are loaded together: as many as a chunk holds."""
        most = self.context.machine.memory.weight_chunk_bytes
        load: list[Bounds] = []
        for one in self._ranges(channels):
            together = (load[0][0] if load else one[0], one[1])
            if load and max(self._bytes(box, together) for box in parts.values()) > most:
                yield load
                load = []
            load.append(one)
        yield load

    def _has_constant_weights(self) -> bool:
        return self.context.graph.tensors[self.op.inputs[1]].is_constant

    def _reads(
        self, parts: Parts, channels: Bounds, places: tuple[int, ...]
    ) -> dict[int, tuple[BufferAccess, ...]]:
        """Operands by their place: input, weights, bias."""
        boxes_of = {core: self._needs(box, channels) for core, box in parts.items()}
        reads: dict[int, tuple[BufferAccess, ...]] = dict.fromkeys(parts, ())
        for number, name in enumerate(self.op.inputs):
            boxes = {core: box for core, need in boxes_of.items() if (box := need[number])}
            if not boxes or number not in places:
                continue
            if number == _BIAS:
                tensor = self.context.graph.tensors[name]
                whole, memory = full(tensor.shape), self.context.machine.memory
                size = self.context.bytes_of(name, whole)
                # A bias that comes whole is loaded once for all chunks.
                if tensor.is_constant and size < memory.multicast_min_bytes:
                    boxes = dict.fromkeys(boxes, whole)
            form = (TO_D32, WEIGHTS_TO_D32, "")[number]
            operands = operand(self.context, name, boxes, self.op.origin, form)
            for core, accesses in operands.items():
                reads[core] += accesses
        return reads

    def _sum(
        self,
        core: int,
        box: Box,
        bounds: Bounds,
        reads: tuple[BufferAccess, ...],
        target: BufferAccess,
    ) -> CoreStep:
        """A part of a long sum, added to what the one before has left in the output."""
        context, op = self.context, self.op
        output = BufferAccess(target.buffer, context.bytes_of(op.outputs[0], box))
        dtypes = tuple(dict.fromkeys((context.dtype(op.inputs[0]), context.dtype(op.outputs[0]))))
        total = macs(context.graph, op) * elements(box) // context.graph.output_tensor(op).elements
        size, (low, high) = self._length(), bounds
        first, last = low == 0, high == size
        whole = first and last
        return CoreStep(
            core,
            GroupNumber.HMX,
            self.kind,
            op.name,
            shape_of(box),
            dtypes,
            output.bytes,
            # The first part starts the sum; the later ones add to what is in the output.
            reads if first else (*reads, output),
            (output,),
            op.origin,
            macs=total * high // size - total * low // size,
            attributes="" if whole else f"channels {low} to {high} of {size}",
            makes=Made(self.number, box, None if whole else (low, high), first, last),
        )

    def _length(self) -> int:
        """Channels that are summed up."""
        graph, op = self.context.graph, self.op
        shape = graph.first_input(op).shape
        transposed = getattr(op.attrs, "transpose_a", False)
        return shape[-2] if transposed else shape[-1]

    def _ranges(self, channels: Bounds) -> list[Bounds]:
        """Channels of each part: as many products a value as HMX adds up at a time."""
        low, high = channels
        if not self.sums:
            return [(0, self._length())]
        if channels == (0, self.context.graph.first_input(self.op).shape[-1]):
            high = self._length()
        total = macs(self.context.graph, self.op)
        per_value = total // self.context.graph.output_tensor(self.op).elements
        taps = max(per_value // self._length(), 1)
        blocks = -(-taps * (high - low) // self.context.machine.hmx.reduction_block)
        return [bounds for (bounds,) in cut(((low, high),), 0, max(blocks, 1), D32)]


def _vector_steps(
    context: DraftContext, op: Op, number: int, kind: str, cuts: CoreTiling, targets: _Targets
) -> None:
    """One op of the HVX threads per core and tile."""
    for tile, parts in enumerate(cuts.tiles):
        context.draft.rank = (cuts.chain, cuts.turns[tile], number)
        context.draft.next_unit()
        needs_of = {core: needs(context.graph, op, box) for core, box in parts.items()}
        reads: dict[int, list[BufferAccess]] = {core: [] for core in parts}
        for place, name in enumerate(op.inputs):
            if not name or is_splat(context.graph.tensors[name]):
                continue
            boxes = {
                core: box for core, need in needs_of.items() if (box := need[place]) is not None
            }
            for core, accesses in _vector_operand(context, op, name, boxes, parts).items():
                reads[core] += accesses
        for core, box in parts.items():
            part, accesses = (op.outputs[0], box), tuple(reads[core])
            out = targets[tile][core]
            step = context.work(core, kind, op.name, part, accesses, out, op.origin)
            context.draft.add_work(replace(step, makes=Made(number, box)))


def _vector_operand(
    context: DraftContext, op: Op, name: str, boxes: Parts, parts: Parts
) -> Operands:
    """A table that is gathered from stays in DDR: only the chosen rows are read."""
    if op.kind == "Gather" and name == op.inputs[0] and name not in context.draft.values:
        source = context.in_ddr(name)
        out = op.outputs[0]
        return {core: (BufferAccess(source, context.bytes_of(out, parts[core])),) for core in boxes}
    form = FROM_D32 if needs_rows(op.kind) else ""
    return operand(context, name, boxes, op.origin, form)


def _view(context: DraftContext, op: Op) -> bool:
    """Other sizes for the same bytes cost nothing where every core keeps what it has."""
    value = context.draft.values.get(op.inputs[0])
    if value is None:
        return False
    old, new = (context.graph.tensors[name].shape for name in (op.inputs[0], op.outputs[0]))
    if value.blocked and not _keeps_blocks(old, new):
        return False
    pieces: dict[int, tuple[Piece, ...]] = {}
    for core, box, buffer in value.all_pieces():
        same = reshaped(box, old, new)
        if same is None:
            return False
        pieces[core] = (*pieces.get(core, ()), (same, buffer))
    context.draft.values[op.outputs[0]] = replace(value, tensor=op.outputs[0], pieces=pieces)
    context.draft.cover((buffer for _, _, buffer in value.all_pieces()), op.origin)
    return True


def _keeps_blocks(old: Shape, new: Shape) -> bool:
    if not old or not new:
        return False
    return old[-1] == new[-1] or (old[-1] % D32 == 0 and new[-1] % D32 == 0)
