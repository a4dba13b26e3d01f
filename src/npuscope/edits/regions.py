"""Which tensors get more channels together, and what happens at the border of their region.

New channels are put right behind a channel of a tensor. From there they spread over every op that
keeps channels apart, over joins and over slices of channels. The region ends at layers: those that
make its channels get kernels of zeros, those that read them weights of zeros; and at slices that
can take some channels more: nobody looks at what new channels hold. Any other reader gets the old
channels, through a slice.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from enum import Enum, auto
from itertools import accumulate
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from npuscope.edits.records import NEW, NotFitting
from npuscope.structs import replace

T = TypeVar("T", bound=Hashable)
# How many new channels are put right behind a channel; FRONT stands before the first one.
Pads = dict[int, int]
FRONT = -1


class ChannelRole(Enum):
    """What an op does with the channels of its data."""

    LAYER = auto()  # mixes them with constant weights
    APART = auto()  # keeps them apart
    JOIN = auto()
    SLICE = auto()
    OTHER = auto()


class ChannelOp(Struct, Generic[T], frozen=True):
    """An op as far as channels go. `ranges` are the channels that a slice's outputs take, which
    are equally many where it is `even`."""

    name: str
    role: ChannelRole
    inputs: tuple[T, ...]
    outputs: tuple[T, ...]
    node: Any
    ranges: tuple[range, ...] = ()
    even: bool = False


class ChannelView(Protocol[T]):
    """A document as far as channels go."""

    def channels(self, tensor: T) -> int: ...
    def maker(self, tensor: T) -> ChannelOp[T] | None: ...
    def readers(self, tensor: T) -> list[ChannelOp[T]]: ...
    def is_output(self, tensor: T) -> bool: ...
    def title(self, tensor: T) -> str: ...


class Unjoined(Struct, Generic[T], frozen=True):
    """A view in which regions end at joins."""

    view: ChannelView[T]

    def channels(self, tensor: T) -> int:
        return self.view.channels(tensor)

    def maker(self, tensor: T) -> ChannelOp[T] | None:
        maker = self.view.maker(tensor)
        return None if maker is None else _unjoined(maker)

    def readers(self, tensor: T) -> list[ChannelOp[T]]:
        return [_unjoined(step) for step in self.view.readers(tensor)]

    def is_output(self, tensor: T) -> bool:
        return self.view.is_output(tensor)

    def title(self, tensor: T) -> str:
        return self.view.title(tensor)


def _unjoined(step: ChannelOp[T]) -> ChannelOp[T]:
    return replace(step, role=ChannelRole.OTHER) if step.role is ChannelRole.JOIN else step


class ChannelRegion(Struct, Generic[T], frozen=True):
    """Tensors with their new channels, all ops that touch them, and readers that must not.

    `bounds` are the ranges that the outputs of its slices take in the padded source, by op.
    """

    pads: Mapping[T, Pads]
    steps: tuple[ChannelOp[T], ...]
    cut: Mapping[T, tuple[ChannelOp[T], ...]]
    bounds: Mapping[int, tuple[range, ...]]


def layout(count: int, pads: Pads) -> list[int]:
    """The channels of a padded tensor: old ones by their numbers, and NEW."""
    behind = [place for n in range(count) for place in (n, *[NEW] * pads.get(n, 0))]
    return [*[NEW] * pads.get(FRONT, 0), *behind]


def widened(view: ChannelView[T], step: ChannelOp[T], pads: Pads | None) -> range | None:
    """Channels that a slice with one output may take instead, so that its source stays as it is."""
    if step.role is not ChannelRole.SLICE or step.even or len(step.outputs) > 1 or not pads:
        return None
    part, count = step.ranges[0], view.channels(step.inputs[0])
    if not pads.keys() <= {FRONT, len(part) - 1}:
        return None
    wide = range(part.start - pads.get(FRONT, 0), part.stop + pads.get(len(part) - 1, 0))
    return wide if wide.start >= 0 and wide.stop <= count else None


def find_region(view: ChannelView[T], start: T, pads: Pads) -> ChannelRegion[T]:
    """All that is padded when `start` is; NotFitting where it cannot be done exactly."""
    padded = _spread_pads(view, start, pads)
    steps: dict[int, ChannelOp[T]] = {}
    cut: dict[T, tuple[ChannelOp[T], ...]] = {}
    for tensor, added in padded.items():
        maker, readers = view.maker(tensor), view.readers(tensor)
        if maker is None:
            raise NotFitting(f"the channels of {view.title(tensor)} come from outside the network")
        if maker.role is ChannelRole.OTHER:
            raise NotFitting(
                f"{maker.name} computes these channels and cannot compute more of them"
            )
        inside = [step for step in readers if step.role is not ChannelRole.OTHER]
        outside = tuple(step for step in readers if step.role is ChannelRole.OTHER)
        if outside or view.is_output(tensor):
            # Old channels can be sliced out where the new ones are all on their sides.
            if not added.keys() <= {FRONT, view.channels(tensor) - 1}:
                who, what = outside[0].name if outside else "the application", view.title(tensor)
                raise NotFitting(f"{who} reads {what}, which has new channels in its middle")
            cut[tensor] = outside
        steps.update({id(step.node): step for step in (maker, *inside)})
    slices = (step for step in steps.values() if step.role is ChannelRole.SLICE)
    bounds = {id(step.node): _bounds(view, step, padded) for step in slices}
    return ChannelRegion(padded, tuple(steps.values()), cut, bounds)


def _spread_pads(view: ChannelView[T], start: T, pads: Pads) -> dict[T, Pads]:
    """The new channels of every tensor that shares those of the first."""
    region: dict[T, Pads] = {}
    waiting = [(start, pads)]
    while waiting:
        tensor, more = waiting.pop()
        old = region.get(tensor, {})
        if more.keys() <= old.keys():
            continue
        region[tensor] = {**old, **more}
        maker = view.maker(tensor)
        for step in (*([maker] if maker else []), *view.readers(tensor)):
            waiting.extend(_spread(view, step, tensor, region[tensor]))
    return region


def _spread(
    view: ChannelView[T], step: ChannelOp[T], tensor: T, pads: Pads
) -> Iterator[tuple[T, Pads]]:
    """The other tensors of an op, with the new channels that they get from this one."""
    if step.role is ChannelRole.APART:
        yield from ((other, pads) for other in (*step.inputs, *step.outputs))
        return
    if step.role is ChannelRole.JOIN:
        counts = [view.channels(one) for one in step.inputs]
        ends = zip(step.inputs, counts, accumulate(counts), strict=True)
        pieces, whole = [(one, range(end - n, end)) for one, n, end in ends], step.outputs[0]
    elif step.role is ChannelRole.SLICE:
        pieces, whole = [*zip(step.outputs, step.ranges, strict=True)], step.inputs[0]
    else:
        return
    if step.role is ChannelRole.JOIN and tensor == whole and FRONT in pads:
        raise NotFitting(f"{step.name} has no room for new channels at its start")
    for piece, part in pieces:
        if tensor == whole:
            yield piece, {n - part.start: new for n, new in pads.items() if n in part}
        elif tensor == piece and widened(view, step, pads) is None:
            if FRONT in pads:
                raise NotFitting(f"{step.name} leaves no room for new channels at its start")
            places = step.ranges if step.even else [part]
            yield whole, {n + p.start: new for p in places for n, new in pads.items()}


def _bounds(
    view: ChannelView[T], step: ChannelOp[T], padded: Mapping[T, Pads]
) -> tuple[range, ...]:
    """Ranges in the padded source; each must have what its output needs."""
    source = step.inputs[0]
    index = layout(view.channels(source), padded.get(source, {}))
    ranges = []
    for output, part in zip(step.outputs, step.ranges, strict=True):
        pads = padded.get(output, {})
        wide = widened(view, step, pads) or part
        length = len(part) + sum(pads.values())
        fitting = (r for r in (_placed(index, part), _placed(index, wide)) if len(r) == length)
        place = next(fitting, None)
        if place is None:
            raise NotFitting(f"{step.name} cannot carry the new channels")
        ranges.append(place)
    return tuple(ranges)


def _placed(index: list[int], part: range) -> range:
    """Where old channels stand now, with the new ones behind them."""
    end = index.index(part.stop) if part.stop in index else len(index)
    return range(index.index(part.start), end)
