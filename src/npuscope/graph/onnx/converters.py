"""The table of ONNX ops. A new op is a new row."""

from __future__ import annotations

from npuscope.graph.onnx.convert_einsum import einsum
from npuscope.graph.onnx.convert_images import depth_to_space, resize, space_to_depth
from npuscope.graph.onnx.convert_moves import cut, expand, gather, pad, split, tile
from npuscope.graph.onnx.convert_reduce import (
    batch_norm,
    global_pool,
    group_norm,
    instance_norm,
    layer_norm,
    lp_normalization,
    place,
    reduction,
    softmax,
)
from npuscope.graph.onnx.convert_shape import (
    concat,
    flatten,
    identity,
    reshape,
    squeeze,
    transpose,
    unsqueeze,
)
from npuscope.graph.onnx.convert_values import (
    Convert,
    binary,
    cast,
    clip,
    comparison,
    elu,
    gelu,
    hard_sigmoid,
    leaky_relu,
    power,
    prelu,
    unary,
    where,
)
from npuscope.graph.onnx.convert_weights import conv, conv_transpose, gemm, matmul
from npuscope.graph.onnx.convert_windows import average_pool, max_pool

_WEIGHTED: dict[str, Convert] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Gemm": gemm,
    "MatMul": matmul,
    "Einsum": einsum,
}
_OPERANDS: dict[str, Convert] = {
    "Add": binary("Add"),
    "Sub": binary("Sub"),
    "Mul": binary("Mul"),
    "Div": binary("Div"),
    "Min": binary("Min"),
    "Max": binary("Max"),
    "Pow": power,
    "PRelu": prelu,
    "Where": where,
    "Equal": comparison("Equal"),
    "Greater": comparison("Greater"),
    "GreaterOrEqual": comparison("GreaterEqual"),
    "Less": comparison("Less"),
    "LessOrEqual": comparison("LessEqual"),
    "And": comparison("And"),
    "Or": comparison("Or"),
}
_FUNCTIONS: dict[str, Convert] = {
    **{kind: unary(kind) for kind in ("Sigmoid", "Tanh", "HardSwish", "Softplus", "Mish", "Erf")},
    **{kind: unary(kind) for kind in ("Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Not")},
    **{kind: unary(kind) for kind in ("Sqrt", "Reciprocal", "Exp", "Log", "Sin", "Cos")},
    "Relu": clip,
    "Clip": clip,
    "LeakyRelu": leaky_relu,
    "Elu": elu,
    "HardSigmoid": hard_sigmoid,
    "Gelu": gelu,
    "com.microsoft.Gelu": gelu,
    "Cast": cast,
}
_REDUCTIONS: dict[str, Convert] = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": global_pool("Mean"),
    "GlobalMaxPool": global_pool("ReduceMax"),
    "ReduceMean": reduction("Mean"),
    "ReduceSum": reduction("ReduceSum"),
    "ReduceProd": reduction("ReduceProd"),
    "ReduceMax": reduction("ReduceMax"),
    "ReduceMin": reduction("ReduceMin"),
    "ReduceL2": reduction("ReduceL2"),
    "ArgMax": place("ArgMax"),
    "ArgMin": place("ArgMin"),
    "Softmax": softmax("Softmax"),
    "LogSoftmax": softmax("LogSoftmax"),
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "InstanceNormalization": instance_norm,
    "GroupNormalization": group_norm,
    "LpNormalization": lp_normalization,
}
_MOVES: dict[str, Convert] = {
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Concat": concat,
    "Split": split,
    "Slice": cut,
    "Gather": gather,
    "Tile": tile,
    "Expand": expand,
    "Pad": pad,
    "Resize": resize,
    "Upsample": resize,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "Identity": identity,
}

CONVERTERS: dict[str, Convert] = {
    **_WEIGHTED,
    **_OPERANDS,
    **_FUNCTIONS,
    **_REDUCTIONS,
    **_MOVES,
}
