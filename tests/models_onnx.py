"""Write small QDQ .onnx files with onnx.helper."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = tuple[int | str | None, ...]


class OnnxWriter:
    """Collects nodes and initializers; `finish` gives the bytes of the file.

    Tensor names are returned by every method that makes one, so calls nest.
    """

    def __init__(self, opset: int = 17) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.inputs: list[Any] = []
        self.count = 0

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def input(self, name: str, shape: Dims, dtype: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def constant(self, data: np.ndarray | float | list[int], name: str = "") -> str:
        array = np.asarray(data)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = name or self.fresh("const")
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def int4(self, data: np.ndarray, name: str = "", signed: bool = True) -> str:
        """A packed 4-bit constant."""
        name = name or self.fresh("const4")
        kind = TensorProto.INT4 if signed else TensorProto.UINT4
        self.initializers.append(
            helper.make_tensor(name, kind, data.shape, data.ravel().astype(int).tolist())
        )
        return name

    def node(self, kind: str, *inputs: str, name: str = "", output: str = "", **attrs: Any) -> str:
        """Add a node with one output and return the output's name."""
        domain, _, plain = kind.rpartition(".")
        output = output or self.fresh(plain.lower())
        self.nodes.append(
            helper.make_node(plain, list(inputs), [output], name=name, domain=domain, **attrs)
        )
        return output

    def nodes_with(self, kind: str, inputs: list[str], count: int, **attrs: Any) -> list[str]:
        """Add a node with several outputs and return their names."""
        outputs = [self.fresh(f"{kind.lower()}{number}") for number in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, outputs, **attrs))
        return outputs

    def quantize(
        self, x: str, scale: float, zero_point: int = 0, dtype: str = "int8", output: str = ""
    ) -> str:
        point = self.constant(np.array(zero_point, dtype))
        return self.node("QuantizeLinear", x, self._scale(scale), point, output=output)

    def dequantize(
        self,
        x: str,
        scale: float | np.ndarray,
        zero_point: int = 0,
        dtype: str = "int8",
        axis: int = 0,
        output: str = "",
    ) -> str:
        """Per channel along `axis` when `scale` is an array."""
        points = np.full(np.shape(scale), zero_point, dtype)
        attrs = {"axis": axis} if np.ndim(scale) else {}
        name = self.constant(points)
        return self.node("DequantizeLinear", x, self._scale(scale), name, output=output, **attrs)

    def qdq(self, x: str, scale: float, zero_point: int = 0, dtype: str = "int8") -> str:
        """QuantizeLinear and DequantizeLinear in a row."""
        return self.dequantize(self.quantize(x, scale, zero_point, dtype), scale, zero_point, dtype)

    def dequantized_constant(
        self, data: np.ndarray, scale: float | np.ndarray, axis: int = 0
    ) -> str:
        return self.dequantize(self.constant(data), scale, dtype=str(data.dtype), axis=axis)

    def _scale(self, scale: float | np.ndarray) -> str:
        return self.constant(np.asarray(scale, np.float32))

    def proto(self, outputs: dict[str, Dims | None], dtype: int = TensorProto.FLOAT) -> Any:
        """Outputs of a shape, or None where the reader has to find it."""
        infos = [
            helper.make_tensor_value_info(name, dtype, shape if shape is None else list(shape))
            for name, shape in outputs.items()
        ]
        graph = helper.make_graph(self.nodes, "test", self.inputs, infos, self.initializers)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = min(model.ir_version, 10)
        return model

    def finish(self, outputs: dict[str, Dims | None], dtype: int = TensorProto.FLOAT) -> bytes:
        return bytes(self.proto(outputs, dtype).SerializeToString())


def checked(data: bytes) -> bytes:
    """The same bytes, after onnx's own checker found nothing wrong."""
    onnx.checker.check_model(onnx.load_from_string(data))
    return data
