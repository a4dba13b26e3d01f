"""Attributes of the ops: one frozen record a kind of op, all axes in channel-last order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Activation(Enum):
    """A clamp fused into the op that precedes it."""

    NONE = "none"
    RELU = "relu"
    RELU6 = "relu6"
    RELU_N1_TO_1 = "relu_n1_to_1"


@dataclass(frozen=True, slots=True)
class Attrs:
    """Base of all attribute records; also the record of ops without attributes."""


@dataclass(frozen=True, slots=True)
class ConvAttrs(Attrs):
    """Conv: weights are (O, kh, kw, I / groups); a depthwise conv has groups == I.

    `pads` is (top, left, bottom, right), explicit.
    """

    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1
    activation: Activation = Activation.NONE


@dataclass(frozen=True, slots=True)
class TransposeConvAttrs(Attrs):
    """TransposeConv: weights are (O, kh, kw, I / groups), as in Conv.

    Every input pixel adds kernel-sized patches `strides` apart; then `pads` (top, left, bottom,
    right) are cut off and `output_pads` (bottom, right) rows and columns are added.
    """

    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    output_pads: tuple[int, int] = (0, 0)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1
    activation: Activation = Activation.NONE


@dataclass(frozen=True, slots=True)
class DenseAttrs(Attrs):
    """FullyConnected: weights are (O, I); works on the last axis."""

    activation: Activation = Activation.NONE


@dataclass(frozen=True, slots=True)
class BinaryAttrs(Attrs):
    """Element-wise ops of two operands with numpy broadcasting."""

    activation: Activation = Activation.NONE


@dataclass(frozen=True, slots=True)
class PoolAttrs(Attrs):
    """Windowed pooling; padded positions never count in an average unless `count_pads`."""

    window: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    count_pads: bool = False
    activation: Activation = Activation.NONE


@dataclass(frozen=True, slots=True)
class ReduceAttrs(Attrs):
    """Reductions over `axes` (non-negative, sorted)."""

    axes: tuple[int, ...]
    keep_dims: bool


@dataclass(frozen=True, slots=True)
class SoftmaxAttrs(Attrs):
    axis: int
    beta: float = 1.0


@dataclass(frozen=True, slots=True)
class PadAttrs(Attrs):
    """`pads` is ((before, after), ...) per axis; the fill value is real, not quantized."""

    pads: tuple[tuple[int, int], ...]
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class TransposeAttrs(Attrs):
    permutation: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClipAttrs(Attrs):
    """Clip to [low, high] in real values; Relu is (0, inf), Relu6 (0, 6)."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ConcatAttrs(Attrs):
    axis: int
    activation: Activation = Activation.NONE


@dataclass(frozen=True, slots=True)
class BatchNormAttrs(Attrs):
    """y = scale * (x - mean) / sqrt(variance + epsilon) + bias over the last axis."""

    epsilon: float = 1e-5
    activation: Activation = Activation.NONE


@dataclass(frozen=True, slots=True)
class MatMulAttrs(Attrs):
    """Product of two activations over their last two axes, the others broadcast."""

    transpose_a: bool = False
    transpose_b: bool = False


@dataclass(frozen=True, slots=True)
class ArgAttrs(Attrs):
    """ArgMax and ArgMin; of equal values the first counts unless `last`."""

    axis: int
    keep_dims: bool = False
    last: bool = False


@dataclass(frozen=True, slots=True)
class LeakyReluAttrs(Attrs):
    """x for x >= 0, alpha * x below."""

    alpha: float


@dataclass(frozen=True, slots=True)
class EluAttrs(Attrs):
    """x for x >= 0, alpha * (exp(x) - 1) below."""

    alpha: float = 1.0


@dataclass(frozen=True, slots=True)
class HardSigmoidAttrs(Attrs):
    """clip(alpha * x + beta, 0, 1)."""

    alpha: float = 0.2
    beta: float = 0.5


@dataclass(frozen=True, slots=True)
class GeluAttrs(Attrs):
    """x * Phi(x), exactly or by the formula with tanh."""

    approximate: bool = False


@dataclass(frozen=True, slots=True)
class LayerNormAttrs(Attrs):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over all axes from `axis` on."""

    axis: int
    epsilon: float = 1e-5


@dataclass(frozen=True, slots=True)
class InstanceNormAttrs(Attrs):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias per image and channel."""

    epsilon: float = 1e-5


@dataclass(frozen=True, slots=True)
class GroupNormAttrs(Attrs):
    """The same per image and group of neighbouring channels; scale and bias stay per channel."""

    groups: int
    epsilon: float = 1e-5


@dataclass(frozen=True, slots=True)
class L2NormAttrs(Attrs):
    """x / max(sqrt(sum of squares along `axis`), epsilon)."""

    axis: int
    epsilon: float = 0.0
