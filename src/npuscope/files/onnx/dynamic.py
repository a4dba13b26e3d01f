"""Numbers that are rounded at run time, as the real ones that they stand for.

Dynamic quantization finds the scale of an activation while the network runs. Without the rounding,
integers times their scale are the activation itself: products of integers become products of
reals, every such scale is 1, and the weights are as real as their stored integers.
"""

from __future__ import annotations

import numpy as np

from npuscope.files.onnx.constants import Const
from npuscope.files.onnx.file import Node, OnnxModel
from npuscope.graph.model import DYNAMIC_RANGE
from npuscope.structs import replace

_PRODUCTS = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}
_QUANTIZERS = ("DynamicQuantizeLinear",)
_FUSED = "com.microsoft.DynamicQuantizeMatMul"
_ATTENTION = "com.microsoft.QAttention"
_LSTM = "com.microsoft.DynamicQuantizeLSTM"
_FLOAT = 1  # of the types of tensors


def undo_dynamic(source: OnnxModel) -> OnnxModel:
    """The same model with dynamic quantization as reals."""
    if not any(node.kind in (*_QUANTIZERS, _FUSED, _LSTM) for node in source.nodes):
        return source
    work = _Dynamic(source)
    nodes = [new for node in source.nodes for new in work.node(node)]
    nodes = [node for node in nodes if id(node) not in work.swallowed]
    notes = (*source.notes, DYNAMIC_RANGE)
    return replace(source, nodes=tuple(nodes), constants=work.constants, notes=notes)


class _Dynamic:
    """`reals` maps quantized activations to what was quantized."""

    def __init__(self, source: OnnxModel) -> None:
        self.constants = dict(source.constants)
        self.makers = {name: node for node in source.nodes for name in node.outputs}
        self.readers: dict[str, list[Node]] = {}
        for node in source.nodes:
            for name in node.inputs:
                self.readers.setdefault(name, []).append(node)
        self.outputs = set(source.outputs)
        self.reals: dict[str, str] = {}
        self.products: set[str] = set()  # reals that were sums of integers
        self.swallowed: set[int] = set()  # nodes of the file that products took over

    def node(self, node: Node) -> list[Node]:
        if node.kind in _QUANTIZERS and self._only_products(node):
            _, scale, zero = (*node.outputs, "", "")[:3]
            self.reals[node.output] = node.input(0)
            self.constants[scale] = Const(np.asarray(1.0, np.float32), "float32")
            self.constants[zero] = Const(np.asarray(0, np.uint8), "uint8")
            return []
        if node.kind in _PRODUCTS and node.input(0) in self.reals:
            return self._product(node)
        if node.kind == "Add" and self.products.intersection(node.inputs):
            # A bias that was rounded like the sums it is added to is as real as they are.
            casts, inputs = [], list(node.inputs)
            for place, name in enumerate(node.inputs):
                if name not in self.products:
                    inputs[place] = f"{node.output}/real{place}"
                    cast = Node("Cast", node.origin, (name,), (inputs[place],), {"to": _FLOAT})
                    casts.append(cast)
            return [*casts, replace(node, inputs=tuple(inputs))]
        if node.kind == _ATTENTION and node.input(0) in self.reals:
            return [self._attention(node)]
        if node.kind == _LSTM:
            return [self._lstm(node)]
        if node.kind == _FUSED and self._weights(node.input(1), node.input(3)) is not None:
            return self._fused(node)
        return [node]

    def _only_products(self, node: Node) -> bool:
        readers = self.readers.get(node.output, [])
        return node.output not in self.outputs and all(map(self._is_product, readers))

    def _is_product(self, node: Node) -> bool:
        """A reader of rounded activations with weights that are known."""
        if node.kind not in (*_PRODUCTS, _ATTENTION):
            return False
        return (
            self._weights(node.input(1), node.input(7 if node.kind == _ATTENTION else 3))
            is not None
        )

    def _weights(self, name: str, zero: str) -> np.ndarray | None:
        const = self.constants.get(name)
        point = self.constants.get(zero) if zero else None
        if const is None or (zero and point is None):
            return None
        shift = np.zeros(1) if point is None else point.data.astype(np.float32)
        data = const.data.astype(np.float32)
        along = shift.ravel()[0] if shift.size == 1 else self._along(data, shift)
        return np.asarray(data - along)

    @staticmethod
    def _along(data: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Per output channel: the first axis of a convolution's weights, the last of others."""
        flat = values.ravel()
        return flat.reshape(-1, *[1] * (data.ndim - 1)) if data.ndim > 2 else flat

    def _product(self, node: Node) -> list[Node]:
        weights = self._weights(node.input(1), node.input(3))
        assert weights is not None  # only such activations are in `reals`
        name = f"{node.output}/weights"
        output, scale = self._scaled(node)
        if scale is not None:
            weights = weights * (scale if scale.size == 1 else self._along(weights, scale))
        self.constants[name] = Const(np.asarray(weights, np.float32), "float32")
        inputs = (self.reals[node.input(0)], name)
        if scale is None:
            self.products.add(output)
        return [replace(node, kind=_PRODUCTS[node.kind], inputs=inputs, outputs=(output,))]

    def _scaled(self, node: Node) -> tuple[str, np.ndarray | None]:
        """The Cast and the Mul behind a product, when they are its only readers."""
        cast = self._only_reader(node.output, "Cast")
        scaling = self._only_reader(cast.output, "Mul") if cast is not None else None
        if cast is None or scaling is None:
            return node.output, None
        other = next((name for name in scaling.inputs if name != cast.output), "")
        scale = self._value(other)
        channels = self.constants[node.input(1)].data.shape[0 if "Conv" in node.kind else -1]
        if scale is None or scale.size not in (1, channels):
            return node.output, None
        self.swallowed.update((id(cast), id(scaling)))
        return scaling.output, scale.reshape(-1) if scale.size > 1 else scale.reshape(())

    def _only_reader(self, name: str, kind: str) -> Node | None:
        readers = self.readers.get(name, [])
        alone = len(readers) == 1 and name not in self.outputs
        return readers[0] if alone and readers[0].kind == kind else None

    def _value(self, name: str) -> np.ndarray | None:
        """A constant, or a product of constants and run-time scales."""
        if name in self.constants:
            return self.constants[name].real()
        maker = self.makers.get(name)
        if maker is None or maker.kind not in ("Mul", "Reshape", "Unsqueeze", "Identity"):
            return None
        if maker.kind != "Mul":
            return self._value(maker.input(0))
        parts = [self._value(part) for part in maker.inputs]
        if any(part is None for part in parts):
            return None
        return np.asarray(np.ravel(parts[0]) * np.ravel(parts[1]))  # type: ignore[arg-type]

    def _real(self, node: Node, name: str, scale: str, zero: str) -> np.ndarray | None:
        """Stored weights times their scale."""
        weights, steps = self._weights(name, zero), self.constants.get(scale)
        if weights is None or steps is None:
            return None
        factors = steps.real()
        if weights.ndim == 3 and factors.size > 1:  # one for each direction, or its columns too
            factors = factors.reshape(weights.shape[0], 1, -1)
        return np.asarray(weights * factors)

    def _attention(self, node: Node) -> Node:
        """QAttention: activations, weights, bias, two scales, mask, two zero points, past."""
        weights = self._real(node, node.input(1), node.input(4), node.input(7))
        if weights is None:
            return node
        name = f"{node.output}/weights"
        self.constants[name] = Const(weights.astype(np.float32), "float32")
        inputs = (self.reals[node.input(0)], name, node.input(2), node.input(5), node.input(8))
        return replace(node, kind="com.microsoft.Attention", inputs=inputs)

    def _lstm(self, node: Node) -> Node:
        """DynamicQuantizeLSTM: the inputs of an LSTM, its weights turned, then their numbers."""
        names = list(node.inputs[:8])
        for index, first in ((1, 8), (2, 10)):
            real = self._real(node, node.input(index), node.input(first), node.input(first + 1))
            if real is None:
                return node
            names[index] = f"{node.output}/weights_{index}"
            turned = np.ascontiguousarray(real.transpose(0, 2, 1), np.float32)
            self.constants[names[index]] = Const(turned, "float32")
        return replace(node, kind="LSTM", inputs=tuple(names))

    def _fused(self, node: Node) -> list[Node]:
        """DynamicQuantizeMatMul: activations, weights, their scale, zero point, bias."""
        weights = self._weights(node.input(1), node.input(3))
        scale = self.constants.get(node.input(2))
        if weights is None or scale is None:
            return [node]
        name = f"{node.output}/weights"
        self.constants[name] = Const((weights * scale.real()).astype(np.float32), "float32")
        inputs = (node.input(0), name)
        if not node.input(4):
            return [replace(node, kind="MatMul", inputs=inputs)]
        product = f"{node.output}/product"
        return [
            replace(node, kind="MatMul", inputs=inputs, outputs=(product,), attributes={}),
            Node("Add", node.origin, (product, node.input(4)), node.outputs),
        ]
