"""Channel shuffles as convolutions: every value arrives as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.nets import MACHINES
from edits.border_case import edited, graph_of, misfit
from edits.channel_case import FORMATS, SCALE, LiteNet, Net, QdqNet
from edits.channel_nets import check_exact, total_ms
from edits.moves_case import findings, fixed, off_npu
from npuscope.compiler.pipeline import compile_graph
from npuscope.edits.channels import permutation
from npuscope.files.load import load_model
from npuscope.profiling.validate import validate


def shuffled(net: Net, channels: int, groups: int, size: int = 12) -> bytes:
    x = net.conv(net.input((1, size, size, 3)), channels)
    return net.finish(net.conv(net.shuffle(x, groups), 8))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("generation", ["2.2", "4.0"])
@pytest.mark.parametrize(("channels", "groups"), [(48, 2), (24, 3), (58, 2)])
def test_a_shuffle_runs_on_the_npu_and_is_exact(
    form: type[Net], generation: str, channels: int, groups: int
) -> None:
    data = shuffled(form(), channels, groups)
    assert off_npu(data, generation) == ["Transpose"]
    after = fixed(data, "NA-TRANSPOSE", "shuffle-conv", generation)
    check_exact(data, after)
    assert off_npu(after, generation) == []
    assert total_ms(graph_of(after), generation) < total_ms(graph_of(data), generation)


@pytest.mark.parametrize("form", FORMATS)
def test_the_arithmetic_of_the_npu_keeps_every_value(form: type[Net]) -> None:
    """Also with a zero point that is subtracted inside of the unit."""
    net = form()
    x = net.input((1, 6, 6, 16), 3)
    data = edited(net.finish(net.shuffle(x, 4)), "shuffle-conv", *_transpose(net))
    graph, machine = graph_of(data), MACHINES["4.0"]
    found = validate(compile_graph(graph, machine), graph, machine, seeds=2)
    assert found.layers_exact_share == 1.0
    assert [output.max_lsb for output in found.outputs] == [0.0]


def _transpose(net: Net) -> tuple[str, ...]:
    """The op in the middle of a network that is a shuffle only."""
    return ("TRANSPOSE:#1",) if isinstance(net, LiteNet) else ("Transpose:Transpose5",)


def test_a_network_without_quantization_between_gets_it() -> None:
    net = QdqNet()
    x, writer = net.conv(net.input((1, 6, 6, 3)), 12), net.writer
    y = writer.node("Reshape", x.id, writer.constant(np.array([1, 3, 4, 6, 6])))
    y = writer.node("Transpose", y, name="t", perm=[0, 2, 1, 3, 4])
    y = writer.node("Reshape", y, writer.constant(np.array([1, 12, 6, 6])))
    data = writer.finish({y: None})
    after = edited(data, "shuffle-conv", "Transpose:t")
    check_exact(data, after)


def test_a_permutation_is_found_by_what_moves() -> None:
    found = permutation((1, 6, 2, 2), (1, 2, 3, 2, 2), (0, 2, 1, 3, 4), 1)
    assert found is not None and found.tolist() == [0, 3, 1, 4, 2, 5]
    assert permutation((1, 6, 2, 2), (1, 6, 2, 2), (0, 1, 3, 2), 1) is None
    assert permutation((1, 6, 2, 3), (1, 6, 3, 2), (0, 1, 3, 2), 1) is None


@pytest.mark.parametrize("form", FORMATS)
def test_only_shuffles_offer_the_fix(form: type[Net]) -> None:
    data = shuffled(form(), 24, 3)
    (found,) = findings(data, "NA-TRANSPOSE")
    assert {fix.id: dict(fix.parameters) for fix in found.fixes} == {
        "shuffle-conv": {"channels": 24},
        "merge-axes": {},
    }


def test_what_is_no_shuffle_is_told() -> None:
    net = QdqNet()
    x = net.input((1, 6, 6, 8))
    y = net.writer.node("Transpose", x.id, name="t", perm=[0, 1, 3, 2])
    data = net.writer.finish({net.writer.qdq(y, SCALE, 3): None})
    told = "Transpose:t is not alone between two Reshapes"
    assert misfit(data, "shuffle-conv", "Transpose:t") == told
    lite = LiteNet()
    y = lite.shuffle(lite.input((1, 4, 4, 6)), 2)
    turned = lite.writer.finish(lite.inputs, [y.id, y.id - 2])
    told = "TRANSPOSE:#1 is not alone between two RESHAPEs"
    assert misfit(turned, "shuffle-conv", "TRANSPOSE:#1") == told


def test_another_quantization_on_the_way_is_told() -> None:
    net = QdqNet()
    x, writer = net.input((1, 6, 6, 12)), net.writer
    y = writer.node("Reshape", x.id, writer.constant(np.array([1, 3, 4, 6, 6])))
    y = writer.node("Transpose", writer.qdq(y, 2 * SCALE), name="t", perm=[0, 2, 1, 3, 4])
    y = writer.node("Reshape", y, writer.constant(np.array([1, 12, 6, 6])))
    data = writer.finish({writer.qdq(y, SCALE): None})
    told = "the data of Transpose:t are requantized on the way"
    assert misfit(data, "shuffle-conv", "Transpose:t") == told


def test_floats_are_told() -> None:
    net = QdqNet()
    writer = net.writer
    x = writer.input("x", (1, 12, 6, 6))
    y = writer.node("Reshape", x, writer.constant(np.array([1, 3, 4, 6, 6])))
    y = writer.node("Transpose", y, name="t", perm=[0, 2, 1, 3, 4])
    y = writer.node("Reshape", y, writer.constant(np.array([1, 12, 6, 6])))
    data = writer.finish({writer.qdq(y, SCALE): None})
    assert (
        misfit(data, "shuffle-conv", "Transpose:t") == "the data of Transpose:t are not quantized"
    )


def test_a_real_network_loses_its_shuffles(shared_models: Path) -> None:
    path = shared_models / "shufflenetv2_x050_pt_224_rand_qdq_int8.onnx"
    data = path.read_bytes()
    ops = [op for op in load_model(path).ops if op.kind == "Transpose"]
    origins = [op.origin[0] for op in ops if op.origin[0].startswith("Transpose")]
    for origin in origins[:2]:
        data = edited(data, "shuffle-conv", origin)
    assert off_npu(data).count("Transpose") == len(origins) - 2
