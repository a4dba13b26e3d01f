"""More of models_onnx_ops: ops that move values, and ops with weights."""

from __future__ import annotations

import numpy as np

from models import OnnxWriter
from models_onnx_ops import CASES, OpCase, case, weights

BIG = np.iinfo(np.int64).max


def bounds(w: OnnxWriter, x: str, *lists: list[int]) -> str:
    return w.node("Slice", x, *(w.constant(np.array(values)) for values in lists))


@case()
def slice_to_the_end(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return bounds(w, x, [1, -4], [BIG, -1], [2, -1])


@case()
def slice_with_steps(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return bounds(w, x, [-1, 1], [-BIG, 99], [3, 2], [-2, 3])


@case()
def slice_of_channels(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.qdq(w.node("Conv", x, weights(w, rng, 8, 3, 3, 3)), 0.05)
    return bounds(w, y, [2], [7], [1], [2])


@case(opset=13)
def split_and_join(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    parts = w.nodes_with("Split", [x, w.constant([2, 4, 1])], 3, axis=-1)
    return w.node("Concat", *(w.qdq(part, 0.023, -5) for part in reversed(parts)), axis=3)


@case(opset=18, shape=(1, 7, 3, 2))
def split_with_a_rest(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.qdq(w.node("Conv", x, weights(w, rng, 7, 7, 1, 1)), 0.07)
    parts = w.nodes_with("Split", [y], 3, axis=1, num_outputs=3)
    return w.node("Concat", parts[2], parts[0], axis=1)


@case(opset=11)
def split_by_attribute(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    parts = w.nodes_with("Split", [x], 2, axis=1, split=[1, 2])
    return w.node("Add", *(w.qdq(part, 0.023, -5) for part in parts))


@case()
def gather_one(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Gather", x, w.constant(np.array(-2)), axis=2)


@case()
def gather_some(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.qdq(w.node("Conv", x, weights(w, rng, 5, 3, 1, 1)), 0.05)
    return w.node("Gather", y, w.constant([3, 0, 0, -1]), axis=1)


@case()
def gather_a_range(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Gather", x, w.constant([0, 2, 4]), axis=-1)


@case(shape=(5, 3, 7))
def reverse_sequence(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("ReverseSequence", x, w.constant([4, 0, 5]))


@case(shape=(3, 5, 2, 7))
def reverse_sequence_by_batch(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("ReverseSequence", x, w.constant([1, 5, 2]), time_axis=1, batch_axis=0)


@case()
def gather_a_table(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Gather", x, w.constant([[0, 2], [1, 1]]), axis=1)


@case()
def tile(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.qdq(w.node("Conv", x, weights(w, rng, 5, 3, 1, 1)), 0.05)
    return w.node("Tile", y, w.constant([1, 2, 1, 3]))


@case(shape=(3, 1, 5))
def expand(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Expand", x, w.constant([2, 1, 7, 1]))


@case()
def pad_with_a_value(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    pads = w.constant([0, 1, 2, 0, 0, 0, 1, -2])
    return w.node("Pad", x, pads, w.constant(np.float32(0.77)))


@case(opset=19)
def pad_around(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.qdq(w.node("Conv", x, weights(w, rng, 5, 3, 1, 1)), 0.05)
    y = w.qdq(w.node("Pad", y, w.constant([0, 0, 2, 1, 0, 0, 4, 3]), mode="reflect"), 0.05)
    y = w.qdq(w.node("Pad", y, w.constant([1, 0, 3, 0]), "", w.constant([2, 1]), mode="edge"), 0.05)
    return w.node("Pad", y, w.constant([0, 1, 0, 2, 0, 0, 0, 1]), mode="wrap")


@case(opset=19)
def pad_and_cut(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    """Values move by one place: pads of some sides are negative, those of others are not."""
    y = w.qdq(w.node("Pad", x, w.constant([0, 0, 1, -2, 0, 0, -1, 3]), mode="edge"), 0.05)
    return w.node("Pad", y, w.constant([0, 0, -1, 2, 0, 0, 0, -1]), mode="reflect")


@case(shape=(2, 3, 4, 5, 2))
def five_axes(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.qdq(w.node("Transpose", x, perm=[0, 4, 1, 3, 2]), 0.021, 2)
    y = w.qdq(w.node("Reshape", y, w.constant([2, 6, 5, 4])), 0.021, 2)
    return w.node("Conv", y, weights(w, rng, 3, 6, 3, 3), pads=[1, 1, 1, 1])


def _resize(mode: str, **attrs: str) -> OpCase:
    """To odd sizes, behind a convolution; attributes of the Resize node."""

    def build(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
        y = w.qdq(w.node("Conv", x, weights(w, rng, 5, 3, 1, 1)), 0.05)
        sizes = w.constant([1, 5, 11, 9])
        return w.node("Resize", y, "", "", sizes, mode=mode, **attrs)

    return OpCase(build, opset=19, scale=0.05, zero_point=0)


PLACES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric")
for places in PLACES:
    CASES[f"linear {places}"] = _resize("linear", coordinate_transformation_mode=places)
    for rounding in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
        CASES[f"nearest {places} {rounding}"] = _resize(
            "nearest", coordinate_transformation_mode=places, nearest_mode=rounding
        )


def _in_the_middle(places: str, rounding: str) -> OpCase:
    """Places in the middle of two pixels, which float32 misses by a little: 7 to 4, 14 to 19."""

    def build(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
        sizes = w.constant([1, 3, 4, 19])
        attrs = {"coordinate_transformation_mode": places, "nearest_mode": rounding}
        return w.node("Resize", x, "", "", sizes, mode="nearest", **attrs)

    return OpCase(build, shape=(1, 3, 7, 14), opset=19)


for places in ("half_pixel", "asymmetric"):
    for rounding in ("round_prefer_floor", "round_prefer_ceil"):
        CASES[f"middle {places} {rounding}"] = _in_the_middle(places, rounding)


@case(shape=(1, 3, 5, 4))
def resize_by_a_scale_to_the_same_size(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    """The scale would move places; onnxruntime copies."""
    scales = w.constant(np.float32([1, 1, 1.15, 1]))
    places = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return w.node("Resize", x, "", scales, mode="nearest", **places)


@case(scale=0.021, zero_point=2)
def resize_by_a_fraction(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    """The sizes are cut off, the scales count."""
    scales = w.constant(np.float32([1, 1, 1.7, 0.6]))
    return w.node("Resize", x, "", scales, mode="linear")


@case(shape=(1, 3, 11))
def resize_of_one_axis(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Resize", x, "", w.constant(np.float32([1, 1, 2.5])), mode="linear")


@case(shape=(1, 3, 4, 5, 2))
def nearest_of_three_axes(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Resize", x, "", "", w.constant(np.array([1, 3, 7, 3, 5])), mode="nearest")


@case(shape=(3, 5))
def resize_to_the_same_size(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Resize", x, "", "", w.constant(np.array([3, 5])), mode="linear")


@case(shape=(3, 5))
def linear_along_the_first_axis(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Resize", x, "", "", w.constant(np.array([7, 5])), mode="linear")


for name, shape, attrs in (
    ("dilated MaxPool", (1, 3, 7, 9), {"kernel_shape": [3, 2], "dilations": [2, 3]}),
    (
        "dilated MaxPool with pads",
        (1, 3, 6, 5),
        {"kernel_shape": [2, 3], "dilations": [3, 2], "strides": [1, 2], "pads": [1, 2, 0, 1]},
    ),
    ("dilated MaxPool of a signal", (1, 3, 11), {"kernel_shape": [3], "dilations": [4]}),
    (
        "dilated MaxPool that rounds up",
        (1, 3, 8, 8),
        {"kernel_shape": [2, 2], "dilations": [2, 2], "strides": [3, 3], "ceil_mode": 1},
    ),
):
    CASES[name] = OpCase(
        lambda w, x, rng, attrs=attrs: w.node("MaxPool", x, **attrs), shape, all_integer=True
    )


@case(opset=9, all_integer=False)
def upsample(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Upsample", x, w.constant(np.float32([1, 1, 2, 3])), mode="nearest")


@case(opset=10)
def resize_of_old(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Resize", x, w.constant(np.float32([1, 1, 2, 3])), mode="nearest")


@case(opset=9, all_integer=False)
def old_attributes(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.node("Clip", x, min=-0.5, max=0.7)
    y = w.node("Pad", y, pads=[0, 0, 1, 2, 0, 0, 0, 1], value=0.3)
    return w.node("Slice", y, starts=[1, -3], ends=[9, 99], axes=[2, 3])


# kernel, shape, attributes of ConvTranspose
TRANSPOSED = {
    "plain": ((3, 5, 2, 2), (1, 3, 5, 4), {"strides": [2, 2]}),
    "padded": ((3, 5, 3, 4), (1, 3, 5, 4), {"strides": [2, 3], "pads": [1, 0, 0, 2]}),
    "grouped": ((6, 2, 3, 3), (1, 6, 4, 5), {"strides": [2, 1], "group": 3, "pads": [1, 1, 1, 1]}),
    "dilated": ((3, 2, 2, 3), (1, 3, 4, 5), {"dilations": [2, 3], "strides": [1, 2]}),
    "with more": ((3, 5, 3, 3), (1, 3, 5, 4), {"strides": [2, 3], "output_padding": [1, 2]}),
    "same upper": ((3, 5, 3, 3), (1, 3, 5, 4), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "to a shape": ((3, 5, 3, 3), (1, 3, 5, 4), {"strides": [2, 2], "output_shape": [10, 9]}),
    "of one axis": ((3, 5, 3), (1, 3, 7), {"strides": [2], "pads": [1, 0]}),
    "depthwise": ((5, 1, 4, 4), (1, 5, 3, 4), {"strides": [2, 2], "group": 5, "pads": [1] * 4}),
}


def _transposed(name: str) -> OpCase:
    kernel, shape, attrs = TRANSPOSED[name]

    def build(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
        outputs = kernel[1] * int(attrs.get("group", 1))
        k = weights(w, rng, *kernel, axis=1)
        return w.node("ConvTranspose", x, k, w.constant(rng.normal(size=outputs) * 0.1), **attrs)

    return OpCase(build, shape, scale=0.05)


for name in TRANSPOSED:
    CASES[f"transposed {name}"] = _transposed(name)


@case(shape=(2, 3, 4, 5), scale=0.05)
def matmul_with_a_table(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("MatMul", x, weights(w, rng, 3, 5, 7))


@case(shape=(3, 5, 4), scale=0.05)
def matmul_from_the_left(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("MatMul", weights(w, rng, 6, 5), x)


@case(shape=(3, 4, 5), scale=0.05)
def matmul_with_a_vector(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.qdq(w.node("MatMul", x, weights(w, rng, 5)), 0.05)
    return w.node("MatMul", weights(w, rng, 3), y)


@case(shape=(4, 5), scale=0.05)
def gemm_with_everything(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    bias = w.constant(rng.normal(size=7))
    return w.node("Gemm", x, weights(w, rng, 7, 4), bias, transA=1, transB=1, alpha=0.3)


@case(shape=(4, 5), scale=0.05, all_integer=False)
def gemm_with_a_computed_bias(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.qdq(w.node("MatMul", x, weights(w, rng, 5, 5)), 0.05)
    return w.node("Gemm", y, weights(w, rng, 5, 5), x)


EQUATIONS = {
    "bhid,bhjd->bhij": ((1, 2, 3, 5), (1, 2, 4, 5)),
    "bij,bjk->bik": ((2, 3, 5), (2, 5, 4)),
    "bcn,bcm->bnm": ((1, 5, 3), (1, 5, 4)),
    "ij,jk->ki": ((3, 5), (5, 4)),
    "bij,bj->bi": ((2, 3, 5), (2, 5)),
}


def _einsum(equation: str) -> OpCase:
    first, second = EQUATIONS[equation]

    def build(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
        return w.node("Einsum", x, weights(w, rng, *second), equation=equation)

    return OpCase(build, first, scale=0.05)


for equation in EQUATIONS:
    CASES[f"einsum {equation}"] = _einsum(equation)


@case(shape=(1, 5, 6), scale=0.05)
def attention_by_einsum(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.qdq(w.node("Einsum", x, x, equation="bid,bjd->bij"), 0.05)
    y = w.qdq(w.node("Softmax", y, axis=-1), 1 / 256, -128)
    return w.node("Einsum", y, x, equation="bij,bjd->bdi")


@case(scale=0.05)
def folded_batch_norm(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.node("Conv", x, weights(w, rng, 5, 3, 3, 3, axis=0), w.constant(rng.normal(size=5)))
    parts = [rng.normal(size=5), rng.normal(size=5), rng.normal(size=5), rng.uniform(0.5, 2, 5)]
    y = w.node("BatchNormalization", y, *(w.constant(part) for part in parts))
    return w.node("Relu", y)


@case(scale=0.05, shape=(3, 8))
def folded_batch_norm_of_a_gemm(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.node("Gemm", x, weights(w, rng, 8, 5))
    parts = [rng.normal(size=5), rng.normal(size=5), rng.normal(size=5), rng.uniform(0.5, 2, 5)]
    return w.node("BatchNormalization", y, *(w.constant(part) for part in parts))


@case(scale=0.05, shape=(1, 3, 4, 5))
def folded_batch_norm_of_a_transposed_conv(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.node("ConvTranspose", x, weights(w, rng, 3, 5, 2, 2), strides=[2, 2])
    parts = [rng.normal(size=5), rng.normal(size=5), rng.normal(size=5), rng.uniform(0.5, 2, 5)]
    return w.node("BatchNormalization", y, *(w.constant(part) for part in parts))
