"""How an op is split: the axis along which the cores are done soonest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from npuscope.graph.model import Graph, Op
from npuscope.many_core.compiler.boxes import Box, common, cut, elements, full
from npuscope.many_core.compiler.draft import Draft
from npuscope.many_core.compiler.kinds import D32, core_kind, device_dtype, is_splat, size_bytes
from npuscope.many_core.compiler.needs import needs, split_axes
from npuscope.many_core.machine import CoreMachine
from npuscope.ops.table import macs

Pieces = dict[int, tuple[Box, int]]  # by core, as a Value has them


def partition(graph: Graph, op: Op, draft: Draft, machine: CoreMachine) -> tuple[Box, ...]:
    """Boxes of the output by core; cores behind the last one have no part."""
    choices = list(_choices(graph, op, draft.cores * draft.devices))
    return min(choices, key=lambda boxes: _cycles(graph, op, boxes, draft, machine))


def _choices(graph: Graph, op: Op, cores: int) -> Iterator[tuple[Box, ...]]:
    whole = full(graph.output_tensor(op).shape)
    for axis in split_axes(graph, op):
        # A part of a block of channels would cost as much as the whole block.
        granule = D32 if axis == len(whole) - 1 else 1
        if whole[axis][1] > granule:
            yield cut(whole, axis, cores, granule)
    yield (whole,)


def _cycles(
    graph: Graph, op: Op, boxes: tuple[Box, ...], draft: Draft, machine: CoreMachine
) -> float:
    """Of the core with most work, with what it has to be sent, the loads taken one by one."""
    wanted = [needs(graph, op, box) for box in boxes]
    total = _work(graph, op, boxes, machine)
    for number, name in enumerate(op.inputs):
        parts = [need[number] for need in wanted]
        if not name or is_splat(graph.tensors[name]):
            continue
        size = _Sizes(graph, name)
        if name in draft.values:
            total += _exchange(draft, name, parts, size, machine)
        else:
            total += _load(parts, size, machine)
    return total


class _Sizes:
    def __init__(self, graph: Graph, name: str) -> None:
        self.tensor = graph.tensors[name]

    def __call__(self, box: Box | None) -> int:
        return 0 if box is None else size_bytes(self.tensor, elements(box))


def _work(graph: Graph, op: Op, boxes: tuple[Box, ...], machine: CoreMachine) -> float:
    out = graph.output_tensor(op)
    largest = max(elements(box) for box in boxes)
    products = macs(graph, op) * largest // max(out.elements, 1)
    dtype = device_dtype(graph.first_input(op))
    return machine.pcycles(core_kind(graph, op), size_bytes(out, largest), products, dtype)


def _exchange(
    draft: Draft, name: str, parts: list[Box | None], size: _Sizes, machine: CoreMachine
) -> float:
    """What the worst core receives from its neighbours, the worst device from its peers."""
    pieces = draft.values[name].pieces
    near = max(size(part) - _held(pieces, [core], part, size) for core, part in enumerate(parts))
    cycles = near * _per_byte(machine, machine.multicast_bytes_per_s())
    if draft.devices == 1:
        return cycles
    far = max(_from_peers(draft, pieces, device, parts, size) for device in range(draft.devices))
    return cycles + far * _per_byte(machine, machine.peer.gb_per_s * 1e9)


def _from_peers(
    draft: Draft, pieces: Pieces, device: int, parts: list[Box | None], size: _Sizes
) -> int:
    """Bytes that no core of the device holds; what several of them need comes once."""
    home = range(device * draft.cores, (device + 1) * draft.cores)
    wanted = dict.fromkeys(parts[home.start : home.stop])
    return sum(size(part) - _held(pieces, home, part, size) for part in wanted)


def _held(pieces: Pieces, cores: Iterable[int], part: Box | None, size: _Sizes) -> int:
    """Bytes of a part that some cores have."""
    if part is None:
        return 0
    return sum(size(common(pieces[core][0], part)) for core in cores if core in pieces)


def _load(parts: list[Box | None], size: _Sizes, machine: CoreMachine) -> float:
    """From DDR: what all cores need together by its rate, the largest share by a core's own."""
    distinct = sum(size(part) for part in dict.fromkeys(parts))
    largest = max(size(part) for part in parts)
    shared = _per_byte(machine, machine.ddr.effective_gb_per_s * 1e9)
    spread = _per_byte(machine, machine.multicast_bytes_per_s())
    return distinct * shared + largest * spread


def _per_byte(machine: CoreMachine, bytes_per_s: float) -> float:
    return machine.core_hz / bytes_per_s
