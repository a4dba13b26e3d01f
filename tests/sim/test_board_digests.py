"""Outputs of published board runs, reproduced to all printed decimals, and what they can tell.

Ten samples of RandomState(42) over the whole input range; the board's report prints mean and
standard deviation of its int8 outputs. Mutations of one unit's rounding show which unit the boards
really speak about. Skipped where the networks are absent.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from npuscope.compiler.pipeline import compile_graph
from npuscope.files.load import load_model
from npuscope.graph.model import Tensor
from npuscope.machine.load import load_machine
from npuscope.program.model import Program
from npuscope.program.modes import ArithOp
from npuscope.program.units import Arith
from npuscope.sim.arithmetic import convacc, pool
from npuscope.sim.arithmetic import units as arith
from npuscope.sim.arithmetic.streams import floor_shift, half_even_shift
from npuscope.sim.run import execute
from sim.bench import Bench, feature_reader, half_away, link, writer

# Network -> "mean std" that the board printed, by compiler generation.
BOARD = {
    ("conv2d_16f_3x3", "2.2"): "64.900000 19.639628",
    ("conv2d_16f_3x3", "4.0"): "64.906250 19.645864",
    ("conv2d_3x3", "2.2"): "76.446875 17.571914",
    ("conv2d_3x3", "4.0"): "76.456250 17.573363",
    ("conv2d_1x1", "2.2"): "35.343750 42.566132",
    ("conv2d_1x1", "4.0"): "35.350000 42.566008",
    ("conv2d_pool", "2.2"): "80.100000 21.316426",
    ("conv2d_pool", "4.0"): "80.100000 21.316426",
    ("conv2d_32f_5x5", "2.2"): "85.675000 12.763743",
    ("conv2d_32f_5x5", "4.0"): "85.675000 12.765212",
    ("depthwise_3x3", "2.2"): "106.133333 9.552428",
    ("depthwise_3x3", "4.0"): "106.166667 9.581522",
}
SAMPLES = 10
# The network and generation that tells most mutations apart.
WITNESS = ("conv2d_1x1", "2.2")


@cache
def compiled(folder: Path, name: str, generation: str) -> tuple[Program, np.ndarray]:
    """The program and the board's samples."""
    graph = load_model(folder / f"baseline_{name}_int8.tflite")
    program = compile_graph(graph, load_machine(generation=generation))
    return program, board_samples(graph.tensor(graph.inputs[0]))


def board_samples(tensor: Tensor) -> np.ndarray:
    """Uniform reals over the range of the input's bytes, quantized."""
    scale, zero = np.float32(tensor.quant.scale), tensor.quant.zero_point
    low, high = (float(scale) * (limit - zero) for limit in tensor.dtype.limits)
    shape = (SAMPLES, *tensor.shape[1:])
    reals = np.random.RandomState(42).uniform(low, high, shape).astype(np.float32)
    return np.clip(np.round(reals / scale) + zero, -128, 127).astype(np.int8)


def digest(folder: Path, name: str, generation: str) -> str:
    program, samples = compiled(folder, name, generation)
    (source,), (result,) = program.inputs, program.outputs
    runs = [execute(program, {source: sample[None]}).outputs[result] for sample in samples]
    values = np.concatenate(runs).astype(float)
    return f"{values.mean():.6f} {values.std():.6f}"


@pytest.mark.parametrize(("name", "generation"), BOARD)
def test_the_boards_digest(shared_models, name, generation):
    assert digest(shared_models, name, generation) == BOARD[name, generation]


@pytest.mark.parametrize("rule", [half_even_shift, floor_shift])
@pytest.mark.parametrize("unit", [convacc, pool])
def test_another_rounding_breaks_the_digest(shared_models, monkeypatch, unit, rule):
    monkeypatch.setattr(unit, "round_shift", rule)
    assert digest(shared_models, *WITNESS) != BOARD[WITNESS]


def test_truncating_the_arithmetic_units_output_breaks_the_digest(shared_models, monkeypatch):
    monkeypatch.setattr(arith, "round_shift", floor_shift)
    assert digest(shared_models, *WITNESS) != BOARD[WITNESS]


# All twelve digests stay equal when A * x is rounded half to even or not at all: these networks
# use Ax_shift in one stage only, and its output shift drops 11 or 12 bits more, so that one unit
# of the product is less than a 2000th of a step. The boards say nothing of that rule; a test of
# the unit holds it instead.


def scaled(values: np.ndarray) -> np.ndarray:
    """rnd(A * x >> Ax_shift) of a stage that does nothing else, A = 1, Ax_shift = 2."""
    bench = Bench()
    shape = (1, 1, len(values), 1)
    source, target = bench.buffer("x", shape, 16), bench.buffer("y", shape, 8)
    unit = Arith(
        id=0,
        operation=ArithOp.AFFINE,
        fWidth=len(values),
        fHeight=1,
        fChannels=1,
        batchDepth=1,
        scalar=1,
        A_scalar=1,
        Ax_shift=2,
    )
    units = (feature_reader(0, source, 1), unit, writer(1, target, 1))
    links = (link("STRENG0", "ARITH0"), link("ARITH0", "STRENG1"))
    values = values.astype(np.int16).reshape(shape)
    return bench.run(units, links, {"x": values}).outputs["y"].reshape(-1)


TIES = np.arange(-40, 41)
ROUNDED = np.array([half_away(value, 2) for value in TIES])


def test_the_products_shift_rounds_ties_away_from_zero():
    np.testing.assert_array_equal(scaled(TIES), ROUNDED)


@pytest.mark.parametrize("rule", [half_even_shift, floor_shift])
def test_another_rounding_of_the_product_is_seen(monkeypatch, rule):
    monkeypatch.setattr(arith, "round_ax", rule)
    assert (scaled(TIES) != ROUNDED).any()
