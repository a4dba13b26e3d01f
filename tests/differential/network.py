"""A quantized network as plain values, and the file that it becomes.

Nodes have the file's own spelling: "CONV_2D" in TFLite, "Conv" in ONNX. A value with a scale is an
integer tensor of TFLite; in ONNX it stands between a QuantizeLinear and a DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from models_tflite import TfliteWriter

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor. `data` makes it a constant; several scales run along `axis`."""

    name: str
    shape: Shape
    dtype: str = "float32"
    scales: tuple[float, ...] = ()
    zero_point: int = 0
    axis: int = 0
    data: np.ndarray | None = field(default=None, compare=False)
    variable: bool = False  # TFLite: kept from one inference to the next

    @property
    def elements(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    @property
    def scale(self) -> float:
        return self.scales[0]

    @property
    def limits(self) -> tuple[float, float]:
        """The real values of the smallest and the largest integer."""
        whole = np.iinfo(self.dtype)
        return tuple((n - self.zero_point) * self.scale for n in (whole.min, whole.max))  # type: ignore[return-value]

    @property
    def reach(self) -> float:
        return float(np.abs(self.limits).max())


@dataclass(frozen=True, slots=True)
class Node:
    """`raw`: an ONNX node that moves the integers themselves, without a pair around it."""

    kind: str
    inputs: tuple[str, ...]  # "" is an input left out
    outputs: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    inner: tuple[str, ...] = ()  # TFLite: tensors that only state scales inside
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Network:
    """`float_border`: the file's inputs and outputs are real numbers."""

    format: str  # "tflite" or "onnx"
    values: Mapping[str, Value]
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    float_border: bool = False
    opset: int = 17

    def written(self) -> bytes:
        return _tflite(self) if self.format == "tflite" else _onnx(self)


def pruned(network: Network) -> Network:
    """Without the nodes and inputs that no output needs."""
    needed = set(network.outputs)
    kept: list[Node] = []
    for node in reversed(network.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs, node.inner)
            kept.append(node)
    inputs = tuple(name for name in network.inputs if name in needed)
    touched = needed.union(*(node.outputs for node in kept))
    values = {name: value for name, value in network.values.items() if name in touched}
    return replace(network, values=values, nodes=tuple(reversed(kept)), inputs=inputs)


# --- TFLite ---


def _tflite(network: Network) -> bytes:
    writer = TfliteWriter()
    numbers = {"": -1} | {
        name: writer.tensor(
            value.name,
            value.shape,
            value.dtype,
            value.scales or None,
            value.zero_point,
            value.axis,
            value.data,
            variable=value.variable,
        )
        for name, value in network.values.items()
    }
    inputs = [numbers[name] for name in network.inputs]
    outputs = [numbers[name] for name in network.outputs]
    if network.float_border:
        inputs = [_real_input(writer, network.values[n], numbers[n]) for n in network.inputs]
    for node in network.nodes:
        places = [[numbers[n] for n in names] for names in (node.inputs, node.outputs, node.inner)]
        writer.op(node.kind, *places[:2], inner=places[2], **node.options)
    if network.float_border:
        outputs = [_real_output(writer, network.values[n], numbers[n]) for n in network.outputs]
    return writer.finish(inputs, outputs)


def _real_input(writer: TfliteWriter, value: Value, number: int) -> int:
    if not value.scales:
        return number
    real = writer.tensor(f"{value.name}_real", value.shape, "float32")
    writer.op("QUANTIZE", [real], [number])
    return real


def _real_output(writer: TfliteWriter, value: Value, number: int) -> int:
    if not value.scales:
        return number
    real = writer.tensor(f"{value.name}_real", value.shape, "float32")
    writer.op("DEQUANTIZE", [number], [real])
    return real


# --- ONNX ---

_IR_VERSION = 10


def _onnx(network: Network) -> bytes:
    values = network.values
    nodes: list[Any] = []
    real: dict[str, str] = {}  # what was dequantized already

    def operand(name: str, raw: bool) -> str:
        if raw or not name or not values[name].scales:
            return name
        if name not in real:
            real[name] = f"{name}_real"
            nodes.append(_pair("DequantizeLinear", values[name], name, real[name]))
        return real[name]

    if network.float_border:
        for value in (values[name] for name in network.inputs if values[name].scales):
            nodes.append(_pair("QuantizeLinear", value, f"{value.name}_given", value.name))
    for node in network.nodes:
        inputs = [operand(name, node.raw) for name in node.inputs]
        quantized = [not node.raw and bool(name and values[name].scales) for name in node.outputs]
        rows = list(zip(node.outputs, quantized, strict=True))
        outputs = [f"{name}_exact" if pair else name for name, pair in rows]
        domain, _, kind = node.kind.rpartition(".")
        nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **node.options))
        for name in (name for name, pair in rows if pair):
            nodes.append(_pair("QuantizeLinear", values[name], f"{name}_exact", name))
    if network.float_border:
        outputs = [_info(values[name], operand(name, raw=False)) for name in network.outputs]
    else:
        outputs = [_info(values[name], name, values[name].dtype) for name in network.outputs]
    graph = helper.make_graph(
        nodes, "generated", list(_onnx_inputs(network)), outputs, list(_initializers(network))
    )
    domains = (("", network.opset), ("com.microsoft", 1))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*row) for row in domains])
    model.ir_version = _IR_VERSION
    return bytes(model.SerializeToString())


def _onnx_inputs(network: Network) -> Iterator[Any]:
    for value in (network.values[name] for name in network.inputs):
        if network.float_border and value.scales:
            yield _info(value, f"{value.name}_given")
        else:
            yield _info(value, value.name, value.dtype)


def _info(value: Value, name: str, dtype: str = "") -> Any:
    plain = dtype or ("float32" if value.scales else value.dtype)
    return helper.make_tensor_value_info(name, _element(plain), list(value.shape))


def _element(dtype: str) -> int:
    return int(getattr(TensorProto, {"float32": "FLOAT"}.get(dtype, dtype.upper())))


def _pair(kind: str, value: Value, source: str, output: str) -> Any:
    inputs = [source, f"{value.name}_scale", f"{value.name}_zero"]
    options = {"axis": value.axis} if len(value.scales) > 1 else {}
    return helper.make_node(kind, inputs, [output], **options)


def _initializers(network: Network) -> Iterator[Any]:
    for value in network.values.values():
        if value.data is not None:
            yield numpy_helper.from_array(value.data, value.name)
        if value.scales:
            scales = np.array(value.scales, np.float32)
            zeros = np.full(scales.shape, value.zero_point, value.dtype)
            single = scales.size == 1
            yield numpy_helper.from_array(
                scales.reshape(()) if single else scales, f"{value.name}_scale"
            )
            yield numpy_helper.from_array(
                zeros.reshape(()) if single else zeros, f"{value.name}_zero"
            )
