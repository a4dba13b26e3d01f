"""Conv2D against LiteRT's reference kernels, element by element."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ops.litert_ops import Value, check, constant, one_op, q8, random_values, schema

NONE, RELU, RELU6 = 0, 1, 3
SAME, VALID = 0, 1


def conv_model(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    kernel: tuple[int, int, int],
    *,
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    padding: int = SAME,
    activation: int = NONE,
    depthwise: bool = False,
    groups: int = 1,
    x_zero: int = -7,
    y_zero: int = 5,
    y_scale: float | None = None,
    spread: float = 1.0,
    weights: np.ndarray | None = None,
    bias: np.ndarray | None = None,
) -> tuple[bytes, Value]:
    """A conv with seeded weights; `spread` sets how far the channels' scales lie apart."""
    outputs, height, width = kernel
    depth = shape[3] // groups
    form = (1, height, width, outputs) if depthwise else (outputs, height, width, depth)
    if weights is None:
        weights = rng.integers(-128, 127, form, np.int8, endpoint=True)
    if bias is None:
        bias = rng.integers(-20000, 20000, outputs).astype(np.int32)
    scales = np.float32(0.01) * np.exp(-spread * rng.random(outputs)).astype(np.float32)
    terms = height * width * (1 if depthwise else depth)
    if y_scale is None:
        y_scale = float(np.float32(0.04 * 0.01 * 70 * np.sqrt(terms)))
    options = schema.DepthwiseConv2DOptionsT() if depthwise else schema.Conv2DOptionsT()
    options.strideH, options.strideW = strides
    options.dilationHFactor, options.dilationWFactor = dilations
    options.padding, options.fusedActivationFunction = padding, activation
    if depthwise:
        options.depthMultiplier = outputs // shape[3]
    size = _output_size(shape, kernel, strides, dilations, padding)
    x = q8(shape, 0.04, x_zero)
    y = q8((shape[0], *size, outputs), y_scale, y_zero)
    values = [
        x,
        constant(weights, scales, axis=3 if depthwise else 0),
        constant(bias, scales * np.float32(0.04)),
    ]
    return one_op("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", options, values, y), x


def _output_size(
    shape: tuple[int, ...],
    kernel: tuple[int, int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    padding: int,
) -> tuple[int, int]:
    sizes = []
    for axis in range(2):
        window = (kernel[axis + 1] - 1) * dilations[axis] + 1
        room = shape[axis + 1] if padding == SAME else shape[axis + 1] - window + 1
        sizes.append(-(-room // strides[axis]))
    return sizes[0], sizes[1]


CONVS = [
    {"shape": (1, 13, 11, 3), "kernel": (7, 3, 3), "strides": (2, 2)},
    {"shape": (1, 13, 11, 3), "kernel": (7, 3, 5), "strides": (1, 3), "padding": VALID},
    {"shape": (2, 9, 7, 5), "kernel": (11, 1, 1), "activation": RELU},
    {"shape": (1, 9, 8, 5), "kernel": (3, 1, 1), "strides": (2, 2), "activation": RELU6},
    {"shape": (1, 8, 8, 6), "kernel": (4, 5, 2), "dilations": (2, 3)},
    {"shape": (1, 17, 19, 8), "kernel": (6, 3, 3), "groups": 2},
    {"shape": (1, 31, 29, 16), "kernel": (24, 3, 3), "spread": 8.0},
    {"shape": (1, 5, 1, 40), "kernel": (13, 3, 1), "y_zero": -128, "activation": RELU},
    {"shape": (1, 70, 67, 24), "kernel": (144, 1, 1), "y_zero": -128, "activation": RELU6},
]


@pytest.mark.parametrize("case", CONVS, ids=lambda case: str(case["shape"]))
def test_conv_is_exact(case: dict, tmp_path: Path) -> None:
    rng = np.random.default_rng(len(CONVS))
    model, x = conv_model(rng, **case)
    found = check(tmp_path, model, [random_values(rng, x)])
    assert len(np.unique(found)) > 20  # the outputs are not all clamped


DEPTHWISE = [
    {"shape": (1, 15, 13, 7), "kernel": (7, 3, 3)},
    {"shape": (1, 15, 13, 7), "kernel": (7, 3, 3), "strides": (2, 2), "activation": RELU},
    {"shape": (2, 16, 11, 5), "kernel": (5, 4, 5), "strides": (3, 3), "padding": VALID},
    {"shape": (1, 12, 14, 3), "kernel": (12, 3, 3), "strides": (2, 2)},
    {"shape": (1, 12, 14, 6), "kernel": (6, 3, 3), "dilations": (2, 3)},
    {"shape": (1, 20, 21, 4), "kernel": (4, 3, 3), "dilations": (2, 2), "strides": (2, 2)},
    {"shape": (1, 9, 9, 1), "kernel": (8, 3, 3)},
    {"shape": (1, 90, 91, 17), "kernel": (17, 3, 3), "y_zero": -128, "activation": RELU6},
]


@pytest.mark.parametrize("case", DEPTHWISE, ids=lambda case: f"{case['shape']}{case['kernel']}")
def test_depthwise_is_exact(case: dict, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    model, x = conv_model(rng, **case, depthwise=True)
    check(tmp_path, model, [random_values(rng, x)])


@pytest.mark.parametrize("value", [-128, 127])
@pytest.mark.parametrize("weight", [-128, 127])
@pytest.mark.parametrize("shape", [(1, 2, 3, 1041), (1, 4, 4, 256)])
def test_constant_extremes_over_more_than_1024_terms(
    shape: tuple[int, ...], value: int, weight: int, tmp_path: Path
) -> None:
    """Float32 sums go wrong here if they are not cut: 1041 * 127 * 127 > 2**24 is odd."""
    rng = np.random.default_rng(5)
    size = 1 if shape[3] == 1041 else 3
    weights = np.full((3, size, size, shape[3]), weight, np.int8)
    y_scale = 0.04 * 0.01 * shape[3] * size * size * 150.0
    model, x = conv_model(
        rng, shape, (3, size, size), weights=weights, y_scale=y_scale, x_zero=0, y_zero=0
    )
    found = check(tmp_path, model, [np.full(x.shape, value, np.int8)])
    assert np.abs(found.astype(int)).max() < 127


def test_one_unit_of_a_long_sum_is_seen(tmp_path: Path) -> None:
    """The multiplier is near 1 and the bias takes the sum back, so that its last bit shows."""
    rng = np.random.default_rng(6)
    bias = np.arange(-1041 * 127 * 127 - 20, -1041 * 127 * 127 + 20).astype(np.int32)
    weights = np.full((40, 1, 1, 1041), 127, np.int8)
    model, x = conv_model(
        rng, (1, 1, 1, 1041), (40, 1, 1), weights=weights, bias=bias, x_zero=0, y_scale=0.0004
    )
    found = check(tmp_path, model, [np.full(x.shape, 127, np.int8)])
    assert len(np.unique(found)) > 10


@pytest.mark.parametrize("activation", [NONE, RELU])
def test_ties_at_powers_of_two(activation: int, tmp_path: Path) -> None:
    """Scales that are powers of two make exact ties in both roundings."""
    rng = np.random.default_rng(7)
    scales = (2.0**-4, 2.0**-5, 2.0**-6, 2.0**-9)
    weights = constant(rng.integers(-4, 5, (4, 1, 1, 2)).astype(np.int8), scales)
    bias = constant(np.array([0, 1, -1, 3], np.int32), [s / 4 for s in scales])
    options = schema.Conv2DOptionsT()
    options.strideH = options.strideW = 1
    options.dilationHFactor = options.dilationWFactor = 1
    options.fusedActivationFunction = activation
    x, y = q8((1, 256, 4, 2), 0.25, 0), q8((1, 256, 4, 4), 0.125, -3)
    model = one_op("CONV_2D", options, [x, weights, bias], y)
    check(tmp_path, model, [random_values(rng, x)])


@pytest.mark.parametrize("depthwise", [False, True])
def test_dead_channels(depthwise: bool, tmp_path: Path) -> None:
    """Converters leave channels with a tiny scale and a bias near the end of int32."""
    rng = np.random.default_rng(8)
    outputs, depth = 12, 12
    form = (1, 3, 3, outputs) if depthwise else (outputs, 3, 3, depth)
    scales = np.float32(10.0) ** -np.arange(1, outputs + 1)
    bias = np.minimum(np.abs(0.3 / (scales * 0.04)), 2.0**30)
    bias = (bias * rng.choice([-1, 1], outputs)).astype(np.int32)
    weights = constant(rng.integers(-127, 128, form).astype(np.int8), scales, axis=3 * depthwise)
    options = schema.DepthwiseConv2DOptionsT() if depthwise else schema.Conv2DOptionsT()
    options.strideH = options.strideW = 1
    options.dilationHFactor = options.dilationWFactor = 1
    if depthwise:
        options.depthMultiplier = 1
    x, y = q8((1, 14, 14, depth), 0.04, 3), q8((1, 14, 14, outputs), 0.5, -9)
    name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    inputs = [x, weights, constant(bias, scales * np.float32(0.04))]
    check(tmp_path, one_op(name, options, inputs, y), [random_values(rng, x)])


def test_multiplier_above_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    weights = rng.integers(-3, 4, (5, 1, 1, 3)).astype(np.int8)
    bias = np.zeros(5, np.int32)
    model, x = conv_model(
        rng, (1, 7, 7, 3), (5, 1, 1), weights=weights, bias=bias, y_scale=0.00013, spread=0.2
    )
    values = rng.integers(-9, -5, x.shape).astype(np.int8)
    check(tmp_path, model, [values])


@pytest.mark.parametrize(
    ("depthwise", "bias_type"), [(False, "int64"), (False, "int32"), (True, "int64")]
)
def test_16_bit_activations(depthwise: bool, bias_type: str, tmp_path: Path) -> None:
    """The bias' type decides the rule: 64 bits bring the multiplier of 16 bits."""
    rng = np.random.default_rng(10)
    form = (1, 3, 3, 6) if depthwise else (5, 3, 3, 6)
    scales = (0.01 * (1 + rng.random(form[3] if depthwise else form[0]))).astype(np.float32)
    weights = constant(rng.integers(-127, 128, form).astype(np.int8), scales, axis=3 * depthwise)
    bias = rng.integers(-(10**7), 10**7, len(scales)).astype(bias_type)
    options = schema.DepthwiseConv2DOptionsT() if depthwise else schema.Conv2DOptionsT()
    options.strideH = options.strideW = 1
    options.dilationHFactor = options.dilationWFactor = 1
    if depthwise:
        options.depthMultiplier = 1
    elif bias_type == "int32":
        options.quantizedBiasType = schema.TensorType.INT32
    x = q8((1, 11, 9, 6), 0.0002, 0, "int16")
    y = q8((1, 11, 9, len(scales)), 0.0007, 0, "int16")
    name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    inputs = [x, weights, constant(bias, scales * np.float32(0.0002))]
    check(tmp_path, one_op(name, options, inputs, y), [random_values(rng, x)])
