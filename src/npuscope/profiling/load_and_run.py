"""Load an image on the emulated board and run it: what the vendor's load-and-run does on a desk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuscope.boards.device import NOTHING, DeviceInfo, Inference, NetworkDesc, Request
from npuscope.boards.emulated.boot import Placed, load
from npuscope.errors import UsageError
from npuscope.loadable.image import read_image
from npuscope.loadable.image_model import Image
from npuscope.machine.load import load_machine
from npuscope.machine.model import Clocks
from npuscope.profiling.measure import random_inputs
from npuscope.shown import Shown, counted

_OLD_RUNTIME = (1, 1, 2)  # the last of dialect 2


@dataclass(frozen=True, slots=True, repr=False)
class LoadAndRun(Shown):
    """The image, the board it ran on, and its inferences."""

    image: Image
    placed: Placed
    info: DeviceInfo
    network: NetworkDesc
    inferences: tuple[Inference, ...]

    @property
    def phases(self) -> tuple[float, float, float]:
        """MCU cycles before, during and after the epochs: the mean of the inferences."""
        rows = [inference.mcu_cycles for inference in self.inferences]
        pre, core, post = (float(value) for value in np.mean(rows, axis=0))
        return pre, core, post

    @property
    def total_ms(self) -> float:
        return sum(self.phases) / self.info.clocks.mcu_hz * 1e3

    def told(self) -> str:
        if not self.inferences:
            return f"{self.network.name} loaded, not run"
        times = counted(len(self.inferences), "inference")
        return f"{self.network.name}: {self.total_ms:.3f} ms, {times}"


def dialect_of(image: Image) -> int:
    return 2 if image.context.version <= _OLD_RUNTIME else 3


def generation_of(image: Image) -> str:
    """The runtime tells the generation roughly: 3.0 and 4.0 share one."""
    return "2.2" if dialect_of(image) == 2 else "4.0"


def load_and_run(
    placed: Placed,
    clocks: Clocks,
    *,
    generation: str = "",
    batch: int = 1,
    inputs: Sequence[np.ndarray] | None = None,
) -> LoadAndRun:
    """Start the board with one image and run it; no inference at all where `batch` is 0."""
    image = read_image(placed.image, placed.params)
    known = load_machine(generation=generation or generation_of(image)).generation.name
    found = load([placed], known, clocks, dialect=dialect_of(image))
    found.require_all()
    board = found.board
    try:
        info = board.info()
        network = info.networks[0]
        asked = Request(network.name, _inputs(network, inputs), per_layer=True, options=NOTHING)
        inferences = tuple(board.run(asked) for _ in range(batch))
    finally:
        board.close()
    return LoadAndRun(image, placed, info, network, inferences)


def _inputs(network: NetworkDesc, given: Sequence[np.ndarray] | None) -> tuple[np.ndarray, ...]:
    if given is None:
        return random_inputs(network)
    if len(given) != len(network.inputs):
        raise UsageError(f"{len(given)} inputs for a network of {len(network.inputs)}")
    return tuple(given)
