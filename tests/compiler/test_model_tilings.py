"""Every dense convolution of the real models is cut as the rules say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from compiler.nets import MACHINES
from geometry.test_tiling import Choice, Rules
from npuscope.compiler.lower.graph import lower_graph
from npuscope.compiler.passes import run_passes
from npuscope.compiler.stages import ConvStage, Stage
from npuscope.files.load import load_model
from npuscope.geometry.tiling import ConvShape
from npuscope.program.modes import Simd
from npuscope.structs import replace

LINE_BUFFER = 2048  # width x depth of kernels with several rows: not among the rules 3 to 7
MOST_PASSES = 255  # the registers have 8 bits for them


Parts = dict[int, ConvStage]  # of a layer's input channels, by the first of them


def layers(stages: Iterable[Stage]) -> dict[str, Parts]:
    """The convolutions by name; pieces of one layer that read other channels are parts of it,
    while rows and columns of its kernel are convolutions of their own."""
    found: dict[str, Parts] = defaultdict(dict)
    for stage in stages:
        if isinstance(stage, ConvStage):
            layer, _, number = stage.name.rpartition(".piece")
            first = stage.inputs[0].first
            if not layer or first in found[layer]:
                layer = f"{layer}.{number}"
            found[layer][first] = stage
    return {name: parts for name, parts in found.items() if parts}


def choice(parts: Parts) -> Choice:
    """That of the whole layer: its parts do their passes one after the other."""
    (same,) = {replace(part.tiling, passes=0) for part in parts.values()}
    passes = sum(part.tiling.passes for part in parts.values())
    return Choice(same.deep, same.kernels, same.depth, same.pipe, passes, same.tiles)


def shape(parts: Parts) -> ConvShape:
    stage = next(iter(parts.values()))
    inputs = sum(part.inputs[0].channels for part in parts.values())
    source, t = stage.inputs[0], stage.tiling
    outputs = t.kernels * t.tiles
    size = stage.output.shape[:2]
    return ConvShape(inputs, outputs, stage.window, source.shape[:2], size, stage.strides)


def is_ruled(stage: ConvStage) -> bool:
    """Dense, not narrowed by the line buffer, and not in front of a pool."""
    wide = stage.window[0] > 1 and 8 * stage.inputs[0].shape[1] > LINE_BUFFER
    return not stage.tiling.grouped and not wide


@pytest.mark.parametrize(("generation", "level"), [("2.2", 3), ("2.2", 0), ("4.0", 0), ("4.0", 3)])
def test_all_models(shared_models: Path, generation: str, level: int) -> None:
    machine = MACHINES[generation]
    seen = in_front_of_a_pool = 0
    for path in sorted(shared_models.iterdir()):
        graph = run_passes(load_model(path), machine)
        for name, parts in layers(lower_graph(graph, machine, level).stages).items():
            stage = next(iter(parts.values()))
            if not is_ruled(stage):
                continue
            rules = Rules(shape(parts), Simd(stage.simd), deep_on_tie=generation == "2.2")
            wanted = rules.choice(level)
            if generation == "2.2" and choice(parts) != wanted and stage.tiling.kernels <= 8:
                in_front_of_a_pool += 1
                continue
            assert choice(parts) == wanted, (path.name, name)
            assert len(parts) == 1 and stage.tiling.passes <= MOST_PASSES, (path.name, name)
            seen += 1
    assert seen > 2000
    assert in_front_of_a_pool < 80
