"""Refusals inside of the compiler name their place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npuscope
from models import OnnxWriter, save
from npuscope.compiler.emit.buffers import BufferTable, EpochBuilder
from npuscope.compiler.lower.context import quant_pair, tensor_value
from npuscope.compiler.stages import Lowered
from npuscope.demo_network import demo_graph
from npuscope.errors import ModelError, TargetError
from npuscope.graph.model import DType, Quant, Tensor
from npuscope.machine.load import load_machine
from npuscope.structs import replace


def test_a_value_without_scales_is_named() -> None:
    shape = (1, 4, 4, 8)
    assert quant_pair(tensor_value(Tensor("y", shape, DType.INT8, Quant((0.5,), (3,))))) == (0.5, 3)
    with pytest.raises(ModelError) as caught:
        quant_pair(tensor_value(Tensor("x", shape, DType.INT8)))
    assert str(caught.value) == "tensor 'x': the tensor has no quantization"


def test_an_epoch_that_needs_more_units_is_named() -> None:
    machine = load_machine()
    machine = replace(machine, units={**machine.units, "POOL": 1})
    epoch = EpochBuilder(machine, BufferTable(Lowered([], [], []), demo_graph(), {}), 7)
    assert epoch.take("POOL") == 0
    with pytest.raises(TargetError) as caught:
        epoch.take("POOL")
    assert str(caught.value) == (
        "epoch 7: the epoch needs more POOL units than the machine has (1)\n"
        "  hint: the program was compiled for more of them: set a larger units.POOL"
    )


@pytest.mark.parametrize("function", ["LeakyRelu", "Tanh"])
def test_a_layer_between_integers_makes_no_float_network(tmp_path: Path, function: str) -> None:
    """The function behind the layer stands before the QuantizeLinear, as exporters write it."""
    writer, rng = OnnxWriter(17), np.random.default_rng(2)
    x = writer.qdq(writer.input("x", (1, 8)), 0.02, 3)
    weights = writer.constant(rng.normal(size=(8, 4)).astype(np.float32))
    layer = writer.node("Gemm", x, weights, writer.constant(np.zeros(4, np.float32)))
    y = writer.quantize(writer.node(function, layer), 0.02, 3)
    writer.dequantize(y, 0.02, 3, output="y")
    path = save(tmp_path, "m.onnx", writer.finish({"y": None}))
    assert npuscope.validate(path).passed  # type: ignore[union-attr]
