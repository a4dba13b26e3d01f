"""A layer in two parts of its inputs: the remedy of the published question about 257 channels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import npuscope
from edits.border_case import edited, graph_of, misfit
from edits.channel_case import FORMATS, LiteNet, Net, QdqNet
from edits.channel_nets import two_cell_denoiser
from edits.moves_case import kinds, off_npu
from models import save
from npuscope.advice.fix.numeric import effects
from npuscope.compiler.pipeline import CompileOptions, compile_graph
from npuscope.machine.load import load_machine
from npuscope.program.model import EpochKind

HALVES, TILES = "144+113", "240+17"


def layer(net: Net, kind: str, inputs: int = 257) -> bytes:
    if kind == "dense":
        return net.finish(net.dense(net.input((1, inputs)), 40))
    return net.finish(net.conv(net.input((1, 1, 1, inputs)), 40))


def origin(data: bytes) -> tuple[str, ...]:
    (op,) = [op for op in graph_of(data).ops if op.kind in ("Conv2D", "FullyConnected")]
    return op.origin


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", ["dense", "pointwise"])
@pytest.mark.parametrize("parts", [HALVES, TILES])
def test_parts_add_up_on_the_npu(form: type[Net], kind: str, parts: str) -> None:
    data = layer(form(), kind)
    assert len(off_npu(data, "2.2")) == 1
    after = edited(data, "split-inputs", *origin(data), parts=parts)
    assert off_npu(after, "2.2") == []
    assert kinds(after).count("Add") == 1 and kinds(after).count("Slice") == 2
    # Each part is rounded once, and so is their sum.
    found = effects(graph_of(data), graph_of(after), 2)
    assert found and all(effect.max_lsb <= 3 and effect.sqnr_db > 30 for effect in found)


def test_the_function_of_the_layer_stays_behind_the_sum() -> None:
    """A fused ReLU of a part would lose what is negative."""
    net = LiteNet()
    data = net.finish(net.conv(net.input((1, 1, 1, 257)), 40, zero_point=-128))
    after = edited(data, "split-inputs", *origin(data), parts=HALVES)
    ops = {op.kind: op for op in graph_of(after).ops}
    assert ops["Conv2D"].attrs.activation.value == "none"  # type: ignore[attr-defined]
    assert ops["Add"].attrs.activation.value == "relu"  # type: ignore[attr-defined]


def test_other_parts_are_refused() -> None:
    data = layer(QdqNet(), "dense")
    name = origin(data)[0]
    assert misfit(data, "split-inputs", name, parts="100+100") == (
        f"parts '100+100' are not two of the 257 inputs of {name}"
    )


def test_the_network_of_the_question_is_that_network() -> None:
    """By its parameters: weights, biases, and the sizes of two Splits."""
    model = onnx.load_from_string(two_cell_denoiser())
    held = {init.name: numpy_helper.to_array(init) for init in model.graph.initializer}
    of_steps = {
        name
        for node in model.graph.node
        if node.op_type in ("QuantizeLinear", "DequantizeLinear")
        for name in node.input[1:]
    }
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    values = [np.size(array) for name, array in held.items() if name not in of_steps | shapes]
    assert sum(values) == 1_250_317


def test_the_layers_of_the_question_run_where_the_log_says() -> None:
    """23 epochs as published, on the CPU 2, 3 and 21: the first convolution, the Gemm right behind
    it, the last convolution. Those without work are epoch 1 and the one behind that convolution."""
    machine = load_machine(generation="2.1", epoch_controller=False)
    options = CompileOptions(optimization=3, alternative_schedule=True)
    program = compile_graph(graph_of(two_cell_denoiser()), machine, options)
    numbers: dict[EpochKind, list[int]] = {}
    for epoch in program.epochs:
        numbers.setdefault(epoch.kind, []).append(epoch.number)
    assert len(program.epochs) == 23
    assert numbers[EpochKind.SW] == [2, 3, 21]
    assert numbers[EpochKind.EMPTY] == [1, 22]
    away = [epoch.operators for epoch in program.epochs if epoch.kind is EpochKind.SW]
    assert away == [("Conv",), ("Gemm",), ("Conv",)]
    on_npu = {name for e in program.epochs if e.kind is EpochKind.HW for name in e.origin}
    assert sum(name.startswith("Gemm:") for name in on_npu) == 3
    assert sum(name.startswith("Conv:") for name in on_npu) == 1


@pytest.mark.parametrize(("generation", "layers"), [("3.0", 3), ("4.0", 3), ("open", 0)])
def test_later_compilers_leave_the_same_layers_to_the_cpu(generation: str, layers: int) -> None:
    assert len(off_npu(two_cell_denoiser(), generation)) == layers


@pytest.mark.parametrize("generation", ["2.0", "2.1", "2.2", "3.0", "4.0"])
def test_no_generation_takes_many_times_as_long_as_another(generation: str, tmp_path: Path) -> None:
    path = save(tmp_path, "denoiser.onnx", two_cell_denoiser())
    known = npuscope.estimate(path, generation="2.1").total_ms
    assert npuscope.estimate(path, generation=generation).total_ms == pytest.approx(known, rel=0.25)


def test_fix_ends_without_the_cpu(tmp_path: Path) -> None:
    path = save(tmp_path, "denoiser.onnx", two_cell_denoiser())
    fixed = npuscope.fix(path, generation="2.2")
    assert (fixed.before.counts["SW"], fixed.after.counts["SW"]) == (3, 0)
    assert all(effect.exact for effect in fixed.effects)
    asked = npuscope.fix(path, generation="2.2", only=("split-inputs",))
    (step,) = asked.applied
    assert step.candidate.fix.parameters == {"parts": TILES, "halves": HALVES}
    assert asked.after.counts["SW"] < asked.before.counts["SW"]
