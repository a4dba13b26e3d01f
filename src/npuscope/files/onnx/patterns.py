"""Functions that exporters write as chains of small ops, as the one op that they are.

A chain is found from its end. It is equal to the op that replaces it, whoever else reads its parts:
parts that nobody reads any more are dropped with the other dead nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isclose, pi, sqrt

from msgspec import Struct

from npuscope.files.onnx.constants import Const
from npuscope.files.onnx.convert_values import clamp_of
from npuscope.files.onnx.file import Attribute, Node, OnnxModel
from npuscope.files.onnx.fold import axes_of
from npuscope.files.onnx.layer_folds import batch_norm, readers_of
from npuscope.files.onnx.rewrite import drop_dead
from npuscope.ops.table import ONNX
from npuscope.structs import replace

_NEAR = 1e-3  # exporters write sqrt(2) with few digits


class Product(Struct, frozen=True):
    """A number times tensors, as a tree of Mul and Div multiplies them."""

    number: float
    factors: tuple[str, ...]

    def is_of(self, number: float, *factors: str) -> bool:
        same = isclose(self.number, number, rel_tol=_NEAR)
        return same and sorted(self.factors) == sorted(factors)


def fuse_patterns(source: OnnxModel) -> OnnxModel:
    """The same model with every chain that is known here as one op."""
    return _replaced(source, CHAINS)


def norms_as_layers(source: OnnxModel) -> OnnxModel:
    """The same model with normalizations that no layer took over as layers of their own."""
    return _replaced(source, {"BatchNormalization": (_norm_as_layer,)})


def _replaced(source: OnnxModel, patterns: Mapping[str, tuple[Pattern, ...]]) -> OnnxModel:
    chains = _Chains(source)
    nodes = tuple(chains.run(patterns))
    return drop_dead(replace(source, nodes=nodes, constants=chains.constants))


class _Chains:
    """What the patterns ask; `makers` has each node as it is after the patterns before it."""

    def __init__(self, source: OnnxModel) -> None:
        self.source = source
        self.constants = dict(source.constants)
        self.readers = readers_of(source)
        self.makers: dict[str, Node] = {}

    def run(self, patterns: Mapping[str, tuple[Pattern, ...]]) -> Iterator[Node]:
        for node in self.source.nodes:
            replacements = (pattern(self, node) for pattern in patterns.get(node.kind, ()))
            node = next(filter(None, replacements), node)
            self.makers[node.output] = node
            yield node

    def made_by(self, name: str, *kinds: str) -> Node | None:
        maker = self.makers.get(name)
        return maker if maker is not None and maker.kind in kinds else None

    def number(self, name: str) -> float | None:
        const = self.constants.get(name)
        if const is None or const.data.shape not in ((), (1,)) or const.data.dtype.kind != "f":
            return None
        return float(const.real().ravel()[0])

    def product(self, name: str, whole: bool = True) -> Product:
        """`whole`: the tensor is taken apart even if others read it."""
        number = self.number(name)
        if number is not None:
            return Product(number, ())
        node = self.made_by(name, "Mul", "Div")
        if node is None or not (whole or len(self.readers.get(name, ())) == 1):
            return Product(1.0, (name,))
        return self.product_of(node)

    def product_of(self, node: Node) -> Product:
        left, right = (self.product(name, whole=False) for name in node.inputs[:2])
        if node.kind == "Div":
            if right.factors or not right.number:
                return Product(1.0, (node.output,))
            right = Product(1 / right.number, ())
        return Product(left.number * right.number, (*left.factors, *right.factors))

    def plus(self, name: str) -> tuple[float, str] | None:
        """A number and the tensor that it is added to."""
        node = self.made_by(name, "Add")
        for first, second in (node.inputs, node.inputs[::-1]) if node else ():
            number = self.number(first)
            if number is not None and second not in self.constants:
                return number, second
        return None

    def one_op(self, node: Node, kind: str, *inputs: str, **attributes: Attribute) -> Node:
        return replace(node, kind=kind, inputs=inputs, attributes=dict(attributes))


Pattern = Callable[[_Chains, Node], Node | None]


def _gelu(chains: _Chains, node: Node) -> Node | None:
    """x / 2 * (1 + erf(x / sqrt(2))), or with the tanh that is near it."""
    whole = chains.product_of(node)
    if len(whole.factors) != 2 or not isclose(whole.number, 0.5, rel_tol=_NEAR):
        return None
    for x, name in (whole.factors, whole.factors[::-1]):
        number, inner = chains.plus(name) or (0.0, "")
        curve = chains.made_by(inner, "Erf", "Tanh")
        if curve is None or number != 1.0:
            continue
        argument = chains.product(curve.input(0))
        if curve.kind == "Erf" and argument.is_of(1 / sqrt(2), x):
            return chains.one_op(node, "Gelu", x)
        if curve.kind == "Tanh" and _is_cubic(chains, argument, x):
            return chains.one_op(node, "Gelu", x, approximate="tanh")
    return None


def _is_cubic(chains: _Chains, argument: Product, x: str) -> bool:
    """sqrt(2 / pi) * (x + 0.044715 * x^3)."""
    total = chains.made_by(argument.factors[0], "Add") if len(argument.factors) == 1 else None
    if total is None or not argument.is_of(sqrt(2 / pi), total.output) or x not in total.inputs:
        return False
    cubic = chains.product(next((name for name in total.inputs if name != x), ""))
    power = chains.made_by(cubic.factors[0], "Pow") if len(cubic.factors) == 1 else None
    if power is not None and power.input(0) == x and chains.number(power.input(1)) == 3.0:
        return cubic.is_of(0.044715, power.output)
    return cubic.is_of(0.044715, x, x, x)


def _hard_sigmoid(chains: _Chains, node: Node) -> Node | None:
    """clip(x + 3, 0, 6) / 6."""
    whole = chains.product_of(node)
    clip = chains.made_by(whole.factors[0], "Clip") if len(whole.factors) == 1 else None
    if clip is None or not whole.is_of(1 / 6, clip.output):
        return None
    number, x = chains.plus(clip.input(0)) or (0.0, "")
    if number != 3.0 or clamp_of(clip, chains.constants) != (0.0, 6.0):
        return None
    return chains.one_op(node, "HardSigmoid", x, alpha=1 / 6, beta=0.5)


def _hard_swish(chains: _Chains, node: Node) -> Node | None:
    """x times its hard sigmoid, whichever of both the sixth belongs to."""
    whole = chains.product_of(node)
    for x, name in (whole.factors, whole.factors[::-1]) if len(whole.factors) == 2 else ():
        gate = chains.made_by(name, "HardSigmoid", "Clip")
        if gate is None:
            continue
        if gate.kind == "Clip":
            number, inner = chains.plus(gate.input(0)) or (0.0, "")
            clamped = number == 3.0 and clamp_of(gate, chains.constants) == (0.0, 6.0)
            same = clamped and whole.is_of(1 / 6, inner, name)
        else:
            inner, slope = gate.input(0), gate.number("alpha", 0.2)
            middle = gate.number("beta", 0.5) == 0.5 and isclose(slope, 1 / 6, rel_tol=_NEAR)
            same = middle and whole.is_of(1.0, inner, name)
        if same and inner == x:
            return chains.one_op(node, "HardSwish", x)
    return None


def _layer_norm(chains: _Chains, node: Node) -> Node | None:
    """(x - mean) / sqrt(variance + epsilon) * scale over the last axis."""
    names = [name for name in node.inputs if _is_row(chains.constants.get(name))]
    others = [name for name in node.inputs if name not in names]
    quotient = chains.made_by(others[0], "Div") if len(names) == len(others) == 1 else None
    root = chains.made_by(quotient.input(1), "Sqrt") if quotient else None
    if quotient is None or root is None:
        return None
    epsilon, variance = chains.plus(root.input(0)) or (0.0, "")
    x = _centred(chains, quotient.input(0))
    mean = chains.made_by(variance, "ReduceMean")
    if not x or mean is None or not _is_last(chains, mean):
        return None
    power = chains.made_by(mean.input(0), "Pow", "Mul")
    # Old exporters write the difference twice, once for the variance.
    if power is None or _centred(chains, power.input(0)) != x:
        return None
    square = chains.number(power.input(1)) == 2.0 or power.inputs[0] == power.inputs[1]
    if not square:
        return None
    return chains.one_op(node, "LayerNormalization", x, names[0], axis=-1, epsilon=epsilon)


def _is_row(const: Const | None) -> bool:
    return const is not None and const.data.ndim == 1 and const.data.dtype.kind == "f"


def _centred(chains: _Chains, name: str) -> str:
    """What a tensor is without its mean over the last axis."""
    difference = chains.made_by(name, "Sub")
    mean = chains.made_by(difference.input(1), "ReduceMean") if difference else None
    if difference is None or mean is None or mean.input(0) != difference.input(0):
        return ""
    return difference.input(0) if _is_last(chains, mean) else ""


def _is_last(chains: _Chains, mean: Node) -> bool:
    axes = axes_of(mean, [None, chains.constants.get(mean.input(1))])
    return axes == (-1,) and mean.integer("keepdims", 1) == 1


def _shifted_norm(chains: _Chains, node: Node) -> Node | None:
    """The sum behind a LayerNormalization as its bias."""
    names = [name for name in node.inputs if _is_row(chains.constants.get(name))]
    others = [name for name in node.inputs if name not in names]
    single = len(names) == len(others) == 1
    norm = chains.made_by(others[0], "LayerNormalization") if single else None
    if norm is None or norm.input(2):
        return None
    return replace(norm, inputs=(*norm.inputs[:2], names[0]), outputs=node.outputs)


def _norm_as_layer(chains: _Chains, node: Node) -> Node | None:
    """A normalization that no layer in front could take (as in pre-activation blocks) as a
    depthwise 1x1 convolution: that has a scale for every channel in int8."""
    rank, affine = _rank(chains, node.input(0)), batch_norm(node, chains.constants)
    if rank < 3 or affine is None or len(node.outputs) > 1:
        return None
    kernel = affine.gain.reshape(-1, *[1] * (rank - 1))
    names = [f"{node.output}/{stem}" for stem in ("weights", "bias")]
    for name, values in zip(names, (kernel, affine.offset), strict=True):
        chains.constants[name] = Const(values.astype("float32"), "float32", name=name)
    ones = (1,) * (rank - 2)
    group = affine.gain.size
    return chains.one_op(node, "Conv", node.input(0), *names, group=group, kernel_shape=ones)


def _rank(chains: _Chains, name: str) -> int:
    """Axes of a tensor, from the layer, the pooling or the input that it comes from without a
    change of shape; 0 where that is not found."""
    inputs = {entry.name: len(entry.dims) for entry in chains.source.inputs}
    while name not in inputs:
        node = chains.makers.get(name)
        row = ONNX.get(node.kind) if node else None
        if node is None or row is None or not (row.windowed or row.any_order):
            return 0
        kernel = node.integers("kernel_shape")
        if kernel is not None:
            return len(kernel) + 2
        name = next((each for each in node.inputs if each not in chains.constants), "")
    return inputs[name]


CHAINS: dict[str, tuple[Pattern, ...]] = {
    "Mul": (_hard_sigmoid, _hard_swish, _gelu, _layer_norm),
    "Div": (_hard_sigmoid, _hard_swish),
    "Add": (_shifted_norm,),
}
