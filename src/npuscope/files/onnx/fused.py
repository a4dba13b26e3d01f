"""Ops of other domains as the standard ops that they stand for.

onnxruntime's optimizer fuses ops into its own domain. Each is written here as standard ops, so that
the rest of the reader knows one form; what does not fit stays, as work of unknown cost.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuscope.files.onnx.constants import Const
from npuscope.files.onnx.file import Attribute, Node, OnnxModel
from npuscope.structs import replace

_MICROSOFT = "com.microsoft."
_EPSILON = 1e-12  # of onnxruntime's own normalizations


def unfuse(source: OnnxModel) -> OnnxModel:
    """The same model without the fused ops that are known here."""
    work = _Work(source)
    nodes = [new for node in source.nodes for new in work.node(node)]
    return replace(source, nodes=tuple(nodes), constants=work.constants)


class _Work:
    """The new nodes; each function yields the standard form of one node."""

    def __init__(self, source: OnnxModel) -> None:
        self.constants = dict(source.constants)
        self.ranks = {entry.name: len(entry.dims) for entry in source.inputs}
        self.made: list[Node] = []

    def node(self, node: Node) -> list[Node]:
        form = FORMS.get(node.kind)
        if form is None:
            return [node]
        self.made = []
        return self.made if form(self, node) else [node]

    # --- What the forms are written with ---

    def emit(self, node: Node, kind: str, *inputs: str, to: str = "", **attrs: Attribute) -> str:
        """One standard node; its result is `to`, or a name of its own."""
        output = to or f"{node.output}/{kind}_{len(self.made)}"
        self.made.append(Node(kind, node.origin, inputs, (output,), attrs))
        return output

    def number(self, node: Node, value: object, dtype: str = "float32") -> str:
        """A constant of the form."""
        name = f"{node.output}/constant_{len(self.constants)}"
        self.constants[name] = Const(np.asarray(value, dtype), dtype)
        return name


Form = Callable[[_Work, Node], bool]


# --- Layers with an activation ---

_ACTIVATIONS = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}


def _activated(work: _Work, node: Node, source: str) -> bool:
    """The activation that the node names, as its last op."""
    kind = node.text("activation", "")
    if kind not in _ACTIVATIONS:
        return False
    parameters = node.attributes.get("activation_params")
    numbers = [float(value) for value in parameters] if isinstance(parameters, tuple) else []
    if kind == "LeakyRelu" and "leaky_relu_alpha" in node.attributes:
        numbers = [node.number("leaky_relu_alpha", 0.01)]
    if kind == "Clip":
        limits = [work.number(node, value) for value in numbers]
        work.emit(node, kind, source, *limits, to=node.output)
    else:
        attrs = dict(zip(_ACTIVATIONS[kind], numbers, strict=False))
        work.emit(node, kind, source, to=node.output, **attrs)
    return True


def _fused_conv(work: _Work, node: Node) -> bool:
    inputs = node.inputs[:3]
    layer = f"{node.output}/Conv"
    attrs = {name: v for name, v in node.attributes.items() if not name.startswith("activation")}
    work.made.append(replace(node, kind="Conv", inputs=inputs, outputs=(layer,), attributes=attrs))
    if node.input(3):
        layer = work.emit(node, "Add", layer, node.input(3))
    if node.text("activation", ""):
        return _activated(work, node, layer)
    work.emit(node, "Identity", layer, to=node.output)
    return True


def _fused_gemm(work: _Work, node: Node) -> bool:
    layer = f"{node.output}/Gemm"
    gemm_names = ("alpha", "beta", "transA", "transB")
    attrs = {name: value for name, value in node.attributes.items() if name in gemm_names}
    work.made.append(replace(node, kind="Gemm", outputs=(layer,), attributes=attrs))
    return _activated(work, node, layer)


def _fused_matmul(work: _Work, node: Node) -> bool:
    """Only weights can be turned before their rank is known."""
    left, right = node.input(0), node.input(1)
    weights = work.constants.get(right)
    if any(node.integer(name, 0) for name in ("transA", "transBatchA", "transBatchB")):
        return False
    if node.integer("transB", 0):
        if weights is None or weights.data.ndim < 2:
            return False
        axes = tuple(range(weights.data.ndim))
        right = f"{node.output}/turned"
        work.constants[right] = weights.transpose((*axes[:-2], axes[-1], axes[-2]))
    alpha = node.number("alpha", 1.0)
    product = work.emit(node, "MatMul", left, right, to=node.output if alpha == 1.0 else "")
    if alpha != 1.0:
        work.emit(node, "Mul", product, work.number(node, alpha), to=node.output)
    return True


# --- Functions ---


def _gelu(approximate: str) -> Form:
    def form(work: _Work, node: Node) -> bool:
        x = node.input(0)
        if node.input(1):
            x = work.emit(node, "Add", x, node.input(1))
        work.emit(node, "Gelu", x, to=node.output, approximate=approximate)
        return True

    return form


def _quick_gelu(work: _Work, node: Node) -> bool:
    x = node.input(0)
    alpha = node.number("alpha", 1.702)
    scaled = x if alpha == 1.0 else work.emit(node, "Mul", x, work.number(node, alpha))
    work.emit(node, "Mul", x, work.emit(node, "Sigmoid", scaled), to=node.output)
    return True


def _swish(work: _Work, node: Node) -> bool:
    return _quick_gelu(work, replace(node, attributes={"alpha": node.number("alpha", 1.0)}))


def _mean(work: _Work, node: Node) -> bool:
    total = node.inputs[0]
    for other in node.inputs[1:]:
        total = work.emit(node, "Add", total, other)
    work.emit(node, "Div", total, work.number(node, len(node.inputs)), to=node.output)
    return True


def _image_scaler(work: _Work, node: Node) -> bool:
    bias = node.attributes.get("bias")
    if not isinstance(bias, tuple):
        return False
    scaled = work.emit(node, "Mul", node.input(0), work.number(node, node.number("scale", 1.0)))
    column = work.number(node, np.reshape(bias, (-1, 1, 1)))
    work.emit(node, "Add", scaled, column, to=node.output)
    return True


def _crop(work: _Work, node: Node) -> bool:
    border = node.integers("border") or ()
    if len(border) != 4 or node.integers("scale"):
        return False
    left, top, right, bottom = border
    far = 2**31 - 1
    numbers = ((top, left), (-bottom or far, -right or far), (2, 3))
    starts, ends, axes = (work.number(node, values, "int64") for values in numbers)
    work.emit(
        node, "Slice", node.input(0), starts, ends, axes,
        to=node.output, starts=numbers[0], ends=numbers[1], axes=numbers[2],
    )  # fmt: skip
    return True


# --- Normalizations ---


def _root_mean_square(work: _Work, node: Node, x: str, scale: str, epsilon: float) -> None:
    axes = work.number(node, [-1], "int64")
    squares = work.emit(node, "Mul", x, x)
    mean = work.emit(node, "ReduceMean", squares, axes, axes=(-1,), keepdims=1)
    shifted = work.emit(node, "Add", mean, work.number(node, epsilon))
    normal = work.emit(node, "Div", x, work.emit(node, "Sqrt", shifted))
    work.emit(node, "Mul", normal, scale, to=node.output)


def _simplified(work: _Work, node: Node) -> bool:
    if any(node.outputs[1:]) or node.integer("axis", -1) != -1:
        return False
    _root_mean_square(work, node, node.input(0), node.input(1), node.number("epsilon", 1e-5))
    return True


def _skip(work: _Work, node: Node, bias: int) -> str:
    """The sum in front of a normalization; some graphs read it too."""
    total = node.outputs[3] if len(node.outputs) > 3 and node.outputs[3] else ""
    if node.input(bias):
        first = work.emit(node, "Add", node.input(0), node.input(1))
        return work.emit(node, "Add", first, node.input(bias), to=total)
    return work.emit(node, "Add", node.input(0), node.input(1), to=total)


def _skip_layer_norm(work: _Work, node: Node) -> bool:
    if any(node.outputs[1:3]):
        return False
    total = _skip(work, node, 4)
    parameters = [name for name in (node.input(2), node.input(3)) if name]
    epsilon = node.number("epsilon", _EPSILON)
    work.emit(
        node, "LayerNormalization", total, *parameters, to=node.output, axis=-1, epsilon=epsilon
    )
    return True


def _skip_simplified(work: _Work, node: Node) -> bool:
    if any(node.outputs[1:3]):
        return False
    total = _skip(work, node, 3)
    _root_mean_square(work, node, total, node.input(2), node.number("epsilon", _EPSILON))
    return True


# --- Attention ---


def _embed_layer_norm(work: _Work, node: Node) -> bool:
    """Three tables looked up and added; positions count from 0 where none are given."""
    ids, segments, words, places, kinds, scale, shift, mask, positions = (
        node.input(index) for index in range(9)
    )
    if not positions:
        shape = work.emit(node, "Shape", ids)
        length = work.emit(node, "Gather", shape, work.number(node, 1, "int64"), axis=0)
        zero, one = work.number(node, 0, "int64"), work.number(node, 1, "int64")
        positions = work.emit(node, "Range", zero, length, one)
    total = work.emit(node, "Gather", words, ids, axis=0)
    total = work.emit(node, "Add", total, work.emit(node, "Gather", places, positions, axis=0))
    if segments and kinds:
        total = work.emit(node, "Add", total, work.emit(node, "Gather", kinds, segments, axis=0))
    epsilon = node.number("epsilon", _EPSILON)
    work.emit(
        node, "LayerNormalization", total, scale, shift, to=node.output, axis=-1, epsilon=epsilon
    )
    if mask and len(node.outputs) > 1 and node.outputs[1]:
        axes = work.number(node, [1], "int64")
        work.emit(node, "ReduceSum", mask, axes, to=node.outputs[1], axes=(1,), keepdims=0)
    return True


def _attention(work: _Work, node: Node) -> bool:
    """One product for queries, keys and values, then one attention per head."""
    weights = work.constants.get(node.input(1))
    more = any(node.input(index) for index in (4, 5, 6)) or any(node.outputs[1:])
    mask_rank = work.ranks.get(node.input(3), 0) if node.input(3) else 2
    if weights is None or weights.data.ndim != 2 or more or mask_rank != 2:
        return False
    sizes = node.integers("qkv_hidden_sizes") or (weights.data.shape[1] // 3,) * 3
    total = work.emit(node, "MatMul", node.input(0), node.input(1))
    if node.input(2):
        total = work.emit(node, "Add", total, node.input(2))
    parts = tuple(f"{node.output}/part_{place}" for place in range(3))
    split = work.number(node, sizes, "int64")
    work.made.append(
        Node("Split", node.origin, (total, split), parts, {"axis": -1, "split": sizes})
    )
    mask = _mask(work, node, node.input(3)) if node.input(3) else ""
    # One attention per head.
    heads = node.integer("num_heads", 0)
    if heads < 1 or any(size % heads for size in sizes) or node.integer("unidirectional", 0):
        return False
    by_heads = work.number(node, [0, 0, heads, -1], "int64")
    rows = [work.emit(node, "Reshape", part, by_heads) for part in parts]
    orders = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    query, key, value = (
        work.emit(node, "Transpose", row, perm=order)
        for row, order in zip(rows, orders, strict=True)
    )
    scale = node.number("scale", 0.0) or (sizes[0] // heads) ** -0.5
    scores = work.emit(node, "MatMul", query, key)
    scores = work.emit(node, "Mul", scores, work.number(node, scale))
    if mask:
        scores = work.emit(node, "Add", scores, mask)
    attention = work.emit(node, "Softmax", scores, axis=-1)
    mixed = work.emit(node, "MatMul", attention, value)
    turned = work.emit(node, "Transpose", mixed, perm=(0, 2, 1, 3))
    joined = work.number(node, [0, 0, -1], "int64")
    work.emit(node, "Reshape", turned, joined, to=node.output)
    return True


def _mask(work: _Work, node: Node, mask: str) -> str:
    """(1 - mask) * a large negative number, as (batch, 1, 1, sequence)."""
    real = f"{node.output}/Cast_{len(work.made)}"
    work.made.append(Node("Cast", node.origin, (mask,), (real,), {"to": 1}))
    away = work.emit(node, "Sub", work.number(node, 1.0), real)
    filter_value = node.number("mask_filter_value", -10000.0)
    low = work.emit(node, "Mul", away, work.number(node, filter_value))
    axes = work.number(node, [1, 2], "int64")
    return work.emit(node, "Unsqueeze", low, axes, axes=(1, 2))


FORMS: dict[str, Form] = {
    **{
        f"{_MICROSOFT}{kind}": form
        for kind, form in {
            "FusedConv": _fused_conv,
            "FusedGemm": _fused_gemm,
            "FusedMatMul": _fused_matmul,
            "TransposeMatMul": _fused_matmul,
            "BiasGelu": _gelu("none"),
            "FastGelu": _gelu("tanh"),
            "QuickGelu": _quick_gelu,
            "SkipLayerNormalization": _skip_layer_norm,
            "SkipSimplifiedLayerNormalization": _skip_simplified,
            "EmbedLayerNormalization": _embed_layer_norm,
            "Attention": _attention,
        }.items()
    },
    "SimplifiedLayerNormalization": _simplified,  # onnxruntime writes it without a domain
    "RMSNormalization": _simplified,
    "Swish": _swish,
    "Mean": _mean,
    "ImageScaler": _image_scaler,  # of the first opsets, which onnxruntime still opens
    "Crop": _crop,
}
