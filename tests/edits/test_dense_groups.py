"""Groups as one dense kernel: the same results, now on the NPU."""

from __future__ import annotations

import numpy as np
import pytest

from edits.border_case import edited, graph_of, misfit
from edits.channel_case import FORMATS, SCALE, LiteNet, Net, QdqNet
from edits.channel_nets import check_exact
from edits.moves_case import findings, fixed, off_npu
from models_tflite import SAME
from npuscope.edits.channels import block_diagonal


def grouped(net: Net, inputs: int, outputs: int, groups: int) -> bytes:
    x = net.conv(net.input((1, 6, 6, 3)), inputs)
    return net.finish(net.conv(x, outputs, 3, groups=groups))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("inputs", "outputs", "groups"), [(18, 8, 2), (6, 18, 2), (20, 20, 2)])
def test_groups_become_dense(form: type[Net], inputs: int, outputs: int, groups: int) -> None:
    data = grouped(form(), inputs, outputs, groups)
    assert len(findings(data, "NA-CONV-GROUPS")) == 1
    after = fixed(data, "NA-CONV-GROUPS", "dense-groups")
    check_exact(data, after)
    assert off_npu(after) == off_npu(after, "2.2") == []
    assert findings(after, "NA-CONV-GROUPS") == []


def test_a_depthwise_layer_with_a_multiplier_becomes_dense() -> None:
    net = LiteNet()
    x = net.conv(net.input((1, 5, 5, 3)), 4)
    weights = net.random.integers(-127, 127, (1, 3, 3, 8), np.int8)
    scales = tuple(np.linspace(0.001, 0.003, 8, dtype=np.float32).astype(float))
    sums = tuple(float(np.float32(SCALE) * np.float32(scale)) for scale in scales)
    kernel = net.writer.constant("kernel", weights, scale=scales, axis=3)
    bias = net.writer.constant("bias", np.arange(8, dtype=np.int32), scale=sums)
    y = net.writer.tensor("y", (1, 5, 5, 8), scale=SCALE, zero_point=-3)
    options = {"depthMultiplier": 2, "padding": SAME}
    net.writer.op("DEPTHWISE_CONV_2D", [x.id, kernel, bias], [y], **options)
    data = net.writer.finish(net.inputs, [y])
    after = edited(data, "dense-groups", "DEPTHWISE_CONV_2D:#1")
    check_exact(data, after)
    assert off_npu(after) == []


def test_kernels_stand_at_their_group() -> None:
    weights = np.arange(1, 9, dtype=np.int8).reshape(4, 2, 1, 1)
    dense = block_diagonal(weights, 2, 1, 0).reshape(4, 4)
    assert dense.tolist() == [[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 5, 6], [0, 0, 7, 8]]


@pytest.mark.parametrize("form", FORMATS)
def test_what_needs_no_dense_kernel_is_told(form: type[Net]) -> None:
    for groups, told in ((1, "has no groups"), (4, "is depthwise: the NPU has a mode for it")):
        data = grouped(form(), 4, 4, groups)
        (origin,) = graph_of(data).ops[-1 if form is LiteNet else -2].origin
        assert misfit(data, "dense-groups", origin) == f"{origin} {told}"


def test_weights_with_a_zero_point_keep_it_outside_of_the_groups() -> None:
    net = QdqNet()
    x = net.input((1, 4, 4, 4))
    weights = net.random.integers(-127, 127, (4, 2, 3, 3), np.int8)
    held = net.writer.dequantize(net.writer.constant(weights), 0.003, 7)
    y = net.writer.node("Conv", x.id, held, name="c", group=2, pads=[1, 1, 1, 1])
    data = net.writer.finish({net.writer.qdq(y, SCALE, -3): None})
    after = edited(data, "dense-groups", "Conv:c")
    check_exact(data, after)
