"""Every dense convolution of the real models is cut as the rules say."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.nets import MACHINES
from compiler.test_tiling import Choice, Rules
from npuscope.compiler.lower.graph import lower_graph
from npuscope.compiler.passes import run_passes
from npuscope.compiler.stages import ConvStage
from npuscope.compiler.tiling import ConvShape
from npuscope.files.load import load_model
from npuscope.program.modes import Simd

LINE_BUFFER = 2048  # width x depth of kernels with several rows: not among the rules 3 to 7


def choice(stage: ConvStage) -> Choice:
    t = stage.tiling
    return Choice(t.deep, t.kernels, t.depth, t.pipe, t.passes, t.tiles)


def shape(stage: ConvStage) -> ConvShape:
    source, t = stage.inputs[0], stage.tiling
    outputs = t.kernels * t.tiles
    size = stage.output.shape[:2]
    return ConvShape(source.channels, outputs, stage.window, source.shape[:2], size, stage.strides)


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
        for stage in lower_graph(graph, machine, level).stages:
            if not isinstance(stage, ConvStage) or not is_ruled(stage):
                continue
            rules = Rules(shape(stage), Simd(stage.simd), deep_on_tie=generation == "2.2")
            wanted = rules.choice(level)
            if generation == "2.2" and choice(stage) != wanted and stage.tiling.kernels <= 8:
                in_front_of_a_pool += 1
                continue
            assert choice(stage) == wanted, (path.name, stage.name)
            seen += 1
    assert seen > 2000
    assert in_front_of_a_pool < 80
