"""A float ONNX file made ready to be quantized: fixed sizes, float32, an opset with per-channel
scales, batch normalisation and constants folded, a name for every node."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from npuscope.edits import whole_bytes
from npuscope.errors import FileError, ModelError, UsageError
from npuscope.files.sizes import Pins, static_shape
from npuscope.quantizing.plan import Layer

OLDEST_OPSET = 13  # QuantizeLinear with an axis
_PREFERRED_OPSET = 17
_NEWEST_OPSET = 20  # of IR version 9, the last that the vendor's tools read
_OLDER_IR, _NEWEST_IR = 8, 9
_QUANTIZED = ("QuantizeLinear", "DequantizeLinear", "QLinearConv", "DynamicQuantizeLinear")
_LOOPS = ("If", "Loop", "Scan")
FLOAT_ONE = "quantize takes the float model; npuscope fix MODEL -o FIXED edits a quantized one"


@dataclass(frozen=True, slots=True)
class FloatNetwork:
    """The network and what was repaired, one sentence each."""

    proto: Any
    notes: tuple[str, ...]

    def layers(self) -> tuple[Layer, ...]:
        constants = {entry.name for entry in self.proto.graph.initializer}
        return tuple(_layer(node, constants) for node in self.proto.graph.node)

    def constant(self, name: str) -> np.ndarray | None:
        from onnx import numpy_helper

        found = next((e for e in self.proto.graph.initializer if e.name == name), None)
        return None if found is None else np.asarray(numpy_helper.to_array(found))


def _layer(node: Any, constants: set[str]) -> Layer:
    computed = tuple(name for name in node.input if name and name not in constants)
    held = [name for name in node.input[1:2] if name in constants]
    return Layer(node.name, node.op_type, computed, tuple(node.output), held[0] if held else "")


def prepare(path: Path, shapes: Mapping[str, Sequence[int]] | None, folder: Path) -> FloatNetwork:
    """The repairs in order; `folder` is for files in between."""
    import onnx
    from onnx import inliner

    proto = onnx.ModelProto.FromString(whole_bytes(path))
    _check(proto)
    notes: list[str] = []
    if proto.functions:
        proto = inliner.inline_local_functions(proto)
        notes.append("functions of the file were inlined")
    _drop_constant_inputs(proto)
    _use_float32(proto, notes)
    _split_fused(proto, notes)
    _fix_sizes(proto, Pins(shapes), notes)
    proto = _with_opset(proto, notes)
    proto = _folded(proto, folder, notes)
    proto = _with_opset(proto, notes)
    _name_nodes(proto)
    _flatten_biases(proto)
    _tidy(proto)
    return FloatNetwork(_inferred(proto), tuple(notes))


def _check(proto: Any) -> None:
    if not proto.graph.node:
        raise FileError("the file holds no graph with nodes")
    kinds = {node.op_type for node in proto.graph.node}
    if found := sorted(kinds.intersection(_QUANTIZED)):
        raise ModelError(
            f"the model is quantized already: it has {found[0]}",
            hint=FLOAT_ONE,
        )
    if found := sorted(kinds.intersection(_LOOPS)):
        raise ModelError(
            f"the model has {found[0]}: what is inside cannot be calibrated",
            hint="export one static graph without control flow",
        )


def _drop_constant_inputs(proto: Any) -> None:
    """Old exporters list weights among the inputs, as IR versions before 4 demand it."""
    proto.ir_version = max(proto.ir_version, _OLDER_IR)
    held = {entry.name for entry in proto.graph.initializer}
    for entry in [entry for entry in proto.graph.input if entry.name in held]:
        proto.graph.input.remove(entry)


def _use_float32(proto: Any, notes: list[str]) -> None:
    from onnx import TensorProto

    half, single = TensorProto.FLOAT16, TensorProto.FLOAT
    tensors = [*proto.graph.initializer]
    tensors += [a.t for node in proto.graph.node for a in node.attribute if a.HasField("t")]
    found = [tensor for tensor in tensors if tensor.data_type == half]
    entries = (*proto.graph.input, *proto.graph.output)
    borders = [e.type.tensor_type for e in entries if e.type.tensor_type.elem_type == half]
    if not found and not borders:
        return
    for tensor in found:
        _widen(tensor)
    for border in borders:
        border.elem_type = single
    for node in proto.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == half:
                attribute.i = single
    del proto.graph.value_info[:]
    notes.append("16-bit floats became 32-bit ones")


def _split_fused(proto: Any, notes: list[str]) -> None:
    """onnxruntime's FusedConv, which no quantizer knows, as a Conv and what follows it."""
    nodes, count = list(proto.graph.node), 0
    del proto.graph.node[:]
    for node in nodes:
        proto.graph.node.append(node)
        if node.op_type == "FusedConv":
            proto.graph.node.extend(_parts_of(proto.graph.node[-1], proto.graph))
            count += 1
    if count:
        notes.append(f"{count} FusedConv of onnxruntime became Conv and activation")


def _parts_of(node: Any, graph: Any) -> list[Any]:
    """The node becomes a Conv; what follows it is given."""
    from onnx import helper, numpy_helper

    found = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    kind = found.get("activation", b"").decode()
    numbers = list(found.get("activation_params", ()))
    kept = [item for item in node.attribute if not item.name.startswith("activation")]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.op_type, node.domain = "Conv", ""
    value, made = node.output[0], []
    summed = node.input[3] if len(node.input) > 3 else ""
    if summed:
        del node.input[3:]
        made.append(helper.make_node("Add", [f"{value}/conv", summed], [f"{value}/sum"]))
    if kind:
        bounds = [f"{value}/bound{n}" for n in range(len(numbers))] if kind == "Clip" else []
        for name, number in zip(bounds, numbers, strict=False):
            graph.initializer.append(numpy_helper.from_array(np.array(number, np.float32), name))
        names = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}.get(kind, ())
        given = dict(zip(names, numbers, strict=False))
        source = f"{value}/sum" if summed else f"{value}/conv"
        made.append(helper.make_node(kind, [source, *bounds], [value], **given))
    if made:
        node.output[0] = f"{value}/conv"
        made[-1].output[0] = value
    return made


def _widen(tensor: Any) -> None:
    from onnx import numpy_helper

    values = np.asarray(numpy_helper.to_array(tensor), np.float32)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def _fix_sizes(proto: Any, pins: Pins, notes: list[str]) -> None:
    pins.check_names({entry.name: _stated(entry) for entry in proto.graph.input})
    changed = False
    for entry in proto.graph.input:
        dims, stated = entry.type.tensor_type.shape.dim, _stated(entry)
        shape = static_shape(entry.name, stated, pins, notes)
        if list(shape) != stated:
            changed = True
            for dim, size in zip(dims, shape, strict=True):
                dim.dim_value = size
    if changed:  # what was stated for other sizes is inferred again
        del proto.graph.value_info[:]
        for entry in proto.graph.output:
            entry.type.tensor_type.ClearField("shape")


def _stated(entry: Any) -> list[int | str | None]:
    dims = entry.type.tensor_type.shape.dim
    return [d.dim_value if d.dim_value > 0 else d.dim_param or None for d in dims]


def _opset(proto: Any) -> int:
    return next((int(e.version) for e in proto.opset_import if e.domain in ("", "ai.onnx")), 0)


def _with_opset(proto: Any, notes: list[str]) -> Any:
    from onnx import version_converter

    found = _opset(proto)
    if OLDEST_OPSET <= found <= _NEWEST_OPSET:
        return proto
    try:
        made = version_converter.convert_version(proto, _PREFERRED_OPSET)
    except Exception as error:  # the converter raises what it likes
        raise ModelError(
            f"opset {found} could not be converted to {_PREFERRED_OPSET}: {first_line(error)}",
            hint=f"export the model with opset {_PREFERRED_OPSET}",
        ) from error
    notes.append(f"opset {found} became {_PREFERRED_OPSET}")
    return made


def _folded(proto: Any, folder: Path, notes: list[str]) -> Any:
    """By onnxruntime's basic optimisations: constants, BatchNormalization, what does nothing."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folder / "folded.onnx")
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    data = _inferred(proto).SerializeToString()
    try:
        onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelError(
            f"onnxruntime cannot open the model: {first_line(error)}",
            hint="quantize runs the float network in onnxruntime; check that it runs there",
        ) from error
    made = onnx.load_model(folder / "folded.onnx")
    before, after = (
        sum(n.op_type == "BatchNormalization" for n in p.graph.node) for p in (proto, made)
    )
    if before > after:
        notes.append(f"{before - after} BatchNormalization folded into the layers before them")
    return made


def _name_nodes(proto: Any) -> None:
    """The quantizer tells nodes apart by name."""
    used: set[str] = set()
    for number, node in enumerate(proto.graph.node):
        if not node.name or node.name in used:
            node.name = f"{node.op_type}_{number}"
        used.add(node.name)


def _flatten_biases(proto: Any) -> None:
    """The quantizer wants a Gemm's bias as a row of one number for every output."""
    from onnx import numpy_helper

    held = {entry.name: entry for entry in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type != "Gemm" or len(node.input) < 3 or node.input[2] not in held:
            continue
        weights, bias = held.get(node.input[1]), held[node.input[2]]
        turned = any(a.name == "transB" and a.i for a in node.attribute)
        if weights is None or list(bias.dims) == [weights.dims[0 if turned else 1]]:
            continue
        count = weights.dims[0 if turned else 1]
        values = numpy_helper.to_array(bias).reshape(-1)
        if values.size in (1, count):
            name = f"{node.output[0]}_bias"
            row = np.ascontiguousarray(np.broadcast_to(values, (count,)))
            proto.graph.initializer.append(numpy_helper.from_array(row, name))
            node.input[2] = name


def _tidy(proto: Any) -> None:
    """Without constants that nobody reads, and domains that onnxruntime lists because it knows
    them."""
    proto.ir_version = min(proto.ir_version, _NEWEST_IR)
    read = {name for node in proto.graph.node for name in node.input}
    for entry in [e for e in proto.graph.initializer if e.name not in read]:
        proto.graph.initializer.remove(entry)
    used = {node.domain for node in proto.graph.node} | {"", "ai.onnx"}
    kept = [entry for entry in proto.opset_import if entry.domain in used]
    del proto.opset_import[:]
    proto.opset_import.extend(kept)


def _inferred(proto: Any) -> Any:
    import onnx

    try:
        return onnx.shape_inference.infer_shapes(proto, data_prop=True)
    except Exception:  # what cannot be inferred is found out by running it
        return proto


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextmanager
def quiet() -> Iterator[None]:
    """The tools of others print, and log to the root; what matters is in our report."""
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            yield
    finally:
        logger.setLevel(level)


def needs(package: str, module: str, extra: str) -> None:
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise UsageError(
            f"{package} is not installed",
            hint=f"pip install 'npuscope[{extra}]'",
        )
