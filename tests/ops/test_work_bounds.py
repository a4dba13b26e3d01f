"""Numbers of a file that multiply: what an op would take is known before anything is taken."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.errors import ModelError
from npuscope.graph.model import Attrs, DType, Graph, Op, Quant, Tensor
from npuscope.ops.layers import ConvAttrs, TransposeConvAttrs
from npuscope.ops.reduce import PoolAttrs
from npuscope.ops.run import check_work, run

Q = Quant((0.5,), (0,))
HUGE = 2**31 - 1


def layer(
    kind: str,
    attrs: Attrs,
    output: tuple[int, ...],
    weights: tuple[int, ...] = (),
    image: tuple[int, ...] = (1, 9, 9, 4),
    dtype: DType = DType.INT8,
) -> Graph:
    quant = None if dtype.is_float else Q
    tensors = [Tensor("x", image, dtype, quant), Tensor("y", output, dtype, quant)]
    if weights:
        values = np.arange(np.prod(weights)).reshape(weights) % 7
        tensors.append(Tensor("w", weights, dtype, quant, values.astype(dtype.numpy)))
    inputs = ("x", "w") if weights else ("x",)
    return Graph("net", tensors, [Op(kind, "the op", inputs, ("y",), attrs)], ("x",), ("y",))


def test_a_stride_beyond_the_image_costs_nothing() -> None:
    x = np.arange(9 * 9 * 4).reshape(1, 9, 9, 4).astype(np.int8)
    far, near = (
        layer("Conv2D", ConvAttrs((1, stride), (0, 0, 0, 0), groups=4), (1, 7, 1, 4), (4, 3, 3, 1))
        for stride in (HUGE, 9)
    )
    assert np.array_equal(run(far, {"x": x})["y"], run(near, {"x": x})["y"])


@pytest.mark.parametrize("dtype", [DType.INT8, DType.FLOAT32])
@pytest.mark.parametrize(
    ("kind", "attrs", "output", "weights"),
    [
        ("Conv2D", ConvAttrs((HUGE, HUGE), (HUGE, 0, 0, 0)), (1, 1, 1, 4), (4, 3, 3, 4)),
        (
            "Conv2D",
            ConvAttrs((1, 1), (2**20, 2**20, 0, 0), (2**20, 2**20)),
            (1, 9, 9, 4),
            (4, 2, 2, 4),
        ),
        ("MaxPool", PoolAttrs((2, 2), (HUGE, 1), (HUGE, 0, 0, 0)), (1, 1, 8, 4), ()),
        ("AveragePool", PoolAttrs((2, 2), (2**20, 2**20), (2**20,) * 4), (1, 2, 2, 4), ()),
        (
            "TransposeConv",
            TransposeConvAttrs((HUGE, 1), (4 * HUGE, 0, 4 * HUGE, 0)),
            (1, 3, 11, 4),
            (4, 3, 3, 4),
        ),
    ],
)
def test_padding_that_does_not_fit_is_refused_by_name(
    kind: str, attrs: Attrs, output: tuple[int, ...], weights: tuple[int, ...], dtype: DType
) -> None:
    with pytest.raises(ModelError, match="running the network needs about") as caught:
        check_work(layer(kind, attrs, output, weights, dtype=dtype))
    assert caught.value.where == f"op 'the op' ({kind})"


def test_windows_of_a_float_layer_count_all_at_once() -> None:
    """The reference multiplies all of them in one product."""
    image = (1, 512, 512, 64)
    graph = layer(
        "Conv2D",
        ConvAttrs((1, 1), (4, 4, 4, 4)),
        (1, 512, 512, 4),
        (4, 9, 9, 64),
        image,
        DType.FLOAT32,
    )
    with pytest.raises(ModelError, match="bytes of memory"):
        check_work(graph)


def test_an_op_that_runs_out_of_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(graph: Graph, op: Op) -> None:
        raise MemoryError

    monkeypatch.setattr("npuscope.ops.run.make_step", no_memory)
    graph = layer("MaxPool", PoolAttrs((2, 2), (1, 1), (0, 0, 0, 0)), (1, 8, 8, 4))
    with pytest.raises(ModelError) as caught:
        run(graph, {"x": np.zeros((1, 9, 9, 4), np.int8)})
    assert caught.value.message == "the op cannot be prepared: not enough memory"
