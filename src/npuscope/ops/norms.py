"""Softmax and normalizations."""

from __future__ import annotations

from npuscope.errors import ModelError
from npuscope.graph.model import Activation, Attrs, Graph, Op
from npuscope.ops.row import Kernel, Onnx, Row, Shapes, Tflite, check_axis, input_shape, real_type
from npuscope.ops.traits import Trait


class SoftmaxAttrs(Attrs, frozen=True):
    axis: int
    beta: float = 1.0


class BatchNormAttrs(Attrs, frozen=True):
    """y = scale * (x - mean) / sqrt(variance + epsilon) + bias over the last axis."""

    epsilon: float = 1e-5
    activation: Activation = Activation.NONE


class LayerNormAttrs(Attrs, frozen=True):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over all axes from `axis` on."""

    axis: int
    epsilon: float = 1e-5


class InstanceNormAttrs(Attrs, frozen=True):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias per image and channel."""

    epsilon: float = 1e-5


class GroupNormAttrs(Attrs, frozen=True):
    """The same per image and group of neighbouring channels; scale and bias stay per channel."""

    groups: int
    epsilon: float = 1e-5


class L2NormAttrs(Attrs, frozen=True):
    """x / max(sqrt(sum of squares along `axis`), epsilon)."""

    axis: int
    epsilon: float = 0.0


def softmax_shape(graph: Graph, op: Op) -> Shapes:
    source = input_shape(graph, op, 0)
    check_axis(op.attrs_as(SoftmaxAttrs).axis, source)
    return (source,)


def batch_norm_shape(graph: Graph, op: Op) -> Shapes:
    source = input_shape(graph, op, 0)
    for index in range(1, 5):
        parameter = input_shape(graph, op, index)
        if not source or parameter != source[-1:]:
            raise ModelError(f"parameter {index} has shape {parameter}, input has {source}")
    return (source,)


def layer_norm_shape(graph: Graph, op: Op) -> Shapes:
    source = input_shape(graph, op, 0)
    axis = op.attrs_as(LayerNormAttrs).axis
    check_axis(axis, source)
    for index in range(1, len(op.inputs)):
        if op.inputs[index] and input_shape(graph, op, index) != source[axis:]:
            shape = input_shape(graph, op, index)
            raise ModelError(f"parameter {index} has shape {shape}, expected {source[axis:]}")
    return (source,)


def channel_norm_shape(graph: Graph, op: Op) -> Shapes:
    """Instance and group normalization: scale and bias per channel, the last axis."""
    source = input_shape(graph, op, 0)
    groups = op.attrs.groups if isinstance(op.attrs, GroupNormAttrs) else 1
    if len(source) < 3 or groups < 1 or source[-1] % groups:
        raise ModelError(f"shape {source} does not fit {groups} groups of channels")
    for index in (1, 2):
        shape = input_shape(graph, op, index)
        if shape != source[-1:]:
            raise ModelError(f"parameter {index} has shape {shape}, expected {source[-1:]}")
    return (source,)


def l2_norm_shape(graph: Graph, op: Op) -> Shapes:
    source = input_shape(graph, op, 0)
    check_axis(op.attrs_as(L2NormAttrs).axis, source)
    return (source,)


ROWS = (
    Row(
        "Softmax",
        SoftmaxAttrs,
        inputs=(1, 1),
        shape=softmax_shape,
        types=real_type,
        kernel=Kernel("whole", "float_ops:softmax", "reduce:litert_softmax"),
        traits={Trait.NORMALISES, Trait.INTEGER_FORM},
        sign="positive",
        fixed_range=(0.0, 1.0),
        tflite={"SOFTMAX": Tflite("convert_values:softmax", options=("SoftmaxOptions", "Beta"))},
        onnx={"Softmax": Onnx("convert_values:softmax", ("Softmax",), any_order=True)},
    ),
    Row(
        "LogSoftmax",
        SoftmaxAttrs,
        inputs=(1, 1),
        shape=softmax_shape,
        types=real_type,
        kernel=Kernel("whole", "reduce:log_softmax"),
        traits={Trait.NORMALISES},
        tflite={"LOG_SOFTMAX": Tflite("convert_values:log_softmax")},
        onnx={"LogSoftmax": Onnx("convert_values:softmax", ("LogSoftmax",), any_order=True)},
    ),
    Row(
        "BatchNorm",
        BatchNormAttrs,
        inputs=(5, 5),
        shape=batch_norm_shape,
        types=real_type,
        kernel=Kernel("whole", "float_ops:batch_norm"),
        onnx={
            "BatchNormalization": Onnx(
                "convert_values:batch_norm", parameters=(1, 2, 3, 4), windowed=True
            )
        },
    ),
    Row(
        "LayerNorm",
        LayerNormAttrs,
        inputs=(1, 3),
        shape=layer_norm_shape,
        types=real_type,
        kernel=Kernel("whole", "reduce:layer_norm"),
        traits={Trait.NORMALISES},
        onnx={"LayerNormalization": Onnx("convert_values:layer_norm", parameters=(1, 2))},
    ),
    Row(
        "InstanceNorm",
        InstanceNormAttrs,
        inputs=(3, 3),
        shape=channel_norm_shape,
        types=real_type,
        kernel=Kernel("whole", "reduce:instance_norm"),
        traits={Trait.NORMALISES},
        onnx={
            "InstanceNormalization": Onnx(
                "convert_values:instance_norm", parameters=(1, 2), windowed=True
            )
        },
    ),
    Row(
        "GroupNorm",
        GroupNormAttrs,
        inputs=(3, 3),
        shape=channel_norm_shape,
        types=real_type,
        kernel=Kernel("whole", "reduce:group_norm"),
        traits={Trait.NORMALISES},
        onnx={
            "GroupNormalization": Onnx(
                "convert_values:group_norm", parameters=(1, 2), windowed=True
            )
        },
    ),
    Row(
        "L2Normalization",
        L2NormAttrs,
        inputs=(1, 1),
        shape=l2_norm_shape,
        types=real_type,
        kernel=Kernel("whole", "reduce:l2_norm", "reduce:litert_l2_norm"),
        traits={Trait.NORMALISES},
        tflite={
            "L2_NORMALIZATION": Tflite(
                "convert_values:l2_normalization",
                options=("L2NormOptions", "FusedActivationFunction"),
            )
        },
        onnx={"LpNormalization": Onnx("convert_values:lp_normalization")},
    ),
)
