"""What may be chosen for a network: axes with their choices, and points that take one of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from msgspec import Struct, field

from npuscope.advice.memory import on_chip
from npuscope.errors import UsageError
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine

DEFAULT = "as it is"


class AxisSetting(Struct, frozen=True):
    """One choice of an axis: options of a build as keywords and as words, or an edit."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    edit: str = ""
    weights_in_ram: bool = False  # there is no flash
    changes_answers: bool = False


class Axis(Struct, frozen=True):
    """The first choice is what the user asked for."""

    name: str
    settings: tuple[AxisSetting, ...]


Point = tuple[int, ...]  # a place on every axis


class TuneSpace(Struct, frozen=True):
    axes: tuple[Axis, ...]

    @property
    def size(self) -> int:
        return prod(len(axis.settings) for axis in self.axes)

    @property
    def start(self) -> Point:
        return (0,) * len(self.axes)

    def settings(self, point: Point) -> tuple[AxisSetting, ...]:
        return tuple(axis.settings[place] for axis, place in zip(self.axes, point, strict=True))

    def options(self, point: Point) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for setting in self.settings(point):
            for key, value in setting.options.items():
                merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
        return merged

    def edits(self, point: Point) -> tuple[str, ...]:
        return tuple(sorted(s.edit for s in self.settings(point) if s.edit))

    def words(self, point: Point) -> list[str]:
        return [word for setting in self.settings(point) for word in setting.words]

    def weights_in_ram(self, point: Point) -> bool:
        return any(setting.weights_in_ram for setting in self.settings(point))

    def answers(self, point: Point) -> tuple[str, ...]:
        """What decides them: points that have it in common answer alike."""
        return tuple(setting.name for setting in self.settings(point) if setting.changes_answers)

    def name(self, point: Point) -> str:
        """What is not as the user asked for it."""
        names = [
            setting.name
            for setting, place in zip(self.settings(point), point, strict=True)
            if place
        ]
        return ", ".join(names) or DEFAULT

    def single_steps(self) -> Iterator[Point]:
        """The start, and all points that differ from it on one axis."""
        yield self.start
        for number, axis in enumerate(self.axes):
            for place in range(1, len(axis.settings)):
                yield tuple(place if n == number else 0 for n in range(len(self.axes)))

    def points(self, free: Sequence[int]) -> Iterator[Point]:
        """All that differ from the start on these axes only."""
        places = [
            range(len(axis.settings)) if number in free else (0,)
            for number, axis in enumerate(self.axes)
        ]
        yield from product(*places)


def build_axes(
    machine: Machine, options: Mapping[str, Any], generations: Sequence[str]
) -> list[Axis]:
    """Options of the compiler and its pools; what was given on the command line is not varied."""
    axes = []
    if generations:
        axes.append(
            Axis(
                "generation",
                tuple(
                    AxisSetting(f"generation {g}", {"generation": g}, ("--generation", g))
                    for g in generations
                ),
            )
        )
    if options.get("optimization") is None:
        levels = [AxisSetting(f"-O{n}", {"optimization": n}, (f"-O{n}",)) for n in (3, 2, 1, 0)]
        axes.append(Axis("optimization", (AxisSetting(DEFAULT), *levels)))
    if options.get("epoch_controller") is None:
        off = AxisSetting(
            "no epoch controller", {"epoch_controller": False}, ("--no-epoch-controller",)
        )
        axes.append(Axis("epoch controller", (AxisSetting(DEFAULT), off)))
    if not options.get("mpool"):
        external = [pool for pool in machine.external_pools if pool.writable and pool.size_bytes]
        choices = [AxisSetting(DEFAULT)]
        if external:
            sizes: dict[str, object] = {f"pools.{pool.name}.size_kib": 0 for pool in external}
            choices.append(_sized("no external RAM", sizes))
        choices.append(_sized("on chip only", on_chip(machine), weights_in_ram=True))
        axes.append(Axis("memories", tuple(choices)))
    return axes


def size_axis(graph: Graph, sizes: Sequence[tuple[int, int]]) -> Axis:
    """Rows and columns of the picture that the network takes."""
    pictures = [name for name in graph.inputs if len(graph.tensor(name).shape) == 4]
    if len(pictures) != 1:
        raise UsageError(f"expected one picture as input, found {len(pictures)}", where="--sizes")
    name, shape = pictures[0], graph.tensor(pictures[0]).shape
    first = shape[1] in (1, 3) and shape[3] not in (1, 3)
    settings = [AxisSetting(DEFAULT)]
    for rows, columns in sizes:
        sized = (
            (shape[0], shape[1], rows, columns) if first else (shape[0], rows, columns, shape[3])
        )
        if sized != shape:
            words = ("--shape", f"{name}={','.join(map(str, sized))}")
            title = f"input {rows}x{columns}"
            settings.append(
                AxisSetting(title, {"shapes": {name: sized}}, words, changes_answers=True)
            )
    return Axis("input size", tuple(settings))


def machine_axis(names: Sequence[str]) -> Axis:
    """The first is what the others are compared with."""
    return Axis(
        "machine",
        tuple(AxisSetting(name, {"machine": name}, ("--machine", name)) for name in names),
    )


def _sized(name: str, sizes: Mapping[str, object], weights_in_ram: bool = False) -> AxisSetting:
    words = [word for key, size in sizes.items() for word in ("--set", f"{key}={size}")]
    return AxisSetting(name, {"overrides": dict(sizes)}, tuple(words), "", weights_in_ram)


def edit_axis(fix: str, title: str, changes_answers: bool = False) -> Axis:
    with_it = AxisSetting(fix, edit=fix, changes_answers=changes_answers)
    return Axis(title, (AxisSetting("without it"), with_it))
