"""Operators of an epoch as c_info.json lists them: chain by chain, each with the tensors and
coefficients that its unit reads and writes. Units in series are an operator each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from msgspec import Struct

import npuscope.program.c_info.names as names
from npuscope.program.model import Buffer, Epoch, EpochKind, Group, Program
from npuscope.program.unit_words import DEEP_BYTES
from npuscope.program.units import Activ, Arith, Convacc, Ref, Streng, Unit

_SUMS = 2  # port of a convolution unit
SUM_BITS = 16
_Key = tuple[str, int]  # a unit's type and number


class ListedOperator(Struct, frozen=True):
    """`place` is that of the operator in the epoch; `series` counts further units in series."""

    place: int
    kind: str
    unit: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    series: int = 0


class ListedLayout(Struct, frozen=True):
    """A parameter as vendors state it: how its layer takes it apart."""

    shape: tuple[int, ...]
    batch: int


def vectors(unit: Unit) -> list[Ref]:
    """Coefficients that a unit is configured with."""
    places: tuple[Ref | None, ...] = ()
    if isinstance(unit, Arith):
        places = unit.A_vector, unit.B_vector, unit.C_vector
    elif isinstance(unit, Activ):
        places = unit.ROM0_vector, unit.ROM1_vector, unit.LUT_vector
    return [place for place in places if place is not None]


def operators_of(epoch: Epoch) -> list[ListedOperator]:
    """As configured where the epoch has units, else by name alone."""
    plain = [ListedOperator(place, kind) for place, kind in enumerate(epoch.operators)]
    if epoch.kind is not EpochKind.HW or not epoch.groups:
        return plain
    wirings = [_Wiring(group) for group in epoch.groups]
    waiting = [(wiring, key) for wiring in wirings for key in wiring.heads]
    chains: dict[int, tuple[_Wiring, _Key]] = {}
    for one in plain:
        kind = names.OPERATOR_UNITS.get(one.kind, "ACTIV")
        chain = next((pair for pair in waiting if pair[1][0] == kind), None)
        if chain is not None:
            waiting.remove(chain)
            chains[one.place] = chain
    rest = [one for one in plain if one.place not in chains]
    copies = [pair for wiring in wirings for pair in wiring.copies()]
    copying = {one.place: _copy(one, pair) for one, pair in zip(rest, copies, strict=False)}
    listed = (copying.get(one.place, one) for one in _by_chain(plain, chains))
    return [part for one in listed for part in _parts(one, chains.get(one.place))]


class _Wiring:
    """What feeds and follows each unit of a group."""

    def __init__(self, group: Group) -> None:
        self.units = {(unit.unit, unit.id): unit for unit in group.units}
        self.links = [
            (
                (link.source.unit, link.source.id),
                (link.destination.unit, link.destination.id),
                link.destination,
            )
            for link in group.links
        ]
        self.heads = [
            key
            for key, unit in self.units.items()
            if not isinstance(unit, Streng) and self._in_front(key) is None
        ]

    def _in_front(self, key: _Key) -> _Key | None:
        """The convolution unit whose sums go on in this one."""
        pairs = ((a, b) for a, b, port in self.links if b == key and port.port == _SUMS)
        return next((a for a, b in pairs if a[0] == b[0] == Convacc.unit and a != b), None)

    def series(self, key: _Key) -> list[_Key]:
        row = [key]
        while (after := next((k for k in self.units if self._in_front(k) == row[-1]), None)) and (
            after not in row
        ):
            row.append(after)
        return row

    def followers(self, key: _Key) -> Iterator[_Key]:
        last = self.series(key)[-1]
        return (b for a, b, _ in self.links if a == last and b[0] != Streng.unit and b != last)

    def reads(self, key: _Key) -> list[str]:
        """Sums that a layer reads again are its result, not an operand."""
        is_layer = key[0] == Convacc.unit
        streams = [
            self.units[a]
            for a, b, port in self.links
            if b == key and a[0] == Streng.unit and not (is_layer and port.port == _SUMS)
        ]
        buffers = [unit.addr_base.buffer for unit in streams if isinstance(unit, Streng)]
        return list(dict.fromkeys([*buffers, *(ref.buffer for ref in vectors(self.units[key]))]))

    def copies(self) -> Iterator[tuple[str, str]]:
        """From engine to engine."""
        for a, b, _ in self.links:
            ends = self.units[a], self.units[b]
            if isinstance(ends[0], Streng) and isinstance(ends[1], Streng):
                yield ends[0].addr_base.buffer, ends[1].addr_base.buffer

    def partial(self, key: _Key) -> set[str]:
        """Sums that the layer reads again."""
        row = self.series(key)
        links = ((a, b, port) for a, b, port in self.links if b in row and port.port == _SUMS)
        again = (self.units[a] for a, _, _ in links)
        return {unit.addr_base.buffer for unit in again if isinstance(unit, Streng)}

    def writes(self, key: _Key) -> list[str]:
        streams = [self.units[b] for a, b, _ in self.links if a == key and b[0] == Streng.unit]
        buffers = (unit.addr_base.buffer for unit in streams if isinstance(unit, Streng))
        return list(dict.fromkeys(buffers))


def _copy(one: ListedOperator, pair: tuple[str, str]) -> ListedOperator:
    return ListedOperator(one.place, one.kind, "", (pair[0],), (pair[1],))


def _by_chain(
    plain: list[ListedOperator], chains: Mapping[int, tuple[_Wiring, _Key]]
) -> Iterator[ListedOperator]:
    """What streams into each other stands together; what takes of two chains behind both."""
    owner = {(id(wiring), key): place for place, (wiring, key) in chains.items()}
    after: dict[int, list[int]] = {}
    missing = dict.fromkeys((one.place for one in plain), 0)
    for place, (wiring, key) in chains.items():
        keys = ((id(wiring), follower) for follower in wiring.followers(key))
        after[place] = sorted({owner[k] for k in keys if k in owner} - {place})
        for follower in after[place]:
            missing[follower] += 1
    line = [one.place for one in plain if not missing[one.place]][::-1]
    listed: list[int] = []
    while line:
        listed.append(line.pop())
        for follower in after.get(listed[-1], ()):
            missing[follower] -= 1
            if not missing[follower]:
                line.append(follower)
    rest = [one.place for one in plain if one.place not in set(listed)]
    return (plain[place] for place in (*listed, *rest))


def _parts(one: ListedOperator, chain: tuple[_Wiring, _Key] | None) -> Iterator[ListedOperator]:
    if chain is None:
        yield one
        return
    wiring, head = chain
    for number, key in enumerate(wiring.series(head)):
        unit = f"{names.UNITS[key[0]]} {key[1]}"
        reads, writes = tuple(wiring.reads(key)), tuple(wiring.writes(key))
        yield ListedOperator(one.place, one.kind, unit, reads, writes, number)


def layouts(program: Program) -> dict[str, ListedLayout]:
    """Weights as outputs, inputs, rows, columns with the channels of a frame; coefficients behind a
    layer with the results of a frame."""
    buffers = program.buffer_map()
    by_name: dict[str, ListedLayout] = {}
    for epoch in program.epochs:
        for group in epoch.groups or ():
            for name, layout in _layouts(_Wiring(group), buffers):
                # What two layers read otherwise keeps its own shape.
                plain = ListedLayout(names.listed_shape(buffers[name]), int(buffers[name].batch))
                same = by_name.setdefault(name, layout) == layout
                by_name[name] = layout if same else plain
    return by_name


def _layouts(wiring: _Wiring, buffers: Mapping[str, Buffer]) -> Iterator[tuple[str, ListedLayout]]:
    for key in wiring.heads:
        unit = wiring.units[key]
        if not isinstance(unit, Convacc):
            continue
        read = [buffers[name] for name in wiring.reads(key) if name in buffers]
        weights = [one for one in read if one.is_param]
        maps = [one for one in read if not one.is_param]
        behind = _behind(wiring, key)
        last = wiring.series(key)[-1]
        for name in wiring.writes(last):
            if name in buffers and is_sums(buffers[name]):
                yield name, ListedLayout(names.listed_shape(buffers[name]), int(unit.nKernels))
        coefficients = [
            buffers[r.buffer] for u in behind for r in vectors(u) if r.buffer in buffers
        ]
        for vector in coefficients:
            if len(vector.shape) == 1 and vector.shape[0] > 1:
                yield vector.name, ListedLayout((vector.shape[0], 1, 1), int(unit.nKernels))
        if len(weights) == 1 and len(weights[0].shape) == 1:
            results = [buffers[name].shape[-1] for name in _results(wiring, key) if name in buffers]
            outputs = max((prod(vector.shape) for vector in coefficients), default=0)
            outputs = outputs if outputs > 1 else int(max(results, default=0))
            shape = _weights_shape(unit, weights[0], maps, outputs)
            if shape:
                yield weights[0].name, ListedLayout(shape, int(unit.batchDepth))


def is_sums(buffer: Buffer) -> bool:
    """Of a layer, in memory: 16 bits, of which the Program does not state the frames."""
    return buffer.nbits == SUM_BITS and not buffer.is_param and buffer.batch == buffer.channels


def _results(wiring: _Wiring, key: _Key) -> list[str]:
    """What the first unit behind the layer that writes anything writes."""
    while True:
        sums = wiring.partial(key)
        results = [n for part in wiring.series(key) for n in wiring.writes(part) if n not in sums]
        follower = next(wiring.followers(key), None)
        if results or follower is None:
            return results
        key = follower


def _behind(wiring: _Wiring, key: _Key) -> list[Unit]:
    """The two arithmetic units that bring a layer's sums back to bytes."""
    row: list[Unit] = []
    while len(row) < 2 and (key := next(wiring.followers(key), ("", 0)))[0] == Arith.unit:
        row.append(wiring.units[key])
    return row


def _weights_shape(
    unit: Convacc, weights: Buffer, maps: list[Buffer], outputs: int
) -> tuple[int, ...]:
    """Words of the deep mode are filled up."""
    window = (int(unit.kernelHeight), int(unit.kernelWidth))
    elements = int(weights.size_bytes) * 8 // int(weights.nbits)
    filled = outputs * prod(window) * (DEEP_BYTES - 1) if unit.deepmode else 0
    channels = [int(one.shape[-1]) for one in maps]
    for inputs in (*channels, int(unit.batchDepth)):
        if 0 <= elements - outputs * inputs * prod(window) <= filled:
            return (outputs, inputs, *window)
    return ()
