"""Tiles: a core's part of an output in pieces that VTCM holds twice, cut where its inputs are cut.

Ops that are cut alike form a chain: its tiles go through all ops one after the other, so that a
value is used while it is in VTCM, and products and vector ops of neighbouring tiles overlap."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from npuscope.families.many_core.compiler.boxes import Box, common, cut
from npuscope.families.many_core.compiler.draft import DraftContext, PlacedValue
from npuscope.families.many_core.compiler.kinds import (
    D32,
    GroupNumber,
    core_kind,
    group_of,
    is_splat,
)
from npuscope.families.many_core.compiler.needs import needs, split_axes
from npuscope.graph.model import Op

Parts = dict[int, Box]  # by core


class CoreTiling(Struct, frozen=True):
    """Tile by tile the cores' boxes; `chain` is the first op that is cut alike, `turns` says which
    tiles go through the chain together."""

    tiles: tuple[Parts, ...]
    chain: int
    turns: tuple[int, ...]


def tiling(context: DraftContext, op: Op, number: int, parts: Parts) -> CoreTiling:
    """The cut that touches fewest pieces of the inputs, of about the size that is wanted."""
    batch = context.draft.batch_parts.get(number)
    if batch is not None and batch.parts > 1:
        shares = _shares(parts, 0, batch.parts)
        cuts = [_best_cut(context, op, share)[0] for share in shares]
        turns = tuple(turn for turn, tiles in enumerate(cuts) for _ in tiles)
        return CoreTiling(sum(cuts, ()), batch.first, turns)
    tiles, touched = _best_cut(context, op, parts)
    chain = _chain(context, op, number, len(tiles), touched)
    return CoreTiling(tiles, chain, tuple(range(len(tiles))))


def _best_cut(context: DraftContext, op: Op, parts: Parts) -> tuple[tuple[Parts, ...], float]:
    """Tiles, and pieces of the inputs that one of them reads."""
    largest = max(context.bytes_of(op.outputs[0], box) for box in parts.values())
    aim = max(-(-largest // context.machine.memory.tile_bytes), 1)
    options = list(_options(context, op, parts, aim))
    touched = [_touched(context, op, tiles) / len(tiles) for tiles in options]
    costs = [(t, abs(len(tiles) - aim)) for t, tiles in zip(touched, options, strict=True)]
    best = min(range(len(options)), key=costs.__getitem__)
    return options[best], touched[best]


def _shares(parts: Parts, axis: int, count: int) -> tuple[Parts, ...]:
    """Of each core a share of its box; fewer than `count` where an axis is shorter."""
    boxes = {
        core: cut(box, axis, count, D32 if axis == len(box) - 1 else 1)
        for core, box in parts.items()
    }
    longest = max(len(tiles) for tiles in boxes.values())
    return tuple(
        {core: tiles[i] for core, tiles in boxes.items() if i < len(tiles)} for i in range(longest)
    )


def _options(context: DraftContext, op: Op, parts: Parts, aim: int) -> Iterator[tuple[Parts, ...]]:
    yield (parts,)
    before = {len(pieces) for value in _values(context, op) for pieces in value.pieces.values()}
    for axis in _axes(context, op, parts):
        for count in sorted({aim, *before} - {1}):
            tiles = _shares(parts, axis, count)
            if len(tiles) == count:
                yield tiles


def _axes(context: DraftContext, op: Op, parts: Parts) -> tuple[int, ...]:
    """Weights that do not stay in VTCM are read once: then tiles have all rows."""
    axes = split_axes(context.graph, op)
    if group_of(core_kind(context.graph, op)) is not GroupNumber.HMX:
        return axes
    last = len(next(iter(parts.values()))) - 1
    if weights_stay(context, op, parts):
        return tuple(axis for axis in axes if axis != last)
    return tuple(axis for axis in axes if axis == last)


def weights_stay(context: DraftContext, op: Op, parts: Parts) -> bool:
    """Whether the second operand is in VTCM from the first tile to the last."""
    name = op.inputs[1]
    if not context.graph.tensors[name].is_constant:
        return True
    largest = max(
        context.bytes_of(name, needs(context.graph, op, box)[1]) for box in parts.values()
    )
    return largest <= context.machine.memory.keep_constant_bytes


def _values(context: DraftContext, op: Op) -> list[PlacedValue]:
    values = (context.draft.values.get(name) for name in op.inputs)
    return [value for value in values if value is not None]


def _touched(context: DraftContext, op: Op, tiles: tuple[Parts, ...]) -> int:
    """Pieces of the inputs that the tiles of the first core read, all together."""
    core = next(iter(tiles[0]))
    count = 0
    for parts in tiles:
        if core not in parts:
            continue
        for name, need in zip(op.inputs, needs(context.graph, op, parts[core]), strict=True):
            value = context.draft.values.get(name)
            if value is None or need is None or is_splat(context.graph.tensors[name]):
                continue
            count += sum(common(box, need) is not None for box, _ in value.pieces.get(core, ()))
    return count


def _chain(context: DraftContext, op: Op, number: int, tiles: int, touched: float) -> int:
    """That of an input with as many tiles, where each tile reads one piece per input."""
    values = _values(context, op)
    if tiles == 1 or touched > len(values):
        return number
    alike = [value.chain for value in values if tiles in map(len, value.pieces.values())]
    return min((chain for chain in alike if chain >= 0), default=number)


def channel_cuts(context: DraftContext, name: str) -> tuple[tuple[int, int], ...]:
    """Ranges of the last axis that the pieces of a tensor have, where these are whole slices."""
    size = context.graph.tensors[name].shape[-1]
    value = context.draft.values.get(name)
    cuts = sorted({box[-1] for _, box, _ in value.all_pieces()}) if value else []
    bounds = [0, *(stop for _, stop in cuts)]
    if len(cuts) < 2 or bounds[-1] != size or [start for start, _ in cuts] != bounds[:-1]:
        return ((0, size),)
    return tuple(cuts)
